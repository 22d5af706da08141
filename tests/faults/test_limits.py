"""Limits, intervals and pauses under expiry, late extensions and policy changes, as a client sees them.

Invariants 7, 10 and 13: never more than allowed, never sooner, never less than the policies allow.
"""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import psycopg
import pytest

from lonnymq.rules.token_bucket import TokenBucket, changed_bucket
from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import Delivery, check, dequeue, dispatch

LONG = 3_600_000


@pytest.fixture
def clock(conn: psycopg.Connection) -> FakeClock:
    return FakeClock(conn)


def create(conn: psycopg.Connection, n: int = 1, channel: str = "a") -> None:
    for _ in range(n):
        conn.execute("SELECT message_create(%s, '')", (channel,))


def serve(conn: psycopg.Connection, limit: int = 100, lease_ms: int = LONG) -> list[Delivery]:
    dispatch(conn)
    return dequeue(conn, limit, lease_ms)[0]


def policy(
    conn: psycopg.Connection,
    limit: int | None = None,
    interval: int | None = None,
    burst: int | None = None,
    *,
    paused: bool | None = None,
    channel: str = "a",
) -> None:
    interval_us = None if interval is None else 1000 * interval
    conn.execute(
        "SELECT * FROM channel_set(%s, %s, %s, %s, %s)", (channel, limit, interval_us, burst, paused)
    )


def complete(conn: psycopg.Connection, *deliveries: Delivery) -> None:
    for d in deliveries:
        assert conn.execute("SELECT message_complete(%s, %s)", (d.id, d.token)).fetchone() == ("completed",)


@pytest.mark.parametrize("limit", [1, 3])
def test_a_limit_set_while_leases_run_counts_them(
    conn: psycopg.Connection, clock: FakeClock, limit: int
) -> None:
    create(conn, 10)
    running = serve(conn, 2)
    policy(conn, limit)
    more = serve(conn)
    assert len(more) == max(0, limit - 2)
    complete(conn, *running)
    clock.advance(1000)  # leases from before the limit write no wake: the channel is checked again
    assert len(serve(conn)) == limit - len(more)
    assert serve(conn) == []
    check(conn)


def test_a_limit_lowered_below_what_runs(conn: psycopg.Connection, clock: FakeClock) -> None:
    policy(conn, 3)
    create(conn, 10)
    running = serve(conn)
    assert len(running) == 3
    policy(conn, 1)
    for done in running[:2]:
        complete(conn, done)
        assert serve(conn) == [], "one lease still runs"
    complete(conn, running[2])
    assert len(serve(conn)) == 1
    check(conn)


def test_a_limit_raised_takes_effect_at_once(conn: psycopg.Connection, clock: FakeClock) -> None:
    policy(conn, 1)
    create(conn, 10)
    assert len(serve(conn)) == 1
    policy(conn, 4)
    assert len(serve(conn)) == 3
    check(conn)


def test_a_limit_that_is_lifted_and_set_again_counts_all_leases(
    conn: psycopg.Connection, clock: FakeClock
) -> None:
    policy(conn, 1, 500)
    create(conn, 10)
    running = serve(conn)
    assert len(running) == 1
    policy(conn, 0, 0)
    running += serve(conn, 5)
    assert len(running) == 6
    policy(conn, 3)
    complete(conn, *running[:3])
    clock.advance(100)
    assert serve(conn) == []
    complete(conn, running[3])
    clock.advance(1000)  # completing a lease from before the limit writes no wake
    assert len(serve(conn)) == 1
    check(conn)


@pytest.mark.parametrize("end", ["complete", "release", "expire"])
def test_a_freed_slot_on_an_emptied_channel_keeps_the_interval(
    conn: psycopg.Connection, clock: FakeClock, end: str
) -> None:
    policy(conn, 1, 1000)
    create(conn)
    [first] = serve(conn, lease_ms=100)
    released_at = clock.at
    if end == "complete":
        complete(conn, first)
    elif end == "release":
        conn.execute("SELECT message_retry(%s, %s, %s)", (first.id, first.token, clock.at + 5000))
    clock.advance(100)
    dispatch(conn)
    create(conn)
    clock.set(released_at + 999)
    assert serve(conn) == []
    clock.set(released_at + 1000)
    assert len(serve(conn)) == 1
    check(conn)


