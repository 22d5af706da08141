"""Waits until a program has closed its connections."""

import time

import psycopg

OTHERS = (
    "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


def until_others_are_closed(conn: psycopg.Connection, seconds: float = 10) -> None:
    """PostgreSQL notices the end of a connection a moment later."""
    deadline = time.monotonic() + seconds
    while conn.execute(OTHERS).fetchone() != (0,):
        assert time.monotonic() < deadline, "a connection was left open"
        time.sleep(0.01)
