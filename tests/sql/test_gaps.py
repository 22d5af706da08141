"""What a reader steps over, and what it must not step over."""

import psycopg
import pytest

from tests.database import Connect, until_waiting
from tests.judge import check, fold


def create(conn: psycopg.Connection, contents: list[str]) -> None:
    conn.execute(
        "SELECT COUNT(*) FROM message_create_many(array_fill('c'::TEXT, ARRAY[%s]), %s::BYTEA[])",
        (len(contents), contents),
    )


def take(conn: psycopg.Connection, limit: int) -> list[str]:
    rows = conn.execute("SELECT convert_from(content, 'utf8') FROM message_dequeue(%s)", (limit,)).fetchall()
    return [content for (content,) in rows if content is not None]


@pytest.mark.parametrize("limit", [1, 2])
def test_newcomers_that_could_not_be_placed_are_not_stepped_over(connect: Connect, limit: int) -> None:
    """They committed inside a gap while a consumer held the channel's row, and nobody folds after that."""
    conn, producer, consumer = connect(), connect(), connect()
    create(conn, ["before 1"])
    fold(conn)
    create(conn, ["before 2", "before 3"])
    fold(conn)
    producer.execute("BEGIN")
    create(producer, [f"late {number:03}" for number in range(200)])
    create(conn, ["after 1", "after 2"])
    fold(conn)
    assert conn.execute("SELECT cardinality(gaps) FROM ring").fetchone() == (4,)
    consumer.execute("BEGIN")
    assert take(consumer, 1) == ["before 1"]
    producer.execute("COMMIT")
    fold(conn)
    assert conn.execute("SELECT key FROM postponed").fetchall() == [("cc",)]
    consumer.execute("COMMIT")
    served = [content for _ in range(300) for content in take(conn, limit)][:204]
    late = [f"late {number:03}" for number in range(200)]
    assert served == ["before 2", "before 3", *late, "after 1", "after 2"]


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
def test_a_channel_is_deleted_while_a_message_comes(connect: Connect, level: str) -> None:
    """It looks, and waits; what is folded meanwhile keeps the channel's place."""
    conn, deleter = connect(), connect()
    create(conn, ["served"])
    fold(conn)
    conn.execute("SELECT message_cancel(id) FROM message")
    fold(conn)
    deleter.execute(f"BEGIN ISOLATION LEVEL {level}")
    deleter.execute("SELECT FROM message")
    create(conn, ["came"])
    fold(conn)
    result = deleter.execute("SELECT result FROM channel_delete('c')").fetchone()
    deleter.execute("COMMIT")
    assert result == ("not_empty" if level == "READ COMMITTED" else "deleted",)
    fold(conn)
    assert take(conn, 1) == ["came"]


def test_a_message_that_comes_while_the_channel_goes(connect: Connect) -> None:
    """Between the look for messages and the end of the row: the deleter waits there for somebody."""
    conn, deleter, other = connect(), connect(), connect()
    create(conn, ["served"])
    fold(conn)
    conn.execute("SELECT message_cancel(id) FROM message")
    fold(conn)
    conn.execute("INSERT INTO tally (channel, served) VALUES ('c', 1)")
    other.execute("BEGIN")
    other.execute("SELECT FROM tally WHERE channel = 'c' FOR UPDATE")
    deleter.execute("SET statement_timeout = '60s'")
    deleter.pgconn.send_query(b"SELECT result FROM channel_delete('c')")
    until_waiting(conn, deleter)
    create(conn, ["came"])
    fold(conn)
    other.execute("COMMIT")
    finish(deleter)
    fold(conn)
    assert take(conn, 1) == ["came"]
    check(conn)


def finish(conn: psycopg.Connection) -> None:
    """Read the answer of a query that was sent."""
    while conn.pgconn.get_result() is not None:
        pass
