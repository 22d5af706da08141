"""The server's clock is set an hour forward or back, or back by a little.

Invariants 1, 7, 8, 9, 10 and 13, as far as they can hold: nothing stalls forever, no message is released
before its time on that clock, limits hold, and intervals are kept but never become longer by the step.
"""

import random

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import Delivery, check, dequeue, dispatch

HOUR = 3_600_000
SMALL = (1, 50, 900)


@pytest.fixture
def clock(conn: psycopg.Connection) -> FakeClock:
    return FakeClock(conn)


def create(conn: psycopg.Connection, channel: str, content: str = "x", at: int | None = None) -> None:
    conn.execute("SELECT message_create(%s, %s::bytea, %s)", (channel, content, at))


def serve(conn: psycopg.Connection, limit: int = 100, lease_ms: int = 30_000) -> list[Delivery]:
    dispatch(conn)
    return dequeue(conn, limit, lease_ms)[0]


def contents(deliveries: list[Delivery]) -> list[bytes]:
    return [d.content for d in deliveries]


def complete(conn: psycopg.Connection, deliveries: list[Delivery]) -> None:
    for d in deliveries:
        assert conn.execute("SELECT message_complete(%s, %s)", (d.id, d.token)).fetchone() == ("completed",)


@pytest.mark.parametrize("jump", [HOUR, -HOUR, *(-ms for ms in SMALL)])
def test_messages_created_after_a_step_are_served(
    conn: psycopg.Connection, clock: FakeClock, jump: int
) -> None:
    """In a channel that was served, in one where an older message waits, and in a new one."""
    create(conn, "served")
    complete(conn, serve(conn))
    create(conn, "waiting", "old")
    dispatch(conn)
    before = clock.at
    clock.advance(jump)
    for channel in ("served", "waiting", "new"):
        create(conn, channel, "new")
    got = serve(conn, lease_ms=2 * HOUR)
    if jump < 0:
        # After a small step back, the engine continues from the time that it had reached.
        clock.advance(min(-jump, 1000))
        got += serve(conn, lease_ms=2 * HOUR)
    assert contents(got).count(b"new") == 3
    clock.set(max(before, clock.at))
    got += serve(conn)
    assert sorted(contents(got)) == [b"new", b"new", b"new", b"old"]
    check(conn)


@pytest.mark.parametrize("jump", [HOUR, -HOUR, *(-ms for ms in SMALL)])
def test_a_scheduled_message_waits_for_its_time_by_the_new_clock(
    conn: psycopg.Connection, clock: FakeClock, jump: int
) -> None:
    at = clock.at + 2 * HOUR
    create(conn, "a", at=at)
    assert serve(conn) == []
    clock.advance(jump)
    assert serve(conn) == []
    clock.set(at - 1)
    assert serve(conn) == []
    clock.set(at)
    assert len(serve(conn)) == 1
    check(conn)


@pytest.mark.parametrize("jump", [HOUR, -HOUR, *(-ms for ms in SMALL)])
def test_a_lease_runs_out_by_the_new_clock(conn: psycopg.Connection, clock: FakeClock, jump: int) -> None:
    create(conn, "a")
    [first] = serve(conn, lease_ms=30_000)
    dispatch(conn)
    clock.advance(jump)
    assert contents(serve(conn)) == ([b"x"] if jump > 0 else [])
    if jump < 0:
        clock.set(first.lease_end_at - 1)
        assert serve(conn) == []
        clock.set(first.lease_end_at)
        [second] = serve(conn)
        assert second.attempts == 2
    check(conn)


