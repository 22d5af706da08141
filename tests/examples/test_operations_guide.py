"""The statements of docs/operations.md run and find what is in the queue."""

from __future__ import annotations

from pathlib import Path

import psycopg

from lonnymq import Queue
from lonnymq.install import install
from tests.database import Connect, unique_name
from tests.examples.page import CHECKOUT, blocks, check, runnable
from tests.invariants import dequeue, dispatch

PAGE = CHECKOUT / "docs" / "operations.md"
ERROR = 'Traceback (most recent call last):\n  File "shop.py", line 7, in send\nOSError: no route'


def statements() -> list[str]:
    return [block.code for block in runnable(PAGE) if block.language == "sql"]


def test_the_queries_find_what_is_in_the_queue(conn: psycopg.Connection) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE)")
    for channel in ("megacorp", "acme"):
        for _ in range(4):
            conn.execute("SELECT message_create(%s, '')", (channel,))
    dispatch(conn)
    done, dead, *_ = dequeue(conn, 4)[0]
    conn.execute("SELECT message_complete(%s, %s)", (done.id, done.token))
    for _ in range(5):
        conn.execute("SELECT message_retry(%s, %s, p_error => %s)", (dead.id, dead.token, ERROR))
        dispatch(conn)
        if again := [each for each in dequeue(conn, 8)[0] if each.id == dead.id]:
            [dead] = again
    for channel in ("megacorp", "acme"):
        conn.execute("SELECT message_create(%s, '')", (channel,))
    dispatch(conn)
    ran = [conn.execute(block.encode()) for block in statements() if block.count(";") == 1]
    stats, channels, leases, deaths, waits, *_ = [
        each.fetchall() for each in ran if each.description is not None
    ]
    assert stats[0][0:5] == (2, 2, 0, 6, 1)
    assert {row[0] for row in channels} == {"megacorp", "acme"}
    assert len(leases) == 6
    assert [(row[5], row[1]) for row in deaths] == [("OSError: no route", 1)]
    assert [row[1] for row in waits] == [1]


def test_every_statement_runs(conn: psycopg.Connection) -> None:
    for block in statements():
        conn.execute(block.encode())
    assert conn.execute("SELECT max_concurrency, paused FROM channel_get('megacorp')").fetchone() == (
        None,
        False,
    )


def test_the_tenants_login_is_bound(conn: psycopg.Connection, connect: Connect) -> None:
    """Under other names, since roles belong to the whole server."""
    [block] = [block.code for block in blocks(PAGE) if block.code.startswith("CREATE ROLE")]
    schema, login = unique_name("q"), unique_name("acme_app")
    install(conn, schema, roles=True)
    conn.execute(block.replace("lonnymq", schema).replace("acme_app", login).encode())
    tenant = connect(user=login, password="change me", options=f"-c search_path={schema}")  # noqa: S106
    assert tenant.execute("SELECT bound_channels()").fetchone() == (["acme"],)
    assert tenant.execute("SELECT result FROM message_create('acme', '')").fetchone() == ("created",)
    tenant.close()
    for role in (login, *(f"{schema}_{role}" for role in ("admin", "producer", "observer", "consumer"))):
        conn.execute(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}".encode())


def test_the_first_query_shows_that_nobody_consumes(conn: psycopg.Connection) -> None:
    conn.execute("SELECT message_create('acme', '', to_epoch(now()) - 60000)")
    conn.execute("UPDATE message SET created_at = created_at - 60000")
    [(waiting, *_, oldest_due_ms)] = conn.execute(statements()[0].encode()).fetchall()
    assert (waiting, oldest_due_ms >= 60_000) == (1, True)


def test_restored_messages_are_served(dsn: str, tmp_path: Path) -> None:
    with Queue(dsn) as queue:
        queue.enqueue_many(range(5), channel="acme")
        [leased] = queue.dequeue()
        queue.enqueue_many(range(5), channel="bluebird")  # after the last dispatch
        assert check(PAGE, tmp_path, dsn) == "There are no dead messages.\n"
        assert len(queue.dequeue(20)) == 9
        assert queue.complete(leased) == "completed"
