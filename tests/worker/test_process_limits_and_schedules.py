"""Channels with limits, and schedules, served by several worker processes, observed from outside."""

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from lonnymq import Queue
from tests.database import Connect
from tests.invariants import check
from tests.worker import shop
from tests.worker.ledger import Entry
from tests.worker.processes import Processes, until

HOT = 10
MESSAGES = 4


@pytest.fixture
def queue(dsn: str) -> Iterator[Queue]:
    with Queue(dsn) as made:
        made.set(history=True)
        yield made


@pytest.fixture
def processes(dsn: str, tmp_path: Path) -> Iterator[Processes]:
    with Processes(dsn, tmp_path) as made:
        yield made


def limit(channel: int) -> int:
    return 1 + channel % 2


def busiest(entries: list[Entry], channel_of: list[int]) -> Counter[int]:
    """For each channel, how many of its handlers ran at the same time, at most."""
    running: defaultdict[int, int] = defaultdict(int)
    most: Counter[int] = Counter()
    for entry in sorted(entries):
        channel = channel_of[entry.order]
        running[channel] += 1 if entry.what == "begin" else -1
        most[channel] = max(most[channel], running[channel])
    return most


def watch(conn: psycopg.Connection, until_done: threading.Event) -> tuple[int, list[tuple[str, int]]]:
    """Returns how often it checked, and which channels had more leases than their limit."""
    checks, exceeded = 0, []
    while not until_done.is_set():
        exceeded += conn.execute(
            """SELECT l.channel, COUNT(*) FROM leases l JOIN channel c ON c.name = l.channel
            GROUP BY l.channel, c.max_concurrency HAVING COUNT(*) > c.max_concurrency"""
        ).fetchall()
        checks += 1
    return checks, exceeded


@pytest.mark.slow
@pytest.mark.parametrize(("channels", "hot"), [(200, 30), pytest.param(1_000, 100, marks=pytest.mark.long)])
def test_many_channels_with_limits(
    queue: Queue, conn: psycopg.Connection, connect: Connect, processes: Processes, channels: int, hot: int
) -> None:
    """Most channels hold one message; the hot ones hold more than the workers may run at the same time."""
    conn.execute(
        "SELECT channel_set(n::TEXT, p_max_concurrency => 1 + n %% 2) FROM generate_series(0, %s) n",
        (channels - 1,),
    )
    channel_of = [*range(channels), *(n % HOT for n in range(HOT * hot))]
    queue.enqueue_many(
        shop.ship.using(channel=str(channel)).message(order, 0.005)
        for order, channel in enumerate(channel_of)
    )
    done = threading.Event()
    with ThreadPoolExecutor(1) as thread:
        watching = thread.submit(watch, connect(), done)
        try:
            workers = processes.start_many(3, concurrency=20)
            until(lambda: conn.execute("SELECT FROM message LIMIT 1").fetchall() == [], "all to be done", 60)
        finally:
            done.set()
    assert [worker.stop() for worker in workers] == [0] * 3
    most = busiest(processes.ledger.read(), channel_of)
    checks, exceeded = watching.result()
    print(f"{checks} checks of the leases; channels by how many ran at a time: {Counter(most.values())}")
    assert checks > 10
    assert exceeded == []
    assert {channel: count for channel, count in most.items() if count > limit(channel)} == {}
    assert [most[channel] for channel in range(HOT)] == [limit(channel) for channel in range(HOT)]
    assert len(processes.ledger.runs("end")) == len(channel_of)
    assert {entry.worker for entry in processes.ledger.read()} == {worker.name for worker in workers}
    check(conn)


def fired(conn: psycopg.Connection) -> list[int]:
    query = "SELECT (headers ->> 'scheduled-at')::BIGINT FROM finished WHERE outcome = 'completed' ORDER BY 1"
    return [time for (time,) in conn.execute(query)]


@pytest.mark.slow
def test_schedules_over_three_workers(queue: Queue, conn: psycopg.Connection, processes: Processes) -> None:
    """One message per time and none missing, though one of the three workers is killed and replaced."""
    workers = processes.start_many(3, "clock", lease=1)
    until(lambda: len(fired(conn)) >= MESSAGES, "messages")
    workers.pop().kill()
    workers.append(processes.start("clock", lease=1))
    seen = len(fired(conn))
    until(lambda: len(fired(conn)) >= seen + MESSAGES, "more messages")
    assert [worker.wait_until_serving().stop() for worker in workers] == [0] * 3
    found = fired(conn)
    assert {later - time for time, later in pairwise(found)} == {1000}
    waits = conn.execute("SELECT (headers ->> 'scheduled-at')::BIGINT FROM message").fetchall()
    assert conn.execute("SELECT MAX(ticked_at) FROM schedule").fetchone() == (
        max([*found, *(time for (time,) in waits)]),
    )
    delays = conn.execute(
        "SELECT MAX(created_at - (headers ->> 'scheduled-at')::BIGINT) FROM finished"
    ).fetchall()
    print(f"{len(found)} messages, at most {delays[0][0]} ms late")
