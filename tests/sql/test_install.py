"""The installer against a real PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from psycopg import sql

from lonnymq import errors
from lonnymq.embedded import binaries
from lonnymq.install import (
    CONTRACT,
    SqlFiles,
    install,
    plan,
    read,
    script,
    uninstall,
    uninstall_plan,
    upgrade,
    verify,
)
from lonnymq.install.files import Function, Step, View
from lonnymq.statement import identifier
from tests.database import Connect

Conn = psycopg.Connection[Any]

STEP_1 = Step(
    1, "core", "CREATE TABLE thing (id BIGINT PRIMARY KEY); CREATE TABLE part (id BIGINT REFERENCES thing);"
)
STEP_2 = Step(
    2,
    "more",
    "ALTER TABLE thing ADD size BIGINT; CREATE SEQUENCE turn; CREATE VIEW seen AS SELECT * FROM thing;",
)
STEP_3 = Step(
    3,
    "drop",
    "DROP VIEW IF EXISTS big, all_things; DROP FUNCTION IF EXISTS thing_count();"
    " ALTER TABLE part RENAME TO piece;",
)


def function(name: str, returns: str, body: str) -> Function:
    return Function(
        name,
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS {returns} LANGUAGE plpgsql AS"
        f" $$ BEGIN RETURN ({body}); END $$ SET search_path FROM CURRENT",
    )


def view(name: str, query: str) -> View:
    return View(name, f"CREATE OR REPLACE VIEW {name} WITH (security_barrier) AS {query}")


COUNT = function("thing_count", "BIGINT", "SELECT count(*) FROM thing")
LEAST = function("thing_least", "thing", "SELECT t FROM thing t LIMIT 1")
FIRST = SqlFiles((STEP_1,), (COUNT,))
SECOND = SqlFiles(
    (STEP_1, STEP_2),
    (COUNT, LEAST),
    (
        view("all_things", "SELECT t.id, thing_count() AS of FROM thing t"),
        view("big", "SELECT id FROM all_things"),
    ),
)
THIRD = SqlFiles((STEP_1, STEP_2, STEP_3), (function("thing_count", "TEXT", "SELECT 'three'"), LEAST))

NAMES = [
    "lonny",
    "my q",
    'we"ird',
    "ünï",
    "x" * 63,
    "o'quote",
    "do$lar",
    "$lonnymq$",
    "$step",
    "back\\slash",
    "\\'",
    "A;B--",
]


def apply(conn: Conn, statements: Sequence[str]) -> None:
    with conn.transaction():
        for statement in statements:
            conn.execute(statement.encode())


def contents(conn: Conn, schema: str) -> list[str]:
    """Everything in the schema that has a name, and the schema itself."""
    query = """
        WITH n AS (SELECT oid FROM pg_namespace WHERE nspname = %s)
        SELECT 'schema' FROM n
        UNION ALL SELECT 'relation ' || relname FROM pg_class, n WHERE relnamespace = n.oid
        UNION ALL SELECT 'function ' || proname FROM pg_proc, n WHERE pronamespace = n.oid
        UNION ALL SELECT 'type ' || typname FROM pg_type, n WHERE typnamespace = n.oid
        ORDER BY 1"""
    return [row[0] for row in conn.execute(query, [schema]).fetchall()]


def call(conn: Conn, schema: str, name: str = "thing_count") -> object:
    row = conn.execute(sql.SQL("SELECT {}()").format(sql.Identifier(schema, name))).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize("schema", NAMES)
def test_install_again_and_uninstall_under_any_name(conn: Conn, schema: str) -> None:
    found = install(conn, schema, SECOND)
    assert (found.schema, found.step) == (schema, 2)
    assert call(conn, schema) == 0
    once = contents(conn, schema)
    assert install(conn, schema, SECOND) == verify(conn, schema) == found
    assert contents(conn, schema) == once
    uninstall(conn, schema)
    assert contents(conn, schema) == []
    with pytest.raises(errors.SchemaMissing):
        verify(conn, schema)


@pytest.mark.parametrize("schema", NAMES)
def test_the_script_runs_through_psql_under_any_name(conn: Conn, dsn: str, schema: str) -> None:
    psql = [str(binaries() / "psql"), "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", dsn]
    env = os.environ | {"PGCLIENTENCODING": "LATIN1"}

    def run(text: str) -> None:
        done = subprocess.run(psql, input=text.encode(), capture_output=True, check=False, env=env)
        assert done.returncode == 0, done.stderr.decode()

    run(script(plan(schema, SECOND)))
    assert verify(conn, schema).step == 2
    assert call(conn, schema) == 0
    run(script(uninstall_plan(schema)))
    assert contents(conn, schema) == []


def test_each_step_runs_once_and_what_is_in_the_tables_stays(conn: Conn) -> None:
    install(conn, "q", FIRST)
    conn.execute("INSERT INTO q.thing VALUES (1), (2)")
    assert upgrade(conn, "q", SECOND).step == 2
    assert install(conn, "q", SECOND).step == 2
    assert call(conn, "q") == 2
    steps = conn.execute("SELECT step, name, release FROM q.migration ORDER BY step").fetchall()
    assert steps == [(1, "core", "0.1.0"), (2, "more", "0.1.0")]


def test_a_step_drops_a_function_whose_output_changes(conn: Conn) -> None:
    install(conn, "q", SECOND)
    with pytest.raises(psycopg.errors.InvalidFunctionDefinition):
        install(conn, "q", SqlFiles(SECOND.steps, THIRD.functions))
    install(conn, "q", THIRD)
    assert call(conn, "q") == "three"
    uninstall(conn, "q")
    assert contents(conn, "q") == []


def test_several_schemas_live_in_one_database(conn: Conn) -> None:
    install(conn, "a", SECOND)
    install(conn, "b", FIRST)
    conn.execute("INSERT INTO a.thing VALUES (1)")
    assert (call(conn, "a"), call(conn, "b")) == (1, 0)
    uninstall(conn, "a")
    assert contents(conn, "a") == []
    assert call(conn, "b") == 0


def test_functions_find_their_own_schema_first(conn: Conn) -> None:
    install(conn, "q", FIRST)
    conn.execute("CREATE TEMP TABLE thing (id BIGINT)")
    conn.execute("INSERT INTO thing VALUES (1)")
    assert call(conn, "q") == 0


@pytest.mark.parametrize("count", range(len(plan("q", SECOND))))
def test_killed_after_any_statement_of_an_install(connect: Connect, count: int) -> None:
    watcher = connect()
    statements = plan("q", SECOND)
    _die_after(connect, watcher, statements[: count + 1])
    assert contents(watcher, "q") == []
    assert install(watcher, "q", SECOND).step == 2
    assert call(watcher, "q") == 0


@pytest.mark.parametrize("count", range(len(plan("q", THIRD))))
def test_killed_after_any_statement_of_an_upgrade(connect: Connect, count: int) -> None:
    watcher = connect()
    install(watcher, "q", SECOND)
    before = contents(watcher, "q")
    _die_after(connect, watcher, plan("q", THIRD, must_exist=True)[: count + 1])
    assert contents(watcher, "q") == before
    assert call(watcher, "q") == 0
    assert upgrade(watcher, "q", THIRD).step == 3
    assert call(watcher, "q") == "three"


@pytest.mark.parametrize("count", range(len(uninstall_plan("q"))))
def test_killed_after_any_statement_of_a_removal(connect: Connect, count: int) -> None:
    watcher = connect()
    install(watcher, "q", SECOND)
    before = contents(watcher, "q")
    _die_after(connect, watcher, uninstall_plan("q")[: count + 1])
    assert contents(watcher, "q") == before
    uninstall(watcher, "q")
    assert contents(watcher, "q") == []


@pytest.mark.slow
@pytest.mark.parametrize("step", [25, pytest.param(1, marks=pytest.mark.long)])
def test_killed_after_any_statement_of_what_the_package_holds(connect: Connect, step: int) -> None:
    watcher = connect()
    statements = plan("q")
    killed_after = [*range(0, len(statements), step), len(statements) - 1]
    for count in killed_after:
        _die_after(connect, watcher, statements[: count + 1])
        assert contents(watcher, "q") == []
    assert install(watcher, "q").step == read().last_step
    watcher.execute("SELECT q.message_create('acme', 'kept')")
    before = contents(watcher, "q")
    for count in killed_after:
        _die_after(connect, watcher, statements[: count + 1])
    assert install(watcher, "q").step == read().last_step
    assert contents(watcher, "q") == before
    assert watcher.execute("SELECT content FROM q.message").fetchall() == [(b"kept",)]


def _die_after(connect: Connect, watcher: Conn, statements: Sequence[str]) -> None:
    victim = connect(autocommit=False)
    for statement in statements:
        victim.execute(statement.encode())
    pid = victim.info.backend_pid
    watcher.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
    with pytest.raises(psycopg.OperationalError):
        victim.commit()
    victim.close()


@pytest.mark.parametrize("before", [None, FIRST])
def test_many_at_once(connect: Connect, before: SqlFiles | None) -> None:
    conns = [connect() for _ in range(6)]
    if before is not None:
        install(conns[0], "q", before)
    barrier = threading.Barrier(len(conns))
    failed: list[psycopg.Error] = []

    def run(conn: Conn) -> None:
        barrier.wait()
        try:
            install(conn, "q", SECOND)
        except psycopg.Error as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=[conn]) for conn in conns]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert verify(conns[0], "q").step == 2


def test_one_installation_waits_for_another(connect: Connect) -> None:
    first, second, watcher = connect(autocommit=False), connect(autocommit=False), connect()
    for statement in plan("q", SECOND):
        first.execute(statement.encode())
    waiting = threading.Thread(target=install, args=[second, "q", SECOND])
    waiting.start()
    locked = "SELECT FROM pg_locks WHERE pid = %s AND locktype = 'advisory' AND NOT granted"
    while watcher.execute(locked, [second.info.backend_pid]).fetchone() is None:
        assert waiting.is_alive()
    install(watcher, "other", SECOND)
    first.commit()
    waiting.join()
    assert verify(second, "q").step == 2


def test_a_plain_role_installs_with_create_on_the_database_only(conn: Conn, role: str) -> None:
    database = sql.Identifier(conn.info.dbname)
    conn.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(database, sql.Identifier(role)))
    conn.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(role)))
    install(conn, "q", SECOND)
    assert call(conn, "q") == 0
    upgrade(conn, "q", THIRD)
    uninstall(conn, "q")
    assert contents(conn, "q") == []


def test_a_plain_role_installs_into_a_schema_it_was_given(conn: Conn, role: str) -> None:
    conn.execute(sql.SQL("CREATE SCHEMA q AUTHORIZATION {}").format(sql.Identifier(role)))
    conn.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(role)))
    install(conn, "q", SECOND)
    assert call(conn, "q") == 0
    uninstall(conn, "q")
    assert contents(conn, "q") == ["schema"]


@pytest.fixture
def role(conn: Conn) -> Iterator[str]:
    name = f"plain {conn.info.dbname}"
    conn.execute(sql.SQL("CREATE ROLE {} NOSUPERUSER").format(sql.Identifier(name)))
    yield name
    conn.execute("RESET SESSION AUTHORIZATION")
    conn.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
    conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def test_uninstall_leaves_what_it_did_not_make(conn: Conn) -> None:
    conn.execute("CREATE SCHEMA q")
    conn.execute("CREATE TABLE q.mine (id INT)")
    conn.execute("CREATE FUNCTION q.also_mine() RETURNS INT LANGUAGE sql AS 'SELECT 1'")
    before = contents(conn, "q")
    install(conn, "q", SECOND)
    uninstall(conn, "q")
    assert contents(conn, "q") == before


def test_uninstall_keeps_a_schema_into_which_something_else_moved(conn: Conn) -> None:
    install(conn, "q", SECOND)
    conn.execute("CREATE TABLE q.mine (id INT)")
    uninstall(conn, "q")
    assert "relation mine" in contents(conn, "q")
    assert "relation thing" not in contents(conn, "q")


def test_uninstall_refuses_to_break_what_depends_on_it(conn: Conn) -> None:
    install(conn, "q", SECOND)
    conn.execute("CREATE TABLE mine (id BIGINT REFERENCES q.thing)")
    before = contents(conn, "q")
    with pytest.raises(psycopg.errors.DependentObjectsStillExist):
        uninstall(conn, "q")
    assert contents(conn, "q") == before


def test_uninstall_removes_functions_that_tables_lean_on(conn: Conn) -> None:
    install(conn, "q", SECOND)
    conn.execute("ALTER TABLE q.part ADD n BIGINT DEFAULT q.thing_count()")
    uninstall(conn, "q")
    assert contents(conn, "q") == []


def test_views_stay_with_their_rights_and_go_with_the_installation(conn: Conn) -> None:
    install(conn, "q", SECOND)
    assert conn.execute("SELECT * FROM q.big").fetchall() == []
    wider = view("big", "SELECT id, of FROM all_things")
    conn.execute("CREATE VIEW public.mine AS SELECT id FROM q.big")
    install(conn, "q", SqlFiles(SECOND.steps, SECOND.functions, (SECOND.views[0], wider)))
    conn.execute("INSERT INTO q.thing VALUES (7)")
    assert conn.execute("SELECT * FROM q.big").fetchall() == [(7, 1)]
    with pytest.raises(psycopg.errors.DependentObjectsStillExist):
        uninstall(conn, "q")
    conn.execute("DROP VIEW public.mine")
    uninstall(conn, "q")
    assert contents(conn, "q") == []


def test_uninstall_drops_views_that_a_later_release_no_longer_has(conn: Conn) -> None:
    install(conn, "q", SECOND)
    install(conn, "q", SqlFiles(SECOND.steps, SECOND.functions, (view("other", "SELECT 1 AS one"),)))
    assert {"relation all_things", "relation big", "relation other"} <= set(contents(conn, "q"))
    uninstall(conn, "q")
    assert contents(conn, "q") == []


def test_uninstall_drops_views_that_lean_on_functions_that_lean_on_views(conn: Conn) -> None:
    least = function("big_least", "big", "SELECT b FROM big b LIMIT 1")
    install(conn, "q", SECOND)
    install(conn, "q", SqlFiles(SECOND.steps, (*SECOND.functions, least), SECOND.views))
    assert call(conn, "q", "big_least") is None
    uninstall(conn, "q")
    assert contents(conn, "q") == []


def test_uninstall_drops_partitions_made_at_run_time(conn: Conn) -> None:
    past = Step(1, "past", "CREATE TABLE past (at BIGINT) PARTITION BY RANGE (at);")
    later = Step(2, "rest", "CREATE TABLE past_other PARTITION OF past DEFAULT;")
    install(conn, "q", SqlFiles((past, later), ()))
    conn.execute("CREATE TABLE q.past_1 PARTITION OF q.past FOR VALUES FROM (1) TO (2)")
    uninstall(conn, "q")
    assert contents(conn, "q") == []


def test_the_records_of_an_earlier_release_are_extended_or_removed(conn: Conn) -> None:
    older = "ALTER TABLE q.installation DROP COLUMN views, DROP COLUMN roles"
    install(conn, "q", FIRST)
    conn.execute(older.encode())
    upgrade(conn, "q", SECOND)
    records = conn.execute("SELECT views, roles FROM q.installation").fetchall()
    assert records == [(["all_things", "big"], False)]
    uninstall(conn, "q")
    assert contents(conn, "q") == []
    install(conn, "q", FIRST)
    conn.execute(older.encode())
    uninstall(conn, "q")
    assert contents(conn, "q") == []


RIGHTS_OF_PUBLIC = """
    WITH n AS (SELECT oid, nspacl FROM pg_namespace WHERE nspname = 'q'),
    rights AS (
        SELECT 'schema' AS name, nspacl AS acl FROM n
        UNION ALL SELECT relname, relacl FROM pg_class, n WHERE relnamespace = n.oid
        UNION ALL
        SELECT proname, COALESCE(proacl, acldefault('f', proowner)) FROM pg_proc, n WHERE pronamespace = n.oid
    )
    SELECT name FROM rights, aclexplode(acl) a WHERE a.grantee = 0 ORDER BY 1"""


def test_public_gets_nothing_whatever_the_owner_gives_by_default(conn: Conn) -> None:
    for kind in ("TABLES", "SEQUENCES", "SCHEMAS"):
        conn.execute(f"ALTER DEFAULT PRIVILEGES GRANT ALL ON {kind} TO PUBLIC".encode())
    identity = Step(2, "identity", "CREATE TABLE numbered (id BIGINT GENERATED ALWAYS AS IDENTITY);")
    conn.execute("CREATE TABLE public.probe ()")
    install(conn, "q", SqlFiles((STEP_1, identity), SECOND.functions, SECOND.views))
    assert conn.execute(RIGHTS_OF_PUBLIC).fetchall() == []
    conn.execute("CREATE FUNCTION q.thing_count(INT) RETURNS INT LANGUAGE sql AS 'SELECT 1'")
    conn.execute("CREATE FUNCTION q.mine() RETURNS INT LANGUAGE sql AS 'SELECT 1'")
    conn.execute("GRANT SELECT (id) ON q.thing TO PUBLIC")
    upgrade(conn, "q", SqlFiles((STEP_1, identity), (COUNT,)))
    assert conn.execute(RIGHTS_OF_PUBLIC).fetchall() == [("mine",)]
    columns = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'q.thing'::REGCLASS AND attacl <> '{}'"
    assert conn.execute(columns.encode()).fetchone() == (0,)


def test_rights_of_public_on_the_users_own_schema_stay(conn: Conn) -> None:
    conn.execute("CREATE SCHEMA q")
    conn.execute("GRANT USAGE ON SCHEMA q TO PUBLIC")
    install(conn, "q", SECOND)
    assert conn.execute(RIGHTS_OF_PUBLIC).fetchall() == [("schema",)]


def test_the_callers_search_path_does_not_lead_to_anothers_functions(conn: Conn) -> None:
    install(conn, "q", SECOND)
    conn.execute("CREATE SCHEMA evil")
    # It is a closer match than PostgreSQL's own, which takes any type.
    conn.execute(
        "CREATE FUNCTION evil.to_jsonb(q.installation) RETURNS JSONB LANGUAGE plpgsql"
        " AS $$ BEGIN RAISE 'evil ran'; END $$"
    )
    conn.execute("SET search_path TO evil")
    upgrade(conn, "q", SECOND)
    with pytest.raises(psycopg.errors.DependentObjectsStillExist, match="installation"):
        uninstall(conn, "q")
    conn.execute("DROP FUNCTION evil.to_jsonb(q.installation)")
    uninstall(conn, "q")
    assert contents(conn, "q") == []


@pytest.mark.parametrize(
    "mine",
    [
        "CREATE TABLE q.thing (id INT)",
        "CREATE VIEW q.all_things AS SELECT 1 AS id",
        "CREATE TABLE q.big (id INT)",
        "CREATE TABLE q.migration (version TEXT)",
        "CREATE VIEW q.installation AS SELECT 1 AS one",
        "CREATE FUNCTION q.thing_count() RETURNS BIGINT LANGUAGE sql AS 'SELECT CAST(7 AS BIGINT)'",
    ],
)
def test_install_refuses_to_replace_what_is_not_ours(conn: Conn, mine: str) -> None:
    conn.execute("CREATE SCHEMA q")
    conn.execute(mine.encode())
    before = contents(conn, "q")
    with pytest.raises(
        errors.SchemaOccupied, match=mine.split()[2].split("(", maxsplit=1)[0].removeprefix("q.")
    ):
        install(conn, "q", SECOND)
    assert contents(conn, "q") == before


def test_upgrade_refuses_to_replace_what_is_not_ours(conn: Conn) -> None:
    install(conn, "q", FIRST)
    for name in ("seen", "big"):
        conn.execute(f"CREATE TABLE q.{name} (id INT)".encode())
        with pytest.raises(errors.SchemaOccupied, match=name):
            upgrade(conn, "q", SECOND)
        conn.execute(f"DROP TABLE q.{name}".encode())


@pytest.mark.parametrize(
    "make", ["SELECT 1", "CREATE SCHEMA q", "CREATE SCHEMA q CREATE TABLE migration (step INT)"]
)
@pytest.mark.parametrize("run", [upgrade, uninstall, verify])
def test_there_must_be_an_installation(conn: Conn, run: Callable[[Conn, str], Any], make: str) -> None:
    conn.execute(make.encode())
    before = contents(conn, "q")
    with pytest.raises(errors.SchemaMissing):
        run(conn, "q")
    assert contents(conn, "q") == before


def test_newer_code_on_an_older_schema_says_to_upgrade(conn: Conn) -> None:
    apply(conn, plan("q", FIRST, release="0.0.9", contract=0, oldest_contract=0))
    with pytest.raises(errors.SchemaOutdated, match=r"0\.0\.9.*lonnymq upgrade"):
        verify(conn, "q")
    upgrade(conn, "q", FIRST)
    assert verify(conn, "q").release == "0.1.0"


def test_a_newer_schema_works_while_it_serves_our_contract(conn: Conn) -> None:
    apply(conn, plan("q", THIRD, release="9.1", contract=CONTRACT + 5, oldest_contract=CONTRACT))
    assert verify(conn, "q").contract == CONTRACT + 5
    apply(conn, plan("q", THIRD, release="9.2", contract=CONTRACT + 5, oldest_contract=CONTRACT + 1))
    with pytest.raises(errors.SchemaTooNew, match=r"upgrade the lonnymq package to >= 9\.2"):
        verify(conn, "q")


@pytest.mark.parametrize(
    "newer",
    [
        plan("q", SECOND, release="0.1.0"),
        plan("q", FIRST, release="0.10"),
        plan("q", FIRST, release="0.1.1.dev3"),
        plan("q", FIRST, release="0.1.0", contract=CONTRACT + 1),
    ],
)
def test_older_code_does_not_install_over_a_newer_schema(conn: Conn, newer: Sequence[str]) -> None:
    apply(conn, newer)
    before = conn.execute("SELECT * FROM q.installation").fetchall()
    for run in (install, upgrade):
        with pytest.raises(errors.SchemaTooNew, match="upgrade the lonnymq package"):
            run(conn, "q", FIRST)
    assert conn.execute("SELECT * FROM q.installation").fetchall() == before
    uninstall(conn, "q")
    assert contents(conn, "q") == []


def test_releases_are_compared_as_numbers(conn: Conn) -> None:
    for older, newer in pairwise(["0.9", "0.9.1", "0.10", "0.10.2rc1", "1.0", "10.0.0"]):
        apply(conn, plan("q", FIRST, release=newer))
        with pytest.raises(psycopg.Error) as caught:
            apply(conn, plan("q", FIRST, release=older))
        assert caught.value.sqlstate == "LM103"


def test_it_joins_the_callers_transaction(connect: Connect) -> None:
    conn, other = connect(autocommit=False), connect()
    conn.execute("SET LOCAL search_path TO public, pg_temp")
    install(conn, "q", SECOND)
    assert verify(conn, "q").step == 2
    assert conn.execute("SHOW search_path").fetchone() == ("public, pg_temp",)
    assert conn.execute("SHOW check_function_bodies").fetchone() == ("on",)
    assert contents(other, "q") == []
    conn.rollback()
    assert contents(other, "q") == []
    install(conn, "q", SECOND)
    assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert "schema" in contents(other, "q")


def test_a_failure_does_not_spoil_the_callers_transaction(connect: Connect) -> None:
    conn = connect(autocommit=False)
    conn.execute("CREATE TABLE mine (id INT)")
    with pytest.raises(errors.SchemaMissing):
        upgrade(conn, "q", SECOND)
    conn.execute("INSERT INTO mine VALUES (1)")
    conn.commit()


def test_isolation_levels(connect: Connect) -> None:
    conn = connect(autocommit=False)
    conn.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    assert install(conn, "q", SECOND).step == 2
    conn.execute("SELECT 1")
    with pytest.raises(errors.WrongIsolationLevel):
        install(conn, "q", SECOND)


def test_the_callers_row_and_cursor_factories_do_not_matter(connect: Connect) -> None:
    conn = connect(row_factory=psycopg.rows.dict_row, cursor_factory=psycopg.RawCursor)
    install(conn, "q", SECOND)
    with conn.transaction():
        assert verify(conn, "q").step == 2


def test_what_the_package_holds_is_installed_and_removed_whole(conn: Conn) -> None:
    schema = "every thing"
    found = install(conn, schema)
    assert found.step == read().last_step
    once = contents(conn, schema)
    install(conn, schema)
    assert contents(conn, schema) == once
    query = "SELECT proname FROM pg_proc WHERE pronamespace = CAST(%s AS REGNAMESPACE)"
    names = {name for (name,) in conn.execute(query, [identifier(schema)])}
    assert names == {function.name for function in read().functions}
    uninstall(conn, schema)
    assert contents(conn, schema) == []


@pytest.mark.parametrize("roles", ["x", 1, None])
def test_roles_are_asked_for_with_a_bool(conn: psycopg.Connection, roles: Any) -> None:
    """Because it becomes part of a statement."""
    with pytest.raises(errors.InvalidArgument, match="neither True nor False"):
        install(conn, "q", roles=roles)
