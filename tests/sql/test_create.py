"""message_create and message_create_many."""

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import check, dequeue, dispatch, drain


def create(conn: psycopg.Connection, channel: str, content: bytes, dequeue_at: int | None = None) -> int:
    row = conn.execute("SELECT * FROM message_create(%s, %s, %s)", (channel, content, dequeue_at)).fetchone()
    assert row is not None
    assert row[1] == "created"
    return int(row[0])


def test_what_was_created_is_delivered_byte_for_byte(conn: psycopg.Connection) -> None:
    """Invariant 3."""
    content = bytes(range(256)) * 100
    conn.execute(
        "SELECT message_create('a', %s, NULL, %s, 7)", (content, Jsonb({"trace": "1", "n": [1, None]}))
    )
    dispatch(conn)
    [message], _ = dequeue(conn)
    assert (message.channel, message.content, message.headers) == (
        "a",
        content,
        {"trace": "1", "n": [1, None]},
    )
    assert (message.state, message.attempts) == (None, 1)


def test_a_transactions_messages_keep_their_order(conn: psycopg.Connection) -> None:
    """Invariant 11: one default dequeue_at per transaction, so ids decide, across calls and statements."""
    with conn.transaction():
        ids = [create(conn, "a", b"%d" % n) for n in range(5)]
        rows = conn.execute(
            "SELECT id FROM message_create_many(ARRAY['a', 'a', 'a'], ARRAY['', '', '']::BYTEA[])"
        )
        ids += [row[0] for row in rows]
    assert ids == sorted(ids)
    assert [message.id for message in drain(conn, limit=3)] == ids


def test_urgent_before_ordinary_before_scheduled(conn: psycopg.Connection) -> None:
    """Invariants 9 and 11."""
    clock = FakeClock(conn)
    later = create(conn, "a", b"later", clock.at + 500)
    ordinary = create(conn, "a", b"ordinary")
    urgent = create(conn, "a", b"urgent", -1)
    most_urgent = create(conn, "a", b"most urgent", -(2**53))
    assert [message.id for message in drain(conn)] == [most_urgent, urgent, ordinary]
    clock.advance(499)
    assert drain(conn) == []
    clock.advance(1)
    assert [message.id for message in drain(conn)] == [later]


def test_urgent_newcomers_are_served_first_and_hide_nothing(conn: psycopg.Connection) -> None:
    """Invariant 11: the messages behind them get new tags, whether they were in ready or in the backlog."""
    clock = FakeClock(conn)
    backlog = [create(conn, "a", b"", clock.at - 1000 + n) for n in range(200)]
    dispatch(conn)
    served = [dequeue(conn)[0][0].id for _ in range(2)]
    urgent = [create(conn, "a", b"", -10), create(conn, "a", b"", -5)]
    check(conn)
    served += [dequeue(conn)[0][0].id]
    between = create(conn, "a", b"", -3)
    check(conn)
    lowest = create(conn, "a", b"", -20)
    check(conn)
    served += [message.id for message in drain(conn, limit=2)]
    assert served == [*backlog[:2], urgent[0], lowest, urgent[1], between, *backlog[2:]]


def test_priority_comes_before_time(conn: psycopg.Connection) -> None:
    """Invariant 11: by (priority, dequeue_at, id) within a channel, also after a failure."""
    FakeClock(conn)
    given = [(0, None), (5, None), (-100, -9), (100, None), (5, -1), (0, -1), (5, None)]
    ids = [
        conn.execute(
            "SELECT id FROM message_create('a', '', %s, p_priority => %s)", (at, priority)
        ).fetchall()[0][0]
        for priority, at in given
    ]
    dispatch(conn)
    expected = [ids[n] for n in (3, 4, 1, 6, 5, 0, 2)]
    [first], _ = dequeue(conn)
    conn.execute("SELECT message_retry(%s, %s, p_error => 'it broke')", (first.id, first.token))
    check(conn)
    assert [message.id for message in drain(conn)] == expected


