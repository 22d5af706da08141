"""Backlogs: due messages that are not in ready yet. Their ranges say where to look, and must miss
nothing."""

import random

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect, until_waiting
from tests.invariants import Delivery, audit, check, dequeue, dispatch, drain

Place = tuple[int, int, int]  # rank, at, id
LineRange = tuple[Place, Place]

ADD = """
    SELECT s.* FROM unnest(ranges_add(
        (SELECT COALESCE(array_agg(ROW(a, b, c, d, e, f)::line_range ORDER BY ord), '{}')
            FROM unnest(%s::BIGINT[], %s::BIGINT[], %s::BIGINT[], %s::BIGINT[], %s::BIGINT[], %s::BIGINT[])
            WITH ORDINALITY u (a, b, c, d, e, f, ord)),
        (SELECT array_agg(ROW('default', 0, id, 0, rank, at, 1, FALSE, 'a')::ready)
            FROM unnest(%s::BIGINT[], %s::BIGINT[], %s::BIGINT[]) u (rank, at, id)))) s"""
FROM = """
    SELECT s.* FROM unnest(ranges_from(
        (SELECT array_agg(ROW(a, b, c, d, e, f)::line_range ORDER BY ord)
            FROM unnest(%s::BIGINT[], %s::BIGINT[], %s::BIGINT[], %s::BIGINT[], %s::BIGINT[], %s::BIGINT[])
            WITH ORDINALITY u (a, b, c, d, e, f, ord)),
        %s::BIGINT[])) s"""


def create(conn: psycopg.Connection, contents: list[str], dequeue_at: int | None = None) -> None:
    conn.execute(
        "SELECT COUNT(*) FROM message_create_many(array_fill('c'::TEXT, ARRAY[%s]), %s::BYTEA[], %s)",
        (len(contents), contents, None if dequeue_at is None else [dequeue_at] * len(contents)),
    )


def take(conn: psycopg.Connection, limit: int) -> list[str]:
    rows = conn.execute("SELECT convert_from(content, 'utf8') FROM message_dequeue(%s)", (limit,)).fetchall()
    return [content for (content,) in rows if content is not None]


def columns(ranges: list[LineRange]) -> list[list[int]]:
    return [[(lo + hi)[n] for lo, hi in ranges] for n in range(6)]


def ranges(rows: list[tuple[int, ...]]) -> list[LineRange]:
    return [((a, b, c), (d, e, f)) for a, b, c, d, e, f in rows]


@pytest.mark.parametrize("seed", range(20))
def test_ranges_cover_what_was_added(conn: psycopg.Connection, seed: int) -> None:
    """In any order, at most 16 of them, without overlap; also the rest after a position."""
    chance = random.Random(seed)
    held: list[LineRange] = []
    added: set[Place] = set()
    for _ in range(40):
        new = [
            (chance.choice([-100, 0, 0, 0, 7]), chance.choice([-5, 0, chance.randrange(1, 10**12)]), number)
            for number in chance.sample(range(1, 10**6), chance.randrange(1, 6))
        ]
        new_columns = [[place[n] for place in new] for n in range(3)]
        held = ranges(conn.execute(ADD, (*columns(held), *new_columns)).fetchall())
        added.update(new)
        if chance.random() < 0.3:
            start = chance.choice(sorted(added))
            held = ranges(conn.execute(FROM, (*columns(held), list(start))).fetchall())
            added = {place for place in added if place >= start}
        assert all(any(lo <= place <= hi for lo, hi in held) for place in added)
        assert len(held) <= 16
        ends = [end for line_range in held for end in line_range]
        assert ends == sorted(ends)


@pytest.mark.parametrize("limit", [2, 150])
def test_messages_that_commit_late_are_not_skipped(connect: Connect, limit: int) -> None:
    """They were created before the messages in the backlog, and committed after them."""
    conn, producer = connect(), connect()
    create(conn, [f"before {number:03}" for number in range(150)])
    dispatch(conn)
    producer.execute("BEGIN")
    create(producer, [f"late {number:03}" for number in range(200)])
    create(conn, [f"newer {number:03}" for number in range(150)])
    check(conn)
    first = take(conn, 10)
    producer.execute("COMMIT")
    served = list(first)
    while True:
        check(conn)
        messages = take(conn, limit)
        if not messages:
            break
        served += messages
    expected = [
        (word, number) for word, n in (("before", 150), ("late", 200), ("newer", 150)) for number in range(n)
    ]
    assert served == [f"{word} {number:03}" for word, number in expected]


