"""The server's clock steps between two readings in one call: no message is stranded, and limits hold.

A call reads the clock to choose rows, and again for the times that it writes. NTP and virtual machines can
set a clock back by some milliseconds at any moment, so the second reading may be lower.
"""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import psycopg
import pytest

from tests.clock import RestlessClock
from tests.database import Connect
from tests.invariants import Delivery, check, dequeue, dispatch, drain
from tests.sql.test_dequeue import fill

STEPS = (
    *(-1, -499, 999, -3_600_000, 3_600_000),
    *(pytest.param(step, marks=pytest.mark.long) for step in (-2, -50, -999)),
)


@pytest.fixture
def clock(conn: psycopg.Connection) -> RestlessClock:
    return RestlessClock(conn)


def create(conn: psycopg.Connection, channel: str, count: int, at: int) -> None:
    conn.execute(
        "SELECT message_create_many(array_fill(%s::TEXT, ARRAY[%s]), array_fill('x'::BYTEA, ARRAY[%s]),"
        " array_fill(%s::BIGINT, ARRAY[%s]))",
        (channel, count, count, at, count),
    )


def complete(conn: psycopg.Connection, deliveries: list[Delivery]) -> None:
    for d in deliveries:
        assert conn.execute("SELECT message_complete(%s, %s)", (d.id, d.token)).fetchone() == ("completed",)


@pytest.mark.cases(12)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("reading", [1, 2, 3, 4])
@pytest.mark.parametrize("limit", [1, 2])
def test_a_step_inside_a_dequeue(
    conn: psycopg.Connection, clock: RestlessClock, limit: int, reading: int, step: int
) -> None:
    """The channel keeps its turn, and the rest of its messages are served."""
    create(conn, "a", 17, clock.at - 5_000)
    dispatch(conn)
    clock.step(*[0] * reading, step, step, step, step)
    first, _ = dequeue(conn, limit)
    assert len(first) == limit
    clock.step()
    for _ in range(3):
        clock.advance(1_000)
        dispatch(conn)
    clock.set(max(d.lease_end_at for d in first) - 1)
    rest = drain(conn)
    assert len(rest) == 17 - limit
    complete(conn, first)
    check(conn)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("limit", [1, 2])
def test_a_step_inside_a_dequeue_that_empties_its_channels(
    conn: psycopg.Connection, clock: RestlessClock, limit: int, step: int
) -> None:
    """The channels lose their turn, and come last when they have messages again."""
    for channel in ("a", "b"):
        create(conn, channel, 1, clock.at - 5_000)
    dispatch(conn)
    clock.step(0, 0, step, step, step, step)
    complete(conn, dequeue(conn, limit)[0])
    clock.step()
    clock.advance(1_000)
    fill(conn, a=1, b=1)
    dispatch(conn)
    clock.advance(3_600_000)
    assert len(drain(conn)) == 4 - limit


@pytest.mark.cases(8)
@pytest.mark.parametrize(
    "step", [-1, -499, *(pytest.param(step, marks=pytest.mark.long) for step in (-50, -999))]
)
@pytest.mark.parametrize("reading", [1, 2, 3, 4])
@pytest.mark.parametrize("limit", [1, 2])
def test_release_times_keep_the_interval(
    conn: psycopg.Connection, clock: RestlessClock, limit: int, reading: int, step: int
) -> None:
    conn.execute("SELECT channel_set('a', p_release_interval_us => 5000000)")
    create(conn, "a", 3, clock.at - 9_000)
    dispatch(conn)
    released_ats = []
    for _ in range(3):
        clock.step(*[0] * reading, step, step, step, step)
        [delivery], _ = dequeue(conn, limit, 30_000)
        released_ats.append(delivery.lease_end_at - 30_000)
        clock.step()
        clock.advance(5_000)
        dispatch(conn)
    assert all(later - earlier >= 5_000 for earlier, later in pairwise(released_ats)), released_ats


@pytest.mark.parametrize("late_ms", [1, 50, 999])
def test_a_delayed_dequeue_reads_the_clock_when_it_takes_messages(
    conn: psycopg.Connection, clock: RestlessClock, late_ms: int
) -> None:
    """Otherwise its time would be before the release of the messages that it takes."""
    conn.execute("SELECT channel_set('a', p_release_interval_us => 5000000)")
    create(conn, "a", 2, clock.at - 9_000)
    dispatch(conn)
    [first], _ = dequeue(conn, 1, 30_000)
    clock.advance(5_000)
    dispatch(conn)
    clock.step(-late_ms)
    [second], _ = dequeue(conn, 1, 30_000)
    assert second.lease_end_at - first.lease_end_at >= 5_000