@pytest.mark.parametrize("jump", [-HOUR, *(-ms for ms in SMALL)])
def test_a_lease_taken_after_a_step_back_is_swept(
    conn: psycopg.Connection, clock: FakeClock, jump: int
) -> None:
    """The lease ends before the time up to which leases were already swept."""
    create(conn, "a", "early", at=1)
    dispatch(conn)
    create(conn, "b", "swept", at=1)
    [swept] = serve(conn, 1, 10)
    clock.advance(10)
    dispatch(conn)
    clock.advance(jump)
    create(conn, "c", "late", at=1)
    late = [d for d in serve(conn, lease_ms=5) if d.content == b"late"]
    if not late:
        clock.advance(1000)
        late = [d for d in serve(conn, lease_ms=5) if d.content == b"late"]
    assert late
    for _ in range(3):  # nothing else happens: the sweep must find it by itself
        clock.advance(700)
        dispatch(conn)
    assert conn.execute("SELECT COUNT(*) FROM leases").fetchone() == (0,)
    assert swept.content in {b"early", b"swept"}
    check(conn)


def postpone_and_catch_up(conn: psycopg.Connection, holder: psycopg.Connection, clock: FakeClock) -> None:
    """A dispatch skips locked rows, and a later one handles them."""
    create(conn, "before", "1")
    dispatch(conn)
    assert dequeue(holder)[0]
    create(conn, "before", "2")
    dispatch(conn)
    holder.rollback()
    clock.advance(2)
    complete(conn, serve(conn))


@pytest.mark.parametrize("back", [*SMALL, HOUR])
@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "rolled-back"])
def test_a_channel_that_was_locked_during_a_step_back(
    conn: psycopg.Connection, connect: Connect, clock: FakeClock, back: int, *, is_committed: bool
) -> None:
    """A later dispatch handles what was locked during an earlier one, whatever the clock did."""
    holder = connect(autocommit=False)
    postpone_and_catch_up(conn, holder, clock)
    create(conn, "a", "1")
    create(conn, "a", "2")
    dispatch(conn)
    taken, _ = dequeue(holder)
    clock.advance(-back)
    create(conn, "a", "urgent", at=-1)
    conn.execute("SELECT dispatch()")
    if is_committed:
        holder.commit()
    else:
        holder.rollback()
    clock.advance(back)
    for _ in range(30):
        clock.advance(50)
        dispatch(conn)
    expected = [b"urgent", b"2"] if is_committed else [b"urgent", b"1", b"2"]
    assert contents(serve(conn)) == expected
    assert contents(taken) == [b"1"]
    check(conn)


@pytest.mark.parametrize("back", [*SMALL, HOUR])
def test_an_expired_lease_that_was_locked_during_a_step_back(
    conn: psycopg.Connection, connect: Connect, clock: FakeClock, back: int
) -> None:
    late = connect(autocommit=False)
    create(conn, "a", at=1)
    dispatch(conn)
    [first], _ = dequeue(late, 1, 1)
    clock.advance(back + 5)
    postpone_and_catch_up(conn, connect(autocommit=False), clock)
    clock.advance(-back)
    late.commit()
    late.execute("SELECT FROM message WHERE id = %s FOR UPDATE", (first.id,))
    conn.execute("SELECT dispatch()")
    late.rollback()
    clock.advance(back)
    for _ in range(30):
        clock.advance(100)
        dispatch(conn)
    assert len(serve(conn)) == 1
    check(conn)


@pytest.mark.parametrize("jump", [HOUR, -HOUR, *(-ms for ms in SMALL)])
def test_a_limit_stays_a_limit(conn: psycopg.Connection, clock: FakeClock, jump: int) -> None:
    conn.execute("SELECT * FROM channel_set('a', 1)")
    create(conn, "a", "1", at=1)
    create(conn, "a", "2", at=2)
    [running] = serve(conn, lease_ms=10 * HOUR)
    clock.advance(jump)
    assert serve(conn) == []
    clock.advance(1000)
    assert serve(conn) == []
    complete(conn, [running])
    got = contents(serve(conn))
    clock.advance(1000)
    assert got + contents(serve(conn)) == [b"2"]
    check(conn)


