"""Traffic through a queue, so that it has a past."""

import psycopg

from tests.judge import dequeue, dispatch


def finish(conn: psycopg.Connection, channel: str, contents: list[bytes]) -> list[int]:
    """Create, lease and complete messages. Returns their ids."""
    ids = create(conn, channel, contents)
    complete(conn)
    return ids


def create(conn: psycopg.Connection, channel: str, contents: list[bytes]) -> list[int]:
    made = "SELECT id FROM message_create_many(%s, %s::BYTEA[])"
    return [row[0] for row in conn.execute(made, ([channel] * len(contents), contents))]


def complete(conn: psycopg.Connection) -> None:
    dispatch(conn)
    while taken := dequeue(conn, 1_000, 60_000)[0]:
        conn.execute(
            "SELECT COUNT(*) FROM message_complete_many(%s, %s)",
            ([message.id for message in taken], [message.token for message in taken]),
        )
        dispatch(conn)


def kill(conn: psycopg.Connection, channel: str, contents: list[bytes], error: str = "no route") -> list[int]:
    """Messages that used up their only attempt. Returns their ids."""
    made = "SELECT id FROM message_create_many(%s, %s::BYTEA[], p_max_attempts => %s)"
    count = len(contents)
    ids = [row[0] for row in conn.execute(made, ([channel] * count, contents, [1] * count))]
    dispatch(conn)
    while taken := dequeue(conn, 1_000, 60_000)[0]:
        for message in taken:
            conn.execute("SELECT message_defer(%s, %s, p_error => %s)", (message.id, message.token, error))
    return ids
