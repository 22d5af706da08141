import psycopg


def test_fresh_database_holds_the_schema(conn: psycopg.Connection) -> None:
    row = conn.execute("SELECT current_schema(), to_regclass('message') IS NOT NULL").fetchone()
    assert row == ("lonnymq", True)