@pytest.mark.parametrize("jump", [HOUR, -HOUR, *(-ms for ms in SMALL)])
def test_an_interval_does_not_grow_by_the_jump(conn: psycopg.Connection, clock: FakeClock, jump: int) -> None:
    conn.execute("SELECT * FROM channel_set('a', p_release_interval_us => 5000000)")
    for i in range(3):
        create(conn, "a", str(i), at=i)
    assert contents(serve(conn, lease_ms=10 * HOUR)) == [b"0"]
    clock.advance(jump)
    if jump < 0:
        assert serve(conn) == [], "the interval has not passed by any clock"
        clock.advance(5000 + min(1000, -jump))
    assert contents(serve(conn)) == [b"1"]
    clock.advance(4999)
    assert serve(conn) == []
    clock.advance(1)
    assert contents(serve(conn)) == [b"2"]
    check(conn)


class Chaos:
    """Creates, dispatches, open dequeues, extensions and clock steps, in random order."""

    CHANNELS = ("a", "b", "limited", "slow")

    def __init__(
        self, conn: psycopg.Connection, holder: psycopg.Connection, clock: FakeClock, size: str, seed: int
    ) -> None:
        self.conn = conn
        self.holder = holder
        self.clock = clock
        self.is_small = size == "small"
        self.rng = random.Random(f"{size}/{seed}")
        self.made = 0
        self.latest = clock.at
        self.leased: list[Delivery] = []

    def act(self) -> None:
        actions = (self.create, self.create, self.dispatch, self.dispatch, self.take, self.hold, self.release)
        self.rng.choice((*actions, self.extend, self.step, self.step_back))()
        self.latest = max(self.latest, self.clock.at)

    def create(self) -> None:
        self.made += 1
        at = self.rng.choice((None, -5, self.clock.at, self.clock.at + 100))
        create(self.conn, self.rng.choice(self.CHANNELS), str(self.made), at)

    def dispatch(self) -> None:
        # One call only: while a dequeue is open, the work after a clock step may have to wait for it.
        self.conn.execute("SELECT dispatch()")

    def take(self) -> None:
        self.leased += dequeue(self.conn, self.rng.choice((1, 3)), self.rng.choice((5, 50, 5000)))[0]

    def hold(self) -> None:
        dequeue(self.holder, self.rng.choice((1, 3)), self.rng.choice((5, 50, 5000)))

    def release(self) -> None:
        self.rng.choice((self.holder.commit, self.holder.rollback))()

    def extend(self) -> None:
        if self.leased:
            late = self.leased.pop(self.rng.randrange(len(self.leased)))
            self.conn.execute("SELECT message_extend(%s, %s, 60)", (late.id, late.token))

    def step(self) -> None:
        self.clock.advance(self.rng.randint(1, 400) if self.is_small else self.rng.choice((100, HOUR)))

    def step_back(self) -> None:
        # Small steps stay so close to the latest time that the engine does not take the clock for reset.
        at = self.latest - self.rng.randint(1, 900) if self.is_small else self.clock.at - HOUR
        self.clock.set(at)


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 30))]
)
@pytest.mark.parametrize("size", ["small", "hour"])
def test_random_steps_strand_nothing(
    conn: psycopg.Connection, connect: Connect, clock: FakeClock, size: str, seed: int
) -> None:
    conn.execute("SELECT * FROM queue_set(p_max_attempts => 1000)")
    conn.execute("SELECT * FROM channel_set('limited', 1)")
    conn.execute("SELECT * FROM channel_set('slow', p_release_interval_us => 300000)")
    chaos = Chaos(conn, connect(autocommit=False), clock, size, seed)
    for _ in range(120):
        chaos.act()
    chaos.holder.rollback()
    clock.set(chaos.latest + 10_000)
    served: list[bytes] = []
    for _ in range(100 + 2 * chaos.made):
        clock.advance(310)
        got = serve(conn)
        complete(conn, got)
        served += contents(got)
    assert sorted(served, key=int) == [str(i + 1).encode() for i in range(chaos.made)]
    check(conn)
