"""Limits that the queue sets for its channels: inherited, overridden, and exact from the commit on."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import Delivery, check, dequeue, dispatch

LONG = 3_600_000


@pytest.fixture
def clock(conn: psycopg.Connection) -> FakeClock:
    return FakeClock(conn)


def fill(conn: psycopg.Connection, **counts: int) -> list[str]:
    names = [name for name, count in counts.items() for _ in range(count)]
    rows = conn.execute(
        "SELECT result FROM message_create_many(%s, array_fill(''::BYTEA, ARRAY[%s::INT]))",
        (names, len(names)),
    )
    return [result for (result,) in rows]


def serve(conn: psycopg.Connection, limit: int = 100) -> dict[str, list[Delivery]]:
    dispatch(conn)
    found: dict[str, list[Delivery]] = {}
    for message in dequeue(conn, limit, LONG)[0]:
        found.setdefault(message.channel, []).append(message)
    return found


def counts(found: dict[str, list[Delivery]]) -> dict[str, int]:
    return {name: len(messages) for name, messages in sorted(found.items())}


def complete(conn: psycopg.Connection, *messages: Delivery) -> None:
    for message in messages:
        conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token))


def test_which_limits_are_inherited(conn: psycopg.Connection) -> None:
    conn.execute(
        "SELECT queue_set(p_channel_max_concurrency => 4, p_channel_release_interval_us => 50000,"
        " p_channel_max_size => 9)"
    )
    get = "SELECT max_concurrency, release_interval_us, burst, max_size, inherited FROM channel_get('a')"
    names = ["max_concurrency", "release_interval_us", "max_size"]
    assert conn.execute(get).fetchone() == (4, 50000, 1, 9, names)
    conn.execute("SELECT channel_set('a', p_max_concurrency => 0, p_max_size => 7)")
    assert conn.execute(get).fetchone() == (None, 50000, 1, 7, ["release_interval_us"]), "0 means no limit"
    conn.execute("SELECT queue_set(p_channel_burst => 3)")
    conn.execute(
        "SELECT channel_set('a', p_release_interval_us => 0, p_inherit => '{max_concurrency, max_size}')"
    )
    assert conn.execute(get).fetchone() == (4, None, 3, 9, ["max_concurrency", "burst", "max_size"])
    conn.execute(
        "SELECT queue_set(p_channel_max_concurrency => 0, p_channel_release_interval_us => 0,"
        " p_channel_max_size => 0)"
    )
    assert conn.execute(get).fetchone() == (None, None, 3, None, ["burst"])


def test_each_channel_has_the_limit(conn: psycopg.Connection, clock: FakeClock) -> None:
    """Invariant 7, also for channels that nobody has heard of when it is set."""
    conn.execute("SELECT queue_set(p_channel_max_concurrency => 2)")
    conn.execute("SELECT channel_set('own', 3)")
    conn.execute("SELECT channel_set('free', 0)")
    fill(conn, a=5, b=1, own=5, free=5)
    found = serve(conn)
    assert counts(found) == {"a": 2, "b": 1, "free": 5, "own": 3}
    assert serve(conn) == {}
    complete(conn, found["a"][0], found["own"][0])
    assert counts(serve(conn)) == {"a": 1, "own": 1}
    check(conn)


def test_what_runs_when_the_limit_is_set_counts(conn: psycopg.Connection, clock: FakeClock) -> None:
    fill(conn, a=6, b=1)
    running = serve(conn, 5)
    assert counts(running) == {"a": 4, "b": 1}
    conn.execute("SELECT queue_set(p_channel_max_concurrency => 3)")
    assert dequeue(conn, 10)[0] == [], "nothing is taken before the dispatcher has seen it"
    fill(conn, b=5)
    assert counts(serve(conn)) == {"b": 2}
    complete(conn, *running["a"][:2])
    clock.advance(1000)  # leases from before the limit append no notice
    assert counts(serve(conn)) == {"a": 1}
    check(conn)


def test_a_dequeue_that_is_open_when_the_limit_is_set_counts(
    conn: psycopg.Connection, connect: Connect, clock: FakeClock
) -> None:
    other = connect(autocommit=False)
    fill(conn, a=6)
    dispatch(conn)
    assert len(dequeue(other, 2, LONG)[0]) == 2
    conn.execute("SELECT queue_set(p_channel_max_concurrency => 3)")
    assert counts(serve(conn)) == {"a": 1}
    other.commit()
    assert serve(conn) == {}
    check(conn)


def test_a_limit_that_is_raised_or_removed_applies_at_once(
    conn: psycopg.Connection, clock: FakeClock
) -> None:
    conn.execute("SELECT queue_set(p_channel_max_concurrency => 1)")
    fill(conn, a=9, b=9)
    assert counts(serve(conn)) == {"a": 1, "b": 1}
    conn.execute("SELECT queue_set(p_channel_max_concurrency => 3)")
    assert counts(serve(conn)) == {"a": 2, "b": 2}
    conn.execute("SELECT channel_set('a', p_max_concurrency => 0)")
    assert counts(serve(conn)) == {"a": 6}
    conn.execute("SELECT queue_set(p_channel_max_concurrency => 0)")
    assert counts(serve(conn)) == {"b": 6}
    check(conn)


def test_the_rate_of_each_channel(conn: psycopg.Connection, clock: FakeClock) -> None:
    conn.execute("SELECT queue_set(p_channel_release_interval_us => 100000, p_channel_burst => 3)")
    conn.execute("SELECT channel_set('b', p_burst => 1)")
    fill(conn, a=20, b=20)
    assert counts(serve(conn)) == {"a": 3, "b": 1}
    clock.advance(200)
    assert counts(serve(conn)) == {"a": 2, "b": 1}
    check(conn)


def test_an_idle_channel_keeps_no_slots(conn: psycopg.Connection, clock: FakeClock) -> None:
    """Otherwise every channel that was ever used would have a row."""
    conn.execute("SELECT queue_set(p_channel_max_concurrency => 2)")
    conn.execute("SELECT channel_set('own', 3)")
    fill(conn, a=2, b=1, own=1)
    found = serve(conn)
    complete(conn, *found["a"], *found["own"])
    dispatch(conn)
    assert conn.execute("SELECT channel FROM slots ORDER BY channel").fetchall() == [("b",), ("own",)]
    fill(conn, a=3)
    assert counts(serve(conn)) == {"a": 2}
    check(conn)


def test_a_rate_outlasts_an_idle_time(conn: psycopg.Connection, clock: FakeClock) -> None:
    conn.execute("SELECT queue_set(p_channel_release_interval_us => 100000, p_channel_burst => 3)")
    fill(conn, a=3)
    complete(conn, *serve(conn)["a"])
    dispatch(conn)
    fill(conn, a=3)
    assert serve(conn) == {}
    clock.advance(100)
    assert counts(serve(conn)) == {"a": 1}
    check(conn)


def test_rebuild_keeps_the_limits(conn: psycopg.Connection, clock: FakeClock) -> None:
    conn.execute("SELECT queue_set(p_channel_max_concurrency => 2, p_channel_release_interval_us => 100000)")
    fill(conn, a=9, b=9)
    assert counts(serve(conn)) == {"a": 1, "b": 1}
    conn.execute("SELECT rebuild()")
    assert serve(conn) == {}
    clock.advance(100)
    assert counts(serve(conn)) == {"a": 1, "b": 1}
    clock.advance(100)
    assert serve(conn) == {}
    check(conn)


def test_the_size_of_each_channel(conn: psycopg.Connection, clock: FakeClock) -> None:
    fill(conn, a=2)
    conn.execute("SELECT queue_set(p_channel_max_size => 3)")
    conn.execute("SELECT channel_set('own', p_max_size => 1)")
    conn.execute("SELECT channel_set('free', p_max_size => 0)")
    assert fill(conn, a=2, b=4, own=2, free=4).count("full") == 1 + 1 + 1
    with pytest.raises(psycopg.Error, match=r"channel 'b' is full \(max_size 3\)") as refused:
        conn.execute("SELECT message_create_many('{b}', '{x}', p_raise_full => TRUE)")
    assert refused.value.sqlstate == "LM017"
    assert conn.execute("SELECT result FROM message_create('b', 'x')").fetchone() == ("full",)
    complete(conn, *serve(conn)["b"])
    assert fill(conn, b=4) == ["created"] * 3 + ["full"]
    check(conn)


def test_a_size_that_is_raised_removed_and_set_again(conn: psycopg.Connection, clock: FakeClock) -> None:
    """Messages that nobody counted, and a limit that was too low to count them all."""
    conn.execute("SELECT queue_set(p_channel_max_size => 2)")
    assert fill(conn, a=3).count("full") == 1
    conn.execute("SELECT queue_set(p_channel_max_size => 0)")
    assert fill(conn, a=4) == ["created"] * 4
    conn.execute("SELECT queue_set(p_channel_max_size => 3)")
    assert fill(conn, a=1) == ["full"]
    conn.execute("SELECT queue_set(p_channel_max_size => 8)")
    assert fill(conn, a=3) == ["created"] * 2 + ["full"]
    conn.execute("SELECT channel_set('a', p_max_size => 9)")
    assert fill(conn, a=2) == ["created", "full"]
    conn.execute("SELECT channel_set('a', p_inherit => '{max_size}')")
    assert fill(conn, a=1) == ["full"]
    assert fill(conn, b=1) == ["created"]
    conn.execute("SELECT channel_set('b', p_max_size => 0)")
    assert fill(conn, b=8) == ["created"] * 8
    conn.execute("SELECT channel_set('b', p_inherit => '{max_size}')")
    assert fill(conn, b=1) == ["full"]
    check(conn)


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
def test_two_producers_to_a_new_channel(connect: Connect, level: str) -> None:
    """The second one waits for the first, and the limit holds."""
    observer, one, two = connect(), connect(autocommit=False), connect(autocommit=False)
    observer.execute("SELECT queue_set(p_channel_max_size => 3)")
    for conn in (one, two):
        conn.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        conn.execute("SELECT 1")
    assert fill(one, new=2) == ["created", "created"]
    with ThreadPoolExecutor(max_workers=1) as pool:
        second = pool.submit(fill, two, new=2)
        waits = "SELECT cardinality(pg_blocking_pids(%s)) > 0"
        while not second.done() and observer.execute(waits, (two.info.backend_pid,)).fetchone() != (True,):
            pass
        assert not second.done()
        one.commit()
        if level == "REPEATABLE READ":
            with pytest.raises(psycopg.errors.SerializationFailure):
                second.result(timeout=30)
            two.rollback()
            assert fill(two, new=2) == ["created", "full"]
        else:
            assert second.result(timeout=30) == ["created", "full"]
    two.commit()
    check(observer)


def test_a_producer_that_began_before_the_limit(connect: Connect) -> None:
    """Its messages count once it has committed."""
    conn, early = connect(), connect(autocommit=False)
    fill(early, a=2)
    conn.execute("SELECT queue_set(p_channel_max_size => 3)")
    assert fill(conn, a=1) == ["created"]
    early.commit()
    assert fill(conn, a=1) == ["full"]
    check(conn)


def test_a_deleted_channel_inherits_again(conn: psycopg.Connection, clock: FakeClock) -> None:
    conn.execute("SELECT queue_set(p_channel_max_concurrency => 1, p_channel_max_size => 2)")
    conn.execute("SELECT channel_set('a', 5, p_max_size => 5)")
    fill(conn, a=5)
    complete(conn, *serve(conn)["a"])
    assert conn.execute("SELECT result FROM channel_delete('a')").fetchone() == ("deleted",)
    assert fill(conn, a=5).count("created") == 2
    assert counts(serve(conn)) == {"a": 1}
    check(conn)


def test_dequeues_of_limited_channels_are_durable(conn: psycopg.Connection) -> None:
    """Otherwise others would run beside them after a crash."""
    conn.execute("SELECT queue_set(p_channel_max_concurrency => 1000)")
    fill(conn, a=1, b=1)
    conn.execute("SELECT channel_set('b', 0)")
    dispatch(conn)
    for channel, mode in (("a", "on"), ("b", "off")):
        with conn.transaction():
            conn.execute("SET LOCAL synchronous_commit TO off")
            assert [message.channel for message in dequeue(conn, 1)[0]] == [channel]
            assert conn.execute("SHOW synchronous_commit").fetchone() == (mode,)
