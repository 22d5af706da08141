"""Many channels with limits, and schedules, over several workers: judged from outside."""

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
from tests.worker.processes import Crew, until

CHANNELS = 1000
HOT = 10
TICKS = 4


@pytest.fixture
def queue(dsn: str) -> Iterator[Queue]:
    with Queue(dsn) as made:
        made.set(history=True)
        yield made


@pytest.fixture
def crew(dsn: str, tmp_path: Path) -> Iterator[Crew]:
    with Crew(dsn, tmp_path) as made:
        yield made


def limit(channel: int) -> int:
    return 1 + channel % 2


def busiest(entries: list[Entry], channel_of: list[int]) -> Counter[int]:
    """For each channel, how many of its handlers ran at a time."""
    running: defaultdict[int, int] = defaultdict(int)
    most: Counter[int] = Counter()
    for entry in sorted(entries):
        channel = channel_of[entry.order]
        running[channel] += 1 if entry.what == "begin" else -1
        most[channel] = max(most[channel], running[channel])
    return most


def watch(conn: psycopg.Connection, until_done: threading.Event) -> tuple[int, list[tuple[str, int]]]:
    """How often it looked, and which channels had more leases than they may."""
    looks, broken = 0, []
    while not until_done.is_set():
        broken += conn.execute(
            """SELECT l.channel, COUNT(*) FROM leases l JOIN channel c ON c.name = l.channel
            GROUP BY l.channel, c.max_concurrency HAVING COUNT(*) > c.max_concurrency"""
        ).fetchall()
        looks += 1
    return looks, broken


@pytest.mark.slow
def test_a_thousand_channels_with_limits(
    queue: Queue, conn: psycopg.Connection, connect: Connect, crew: Crew
) -> None:
    """Most hold little; the last have so much that all workers together want more of it than they may."""
    conn.execute(
        "SELECT channel_set(n::TEXT, p_max_concurrency => 1 + n %% 2) FROM generate_series(0, %s) n",
        (CHANNELS - 1,),
    )
    channel_of = [*range(CHANNELS), *(n % HOT for n in range(HOT * 100))]
    queue.enqueue_many(
        shop.ship.using(channel=str(channel)).message(order, 0.005)
        for order, channel in enumerate(channel_of)
    )
    done = threading.Event()
    with ThreadPoolExecutor(1) as beside:
        watching = beside.submit(watch, connect(), done)
        try:
            workers = crew.start_many(3, concurrency=20)
            until(lambda: conn.execute("SELECT FROM message LIMIT 1").fetchall() == [], "all to be done", 60)
        finally:
            done.set()
    assert [worker.stop() for worker in workers] == [0] * 3
    most = busiest(crew.ledger.read(), channel_of)
    looks, broken = watching.result()
    print(f"{looks} looks at the leases; {Counter(most.values())} by how many ran at a time")
    assert looks > 10
    assert broken == []
    assert {channel: held for channel, held in most.items() if held > limit(channel)} == {}
    bound = range(HOT)
    assert [most[channel] for channel in bound] == [limit(channel) for channel in bound]
    assert len(crew.ledger.runs("end")) == len(channel_of)
    assert {entry.worker for entry in crew.ledger.read()} == {worker.name for worker in workers}
    check(conn)


def ticks(conn: psycopg.Connection) -> list[int]:
    query = "SELECT (headers ->> 'scheduled-at')::BIGINT FROM finished WHERE outcome = 'completed' ORDER BY 1"
    return [tick for (tick,) in conn.execute(query)]


@pytest.mark.slow
def test_schedules_over_three_workers(queue: Queue, conn: psycopg.Connection, crew: Crew) -> None:
    """One message a tick and none missing, though one of the three is killed, and another takes its place."""
    workers = crew.start_many(3, "clock", lease=1)
    until(lambda: len(ticks(conn)) >= TICKS, "ticks")
    workers.pop().kill()
    workers.append(crew.start("clock", lease=1))
    seen = len(ticks(conn))
    until(lambda: len(ticks(conn)) >= seen + TICKS, "more of them")
    assert [worker.serves().stop() for worker in workers] == [0] * 3
    found = ticks(conn)
    assert {later - tick for tick, later in pairwise(found)} == {1000}
    assert conn.execute("SELECT MAX(ticked_at) FROM schedule").fetchone() == (
        max(found) if not conn.execute("SELECT FROM message").fetchall() else None,
    )
    delays = conn.execute(
        "SELECT MAX(created_at - (headers ->> 'scheduled-at')::BIGINT) FROM finished"
    ).fetchall()
    print(f"{len(found)} ticks, at most {delays[0][0]} ms late")
