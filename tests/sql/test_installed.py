import psycopg

SETTINGS = {
    "plan_cache_mode=force_generic_plan",
    "enable_seqscan=off",
    "enable_bitmapscan=off",
    "enable_hashjoin=off",
    "enable_mergejoin=off",
    "jit=off",
}


def test_fresh_database_holds_the_schema(conn: psycopg.Connection) -> None:
    row = conn.execute("SELECT current_schema(), to_regclass('message') IS NOT NULL").fetchone()
    assert row == ("lonnymq", True)


def test_every_function_that_others_call_has_the_planner_settings(conn: psycopg.Connection) -> None:
    found = conn.execute(
        "SELECT p.proname, p.proconfig FROM pg_proc p"
        " WHERE p.pronamespace = 'lonnymq'::REGNAMESPACE AND p.prosecdef"
    ).fetchall()
    assert found
    assert [name for name, config in found if not set(config) > SETTINGS] == []