def test_a_visit_that_releases_nothing_does_not_move_the_interval(
    conn: psycopg.Connection, connect: Connect, clock: FakeClock
) -> None:
    """A visit that finds the channel full, paused or locked does not restart its interval."""
    policy(conn, 1, 1000)
    create(conn, 3)
    [first] = serve(conn)
    released_at = clock.at
    clock.advance(600)
    policy(conn, 1, 1000, paused=True)
    assert serve(conn) == []
    policy(conn, 1, 1000, paused=False)
    assert serve(conn) == []
    clock.advance(300)
    complete(conn, first)
    assert serve(conn) == []
    clock.set(released_at + 1000)
    holder = connect(autocommit=False)
    holder.execute("SELECT FROM message WHERE id NOT IN (SELECT id FROM leases) FOR UPDATE")
    assert serve(conn) == [], "its messages are locked: it is visited, but nothing is released"
    holder.rollback()
    clock.advance(1000)  # the channel is checked again within a second
    [second] = serve(conn)
    assert second.lease_end_at - LONG == clock.at
    check(conn)


def test_a_late_extension_keeps_its_slot(conn: psycopg.Connection, clock: FakeClock) -> None:
    """A lease that has run out but was not swept is extended, and still takes the only slot."""
    policy(conn, 1)
    create(conn, 2)
    [first] = serve(conn, lease_ms=100)
    dispatch(conn)
    clock.advance(500)
    assert dequeue(conn, 10)[0] == [], "the slot stays taken until a dispatch"
    extended = conn.execute("SELECT * FROM message_extend(%s, %s, 1000)", (first.id, first.token)).fetchone()
    assert extended == ("extended", clock.at + 1000)
    assert serve(conn) == []
    clock.advance(999)
    assert serve(conn) == []
    complete(conn, first)
    assert len(serve(conn)) == 1
    check(conn)


def test_a_late_extension_that_commits_after_the_sweep_looked(
    conn: psycopg.Connection, connect: Connect, clock: FakeClock
) -> None:
    policy(conn, 1)
    create(conn, 2)
    [first] = serve(conn, lease_ms=100)
    dispatch(conn)
    clock.advance(500)
    late = connect(autocommit=False)
    late.execute("SELECT * FROM message_extend(%s, %s, 5000)", (first.id, first.token))
    assert serve(conn) == []
    late.commit()
    for _ in range(40):
        clock.advance(100)
        assert serve(conn) == [], "one lease runs, and it was extended by five seconds"
    clock.advance(2000)
    [again] = serve(conn)
    assert (again.id, again.attempts) == (first.id, 2)
    check(conn)