def test_messages_of_an_open_cancel_are_skipped(connect: Connect) -> None:
    """Invariant 23: a message in the middle of a backlog stays there until the cancel ends."""
    conn, canceller = connect(), connect()
    clock = FakeClock(connect())
    create(conn, [f"{number:03}" for number in range(300)])
    dispatch(conn)
    canceller.execute("BEGIN")
    canceller.execute("SELECT message_cancel(id) FROM message WHERE content IN ('150', '151', '299')")
    served = [message.content for message in drain_all(conn)]
    assert served == [b"%03d" % number for number in range(300) if number not in {150, 151, 299}]
    canceller.execute("ROLLBACK")
    clock.advance(1000)
    assert [message.content for message in drain_all(conn)] == [b"150", b"151", b"299"]
    check(conn)


def test_cancelled_messages_leave_the_backlog(conn: psycopg.Connection) -> None:
    """Invariant 17: all of them, some of them, and those of a channel that may not release."""
    conn.execute("SELECT channel_set('c', p_paused => TRUE)")
    create(conn, [f"{number:03}" for number in range(300)])
    check(conn)
    conn.execute("SELECT message_cancel_many(ARRAY(SELECT id FROM message WHERE content < '200'))")
    check(conn)
    conn.execute("SELECT message_cancel_many(ARRAY(SELECT id FROM message))")
    check(conn)
    conn.execute("SELECT channel_set('c', p_paused => FALSE)")
    check(conn)
    assert conn.execute("SELECT FROM backlog WHERE ranges <> '{}'").fetchall() == []


def test_a_backlog_of_many_ranks_and_times(conn: psycopg.Connection) -> None:
    """More than a backlog has ranges."""
    clock = FakeClock(conn)
    conn.execute("SELECT channel_set('c', p_paused => TRUE)")
    chance = random.Random(1)
    for priority in chance.sample(range(-100, 101), 60):
        at = chance.choice([-1, clock.at - chance.randrange(1000)])
        conn.execute("SELECT message_create('c', '', %s, p_priority => %s)", (at, priority))
        dispatch(conn)
    check(conn)
    conn.execute("SELECT channel_set('c', p_paused => FALSE)")
    expected = conn.execute("SELECT id FROM message ORDER BY priority DESC, dequeue_at, id").fetchall()
    assert [(message.id,) for message in drain(conn, limit=7)] == expected


def drain_all(conn: psycopg.Connection) -> list[Delivery]:
    """All messages that can be dequeued while others hold some."""
    delivered = []
    for _ in range(100):
        for _ in range(10):
            conn.execute("SELECT dispatch()")
        messages, _again_at = dequeue(conn, 100)
        audit(conn)
        if not messages:
            break
        delivered += messages
    return delivered


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
def test_a_channel_is_deleted_while_a_message_is_dispatched(connect: Connect, level: str) -> None:
    """The delete has looked for messages, and waits; a message that is dispatched meanwhile keeps its
    place."""
    conn, deleter = connect(), connect()
    create(conn, ["served"])
    dispatch(conn)
    conn.execute("SELECT message_cancel(id) FROM message")
    dispatch(conn)
    deleter.execute(f"BEGIN ISOLATION LEVEL {level}")
    deleter.execute("SELECT FROM message")
    create(conn, ["came"])
    dispatch(conn)
    result = deleter.execute("SELECT result FROM channel_delete('c')").fetchone()
    deleter.execute("COMMIT")
    assert result in ([("not_empty",)] if level == "READ COMMITTED" else [("deleted",), ("not_found",)])
    dispatch(conn)
    assert take(conn, 1) == ["came"]


def test_a_message_is_created_while_its_channel_is_deleted(connect: Connect) -> None:
    """Between the look for messages and the deletion of the rest: the delete waits there for another
    session."""
    conn, deleter, other = connect(), connect(), connect()
    create(conn, ["served"])
    dispatch(conn)
    conn.execute("SELECT message_cancel(id) FROM message")
    dispatch(conn)
    conn.execute("INSERT INTO tally (channel, served, served_at) VALUES ('c', 1, 1)")
    other.execute("BEGIN")
    other.execute("SELECT FROM tally WHERE channel = 'c' FOR UPDATE")
    deleter.execute("SET statement_timeout = '60s'")
    deleter.pgconn.send_query(b"SELECT result FROM channel_delete('c')")
    until_waiting(conn, deleter)
    create(conn, ["came"])
    dispatch(conn)
    other.execute("COMMIT")
    finish(deleter)
    dispatch(conn)
    assert take(conn, 1) == ["came"]
    check(conn)


def finish(conn: psycopg.Connection) -> None:
    """Read the result of a query that was sent."""
    while conn.pgconn.get_result() is not None:
        pass