@pytest.mark.parametrize("step", STEPS)
def test_a_lease_that_was_locked_when_the_clock_stepped_back(
    conn: psycopg.Connection, connect: Connect, clock: RestlessClock, step: int
) -> None:
    """The lease was locked when a sweep passed its end: it is swept later, whatever the clock did since."""
    create(conn, "a", 1, clock.at)
    dispatch(conn)
    [delivery], _ = dequeue(conn, 1, 100)
    clock.advance(500)
    holder = connect(autocommit=False)
    holder.execute("SELECT message_complete(%s, %s)", (delivery.id, delivery.token))
    dispatch(conn)
    assert conn.execute("SELECT COUNT(*) FROM alarm").fetchone() == (1,)
    at = clock.at
    clock.set(at + step)
    for _ in range(4):
        clock.advance(2)
        conn.execute("SELECT dispatch()")
    holder.rollback()
    clock.set(max(at, clock.at))
    for _ in range(5):
        clock.advance(1_000)
        dispatch(conn)
    assert [again.id for again in drain(conn)] == [delivery.id]


@dataclass
class Consumer:
    """Dispatches, dequeues, and completes, releases or abandons the messages, until nothing is left."""

    conn: psycopg.Connection
    rng: random.Random
    deadline: float

    def run(self) -> int:
        done = 0
        while time.monotonic() < self.deadline:
            self.conn.execute("SELECT dispatch()")
            taken, _ = dequeue(self.conn, self.rng.choice((1, 1, 3, 40)), self.rng.choice((20, 1_000)))
            for delivery in taken:
                done += self.finish(delivery)
            if not taken and self.conn.execute("SELECT COUNT(*) FROM message").fetchone() == (0,):
                break
        return done

    def finish(self, delivery: Delivery) -> int:
        draw = self.rng.random()
        key = (delivery.id, delivery.token)
        if draw < 0.05:
            return 0  # abandoned: its lease runs out
        if draw < 0.1:
            self.conn.execute("SELECT message_retry(%s, %s)", key)
            return 0
        row = self.conn.execute("SELECT message_complete(%s, %s)", key).fetchone()
        return 1 if row == ("completed",) else 0


@pytest.mark.parametrize(
    ("swing", "before"),
    [
        *((5, 2_000), (3_000, 100)),
        *(
            pytest.param(*given, marks=pytest.mark.long)
            for given in ((5, 100), (450, 100), (450, 2_000), (3_000, 2_000))
        ),
    ],
)
def test_nothing_is_stranded_by_a_clock_that_jitters(
    conn: psycopg.Connection, connect: Connect, clock: RestlessClock, before: int, swing: int
) -> None:
    """Several consumers, channels with limits and intervals, released messages and leases that run out.
    `before` of the messages wait when they start.
    """
    rng = random.Random(swing)
    conn.execute("SELECT queue_set(p_max_attempts => 1000)")
    names = [f"channel {number}" for number in range(150)]
    for number, name in enumerate(names[:40]):
        if number % 2:
            conn.execute("SELECT channel_set(%s, p_max_concurrency => 2)", (name,))
        else:
            conn.execute("SELECT channel_set(%s, p_release_interval_us => 20000)", (name,))
    clock.jitter([rng.randint(-swing, swing) for _ in range(997)], pace_ms=2)
    made = 2_000
    deadline = time.monotonic() + 30
    consumers = [Consumer(connect(), random.Random(seed), deadline) for seed in range(3)]
    with ThreadPoolExecutor(len(consumers)) as threads:
        create_some(conn, rng, names, before)
        running = [threads.submit(consumer.run) for consumer in consumers]
        for _ in range((made - before) // 100):
            create_some(conn, rng, names, 100)
        done = sum(future.result() for future in running)
    clock.advance(10_000)
    left = conn.execute("SELECT COUNT(*) FROM message").fetchone()
    assert (done, left) == (made, (0,)), "messages wait for a turn that never comes"
    clock.step()
    check(conn)


def create_some(conn: psycopg.Connection, rng: random.Random, names: list[str], count: int) -> None:
    conn.execute(
        "SELECT message_create_many(%s, array_fill('x'::BYTEA, ARRAY[%s]))",
        ([rng.choice(names) for _ in range(count)], count),
    )


@pytest.mark.parametrize("channel", [None, "a"])
@pytest.mark.parametrize("reading", range(6))
def test_a_message_that_becomes_due_while_it_is_listed(
    conn: psycopg.Connection, clock: RestlessClock, channel: str | None, reading: int
) -> None:
    conn.execute("SELECT message_create('a', 'x', p_delay_ms => 1000)")
    conn.execute("SELECT dispatch()")
    clock.step(*[0] * reading, *[2000] * (10 - reading))
    for status in ("waiting", "due", "scheduled"):
        found = conn.execute("SELECT id FROM message_list(%s, %s)", (channel, status)).fetchall()
        assert len(found) == 1 or status != "waiting", f"{status}: {found}"
        assert len(found) <= 1
        clock.step(*[0] * reading, *[2000] * (10 - reading))
