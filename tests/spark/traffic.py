"""Messages that go through a queue, so that it has a history and dead letters."""

import psycopg

from tests.invariants import dequeue, dispatch
from tests.spark.consuming import one, until


def finish(
    conn: psycopg.Connection, channel: str, contents: list[bytes], *, settles: bool = True
) -> list[int]:
    """Create, lease and complete messages. Returns their ids."""
    ids = create(conn, channel, contents)
    complete(conn, settles=settles)
    return ids


def settle(conn: psycopg.Connection) -> None:
    """Wait until all transactions that are open now have finished, those of other tests on this server too.

    An archive leaves out rows that are younger than an open transaction, in any database of the server.
    """
    last = one(conn, "SELECT pg_current_xact_id()::TEXT::BIGINT")
    oldest = "SELECT pg_snapshot_xmin(pg_current_snapshot())::TEXT::BIGINT"
    until(lambda: one(conn, oldest) > last, "older transactions to finish")


def create(conn: psycopg.Connection, channel: str, contents: list[bytes]) -> list[int]:
    made = "SELECT id FROM message_create_many(%s, %s::BYTEA[])"
    return [row[0] for row in conn.execute(made, ([channel] * len(contents), contents))]


def complete(conn: psycopg.Connection, *, settles: bool = True) -> None:
    dispatch(conn)
    while taken := dequeue(conn, 1_000, 60_000)[0]:
        conn.execute(
            "SELECT COUNT(*) FROM message_complete_many(%s, %s)",
            ([message.id for message in taken], [message.token for message in taken]),
        )
        dispatch(conn)
    if settles:
        settle(conn)


def kill(conn: psycopg.Connection, channel: str, contents: list[bytes], error: str = "no route") -> list[int]:
    """Make messages that use up their only attempt. Returns their ids."""
    made = "SELECT id FROM message_create_many(%s, %s::BYTEA[], p_max_attempts => %s)"
    count = len(contents)
    ids = [row[0] for row in conn.execute(made, ([channel] * count, contents, [1] * count))]
    dispatch(conn)
    while taken := dequeue(conn, 1_000, 60_000)[0]:
        for message in taken:
            conn.execute("SELECT message_retry(%s, %s, p_error => %s)", (message.id, message.token, error))
    settle(conn)
    return ids