def test_late_commits_take_their_place(connect: Connect) -> None:
    """Invariants 1 and 11: before messages that are in ready, in the backlog or scheduled."""
    conn, producer = connect(), connect()
    clock = FakeClock(connect())
    waiting = [create(conn, "a", b""), create(conn, "b", b"")]
    dispatch(conn)
    later = create(conn, "a", b"", clock.at + 500)
    dispatch(conn)
    clock.advance(1)
    producer.execute("BEGIN")
    rows = producer.execute(
        "SELECT id FROM message_create_many(%s, array_fill(''::BYTEA, ARRAY[200]))", (["b"] * 200,)
    )
    opened = [row[0] for row in rows]
    clock.advance(1000)
    newest = [create(conn, "a", b""), *(create(conn, "b", b"") for _ in range(150))]
    check(conn)
    producer.execute("COMMIT")
    served = drain(conn)
    assert [message.id for message in served if message.channel == "a"] == [waiting[0], later, newest[0]]
    assert [message.id for message in served if message.channel == "b"] == [waiting[1], *opened, *newest[1:]]


def test_a_batch_spans_channels_and_answers_in_order(conn: psycopg.Connection) -> None:
    """Invariant 16."""
    rows = conn.execute(
        "SELECT id, result FROM message_create_many(%s, %s::BYTEA[], %s, NULL, %s)",
        (["b", "a", "b"], [b"1", b"2", b"3"], [None, -5, None], [None, 1, 2]),
    ).fetchall()
    stored = conn.execute("SELECT id, channel, content, max_attempts FROM message ORDER BY id").fetchall()
    assert [(row[0], "created") for row in stored] == rows
    assert [row[1:] for row in stored] == [("b", b"1", None), ("a", b"2", 1), ("b", b"3", 2)]
    assert len(drain(conn)) == 3


def test_an_empty_batch_creates_nothing(conn: psycopg.Connection) -> None:
    assert conn.execute("SELECT * FROM message_create_many('{}', '{}')").fetchall() == []
    assert conn.execute("SELECT COUNT(*) FROM notice").fetchone() == (0,)


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_creates_work_at_every_isolation_level(conn: psycopg.Connection, level: str) -> None:
    with conn.transaction():
        conn.execute("SET TRANSACTION ISOLATION LEVEL " + level)
        create(conn, "a", b"1")
        conn.execute("SELECT message_create_many(ARRAY['b', 'c'], ARRAY['2', '3']::BYTEA[])")
    assert {message.content for message in drain(conn)} == {b"1", b"2", b"3"}


def test_what_was_rolled_back_is_never_seen(connect: Connect) -> None:
    """Invariant 2, savepoints included."""
    producer, consumer = connect(autocommit=False), connect()
    create(producer, "a", b"kept")
    with producer.transaction(force_rollback=True):
        create(producer, "a", b"undone")
        create(producer, "b", b"undone")
    dispatch(consumer)
    assert dequeue(consumer)[0] == []
    producer.commit()
    assert [message.content for message in drain(consumer)] == [b"kept"]


def test_a_commit_that_comes_late_is_seen(connect: Connect) -> None:
    """Invariant 1: a dispatch that passed an open transaction comes back to it."""
    first, second, consumer = connect(autocommit=False), connect(autocommit=False), connect()
    dispatch(consumer)
    create(first, "a", b"first")
    create(second, "b", b"second")
    second.commit()
    assert [message.content for message in drain(consumer)] == [b"second"]
    for n in range(3):
        create(consumer, "c", b"%d" % n)
        assert [message.content for message in drain(consumer)] == [b"%d" % n]
    first.commit()
    assert [message.content for message in drain(consumer)] == [b"first"]


def test_creates_commit_as_durably_as_the_session_asks(conn: psycopg.Connection) -> None:
    with conn.transaction():
        create(conn, "a", b"")
        conn.execute("SELECT message_create_many(ARRAY['a'], ARRAY['']::BYTEA[])")
        assert conn.execute("SHOW synchronous_commit").fetchone() == ("on",)