def test_pause_and_resume(conn: psycopg.Connection, clock: FakeClock) -> None:
    create(conn, 4)
    running = serve(conn, 1)
    policy(conn, paused=True)
    assert serve(conn) == []
    create(conn)
    clock.advance(LONG // 2)
    assert serve(conn) == []
    assert conn.execute("SELECT COUNT(*) FROM leases").fetchone() == (1,), "running leases continue"
    complete(conn, *running)
    policy(conn, paused=False)
    assert len(serve(conn)) == 4
    check(conn)


def test_a_release_during_a_dispatch_counts(
    conn: psycopg.Connection, connect: Connect, clock: FakeClock
) -> None:
    """Invariant 10: the dispatch read the clock before the release and places the channel after it."""
    source = conn.execute("SELECT pg_get_functiondef('lanes_dispatch'::REGPROC)").fetchall()[0][0]
    conn.execute(source.replace("BEGIN\n", "BEGIN\n    PERFORM pg_advisory_xact_lock_shared(1);\n", 1))
    policy(conn, interval=40)
    create(conn, 2)
    dispatch(conn)
    conn.execute("SELECT message_create('a', '', -1)")
    blocker, dispatcher = connect(), connect()
    blocker.execute("SELECT pg_advisory_lock(1)")
    with ThreadPoolExecutor(max_workers=1) as pool:
        dispatching = pool.submit(dispatcher.execute, "SELECT dispatch()")
        until_blocked(conn, dispatcher)
        released_at = clock.advance(30)
        assert len(dequeue(conn, 10)[0]) == 1
        blocker.execute("SELECT pg_advisory_unlock(1)")
        dispatching.result(timeout=30)
    clock.set(released_at + 39)
    assert serve(conn) == []
    clock.set(released_at + 40)
    assert len(serve(conn)) == 1
    check(conn)


def until_blocked(conn: psycopg.Connection, other: psycopg.Connection) -> None:
    query = "SELECT wait_event FROM pg_stat_activity WHERE pid = %s"
    deadline = time.monotonic() + 30
    while conn.execute(query, (other.info.backend_pid,)).fetchone() != ("advisory",):
        assert time.monotonic() < deadline, "the dispatch did not reach the lock"
        time.sleep(0.005)


@dataclass
class ChannelModel:
    """What a client knows of a channel: its policy, its releases and its leased messages."""

    limit: int = 0
    interval: int = 0
    burst: int = 1
    paused: bool = False
    released_at: int | None = None
    bucket: TokenBucket | None = None
    deliveries: list[Delivery] = field(default_factory=list)

    def dispatch(self, now: int) -> None:
        """The policy may have changed. If it has not, this changes nothing."""
        last_us = None if self.released_at is None else 1000 * self.released_at
        self.bucket = changed_bucket(
            self.bucket, 1000 * self.interval or None, self.burst, last_us, 1000 * now, is_own=True
        )

    def release(self, count: int, now: int) -> None:
        for _ in range(count):
            self.released_at = now
            if self.interval:
                self.bucket = self.bucket or TokenBucket(1000 * self.interval)
                self.bucket.take(1000 * now)

    def expected(self, due: int, leased: int, now: int) -> int:
        if self.paused:
            return 0
        room = max(0, self.limit - leased) if self.limit else due
        rate = (
            self.bucket.tokens(self.burst, 1000 * now)
            if self.bucket
            else self.burst
            if self.interval
            else due
        )
        return min(due, room, rate)


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 30))]
)
def test_any_order_of_events(conn: psycopg.Connection, clock: FakeClock, seed: int) -> None:
    """Every visit releases exactly what the policies allow: no more (7, 10) and no less (13)."""
    rng = random.Random(seed)
    channels = {name: ChannelModel() for name in ("a", "b", "c")}
    released = 0
    for _ in range(60):
        name, channel = rng.choice(list(channels.items()))
        _disturb(conn, clock, rng, name, channel)
        clock.advance(100)
        dispatch(conn)
        channel.dispatch(clock.at)
        waiting = {
            row[0]: row[1:]
            for row in conn.execute(
                "SELECT m.channel, COUNT(*) FILTER (WHERE l.id IS NULL AND m.dequeue_at <= %s),"
                " COUNT(l.id) FROM message m LEFT JOIN leases l ON l.id = m.id GROUP BY m.channel",
                (clock.at,),
            )
        }
        lease_ms = rng.choice((50, 150, LONG))
        got = dequeue(conn, 1000, lease_ms)[0]
        if any(
            len([d for d in got if d.channel == each])
            < model.expected(waiting.get(each, (0, 0))[0], waiting.get(each, (0, 0))[1], clock.at)
            for each, model in channels.items()
        ):
            clock.advance(1000)  # completing a lease from before a limit writes no wake
            dispatch(conn)
            got += dequeue(conn, 1000, lease_ms)[0]
        released += len(got)
        for each, model in channels.items():
            of_channel = [d for d in got if d.channel == each]
            due, leased = waiting.get(each, (0, 0))
            expected = model.expected(due, leased, clock.at)
            assert len(of_channel) == expected, (seed, each, model, waiting.get(each), clock.at)
            model.deliveries += of_channel
            model.release(len(of_channel), clock.at)
    assert released > 5
    check(conn, but=("invariant 7",))  # a limit may have been lowered below what runs


def _disturb(
    conn: psycopg.Connection, clock: FakeClock, rng: random.Random, name: str, channel: ChannelModel
) -> None:
    what = rng.choice(("create", "create", "finish", "finish", "extend", "policy", "pause", "wait"))
    if what == "create":
        at = rng.choice((None, -1, clock.at + 120))
        for _ in range(rng.randint(1, 5)):
            conn.execute("SELECT message_create(%s, '', %s, p_max_attempts => 1000)", (name, at))
    elif what in {"finish", "extend"} and channel.deliveries:
        done = channel.deliveries[rng.randrange(len(channel.deliveries))]
        if what == "extend":
            conn.execute("SELECT message_extend(%s, %s, 200)", (done.id, done.token))
        else:
            conn.execute(f"SELECT {rng.choice(('message_complete', 'message_retry'))}(%s, %s)", done[0:7:6])
            channel.deliveries.remove(done)
    elif what == "policy":
        channel.limit = rng.choice((0, 1, 2, 5))
        channel.interval = rng.choice((0, 0, 150, 500))
        channel.burst = rng.choice((1, 1, 2, 4))
        policy(conn, channel.limit, channel.interval, channel.burst, channel=name)
    elif what == "pause":
        channel.paused = not channel.paused
        policy(conn, paused=channel.paused, channel=name)
    elif what == "wait":
        clock.advance(rng.choice((50, 700)))
