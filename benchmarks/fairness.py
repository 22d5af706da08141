"""Fairness: how many messages of others are served before a message, which is what a scheduler decides."""

import random
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import psycopg

from benchmarks import bench_skew
from benchmarks.bench_server import BenchServer
from benchmarks.peers import LonnyMQ, Peer, Prototype
from benchmarks.peers.peer import SMALL, Script

QUIET_TENANTS = 99
NOISY_BACKLOG = 300_000
NOISY = "c1"
ARRIVALS = 300
SERVED_BETWEEN_ARRIVALS = 7
CONSUMERS = 8
SHARE_SECONDS = 5
SHARE_BACKLOG = 3_000


class CountedQueue(Protocol):
    """A queue with a single caller, so that every wait can be counted exactly."""

    def put(self, channel: str, count: int = 1) -> None: ...

    def take(self) -> str:
        """Serve one message. Returns its channel."""


class Fifo:
    """A queue without tenants."""

    def __init__(self) -> None:
        self._messages: deque[str] = deque()

    def put(self, channel: str, count: int = 1) -> None:
        self._messages.extend([channel] * count)

    def take(self) -> str:
        return self._messages.popleft()


class LonnyMQQueue:
    def __init__(self, conn: psycopg.Connection) -> None:
        self._conn = conn
        self._wants_dispatch = True

    def put(self, channel: str, count: int = 1) -> None:
        for start in range(0, count, 10_000):
            size = min(10_000, count - start)
            self._conn.execute(
                "SELECT COUNT(*) FROM message_create_many("
                "array_fill(%s::TEXT, ARRAY[%s]), array_fill('x'::BYTEA, ARRAY[%s]))",
                (channel, size, size),
            )

    def take(self) -> str:
        if self._wants_dispatch:
            self._conn.execute("SELECT dispatch()")
        row = self._conn.execute("SELECT channel, again_at, id, token FROM message_dequeue(1)").fetchone()
        assert row is not None
        channel, again_at, *lease = row
        self._wants_dispatch = again_at is not None
        self._conn.execute("SELECT message_complete(%s, %s)", lease)
        return str(channel)


class PrototypeQueue:
    def __init__(self, conn: psycopg.Connection) -> None:
        self._conn = conn

    def put(self, channel: str, count: int = 1) -> None:
        self._conn.execute(
            "SELECT COUNT(message_create('x', %s, NULL)) FROM generate_series(1, %s)", (channel, count)
        )

    def take(self) -> str:
        row = self._conn.execute("SELECT channel FROM message_dequeue()").fetchone()
        assert row is not None
        self._conn.execute("SELECT message_complete(%s)", row)
        return str(row[0])


def waits(queue: CountedQueue, seed: int = 1) -> list[int]:
    """One tenant has a backlog. Returns how many messages were served before each one of a quiet tenant."""
    chance = random.Random(seed)
    queue.put(NOISY, NOISY_BACKLOG)
    arrived: defaultdict[str, deque[int]] = defaultdict(deque)
    waited: list[int] = []
    served = arrivals = 0
    while len(waited) < ARRIVALS:
        if arrivals < ARRIVALS and served % SERVED_BETWEEN_ARRIVALS == 0:
            channel = f"c{chance.randint(2, QUIET_TENANTS + 1)}"
            queue.put(channel)
            arrived[channel].append(served)
            arrivals += 1
        channel = queue.take()
        served += 1
        if arrived[channel]:
            waited.append(served - arrived[channel].popleft())
    return waited


def shares(server: BenchServer, peer: Peer, script: Script) -> list[int]:
    """All tenants have a backlog. Returns how many messages each was served."""
    channels = QUIET_TENANTS + 1
    with server.database(peer, channels) as bench, server.connect(peer) as conn:
        peer.fill(conn, channels, SHARE_BACKLOG * channels, SMALL)
        before = dict(_waiting(conn, peer))
        bench.start(script, clients=CONSUMERS, seconds=SHARE_SECONDS).wait()
        after = dict(_waiting(conn, peer))
    assert all(after.get(channel, 0) > 0 for channel in before), "a channel ran empty: increase SHARE_BACKLOG"
    return [count - after[channel] for channel, count in before.items()]


def jain(served: list[int]) -> float:
    """Jain's index: 1 if all got the same, 1/n if one got everything."""
    return sum(served) ** 2 / (len(served) * sum(count * count for count in served))


def _waiting(conn: psycopg.Connection, peer: Peer) -> Iterator[tuple[str, int]]:
    channel = "channel_id::TEXT" if peer.name == "prototype" else "channel"
    yield from conn.execute(f"SELECT {channel}, COUNT(*) FROM message GROUP BY 1").fetchall()


@dataclass(frozen=True)
class Fairness:
    waits: dict[str, list[int]]
    jain: dict[str, float]
    skew: list[bench_skew.Row]


def run(server: BenchServer, lonnymq: LonnyMQ, prototype: Prototype) -> Fairness:
    channels = QUIET_TENANTS + 1
    waited = {"plain FIFO": waits(Fifo())}
    with server.database(prototype, channels), server.connect(prototype) as conn:
        waited["prototype"] = waits(PrototypeQueue(conn))
    with server.database(lonnymq, channels), server.connect(lonnymq) as conn:
        waited["lonnymq"] = waits(LonnyMQQueue(conn))
    index = {}
    for size in (1, 50):
        index[f"lonnymq, {size} per dequeue"] = jain(shares(server, lonnymq, lonnymq.consume(size, "async")))
    script = prototype.consume(1, "async")
    assert script is not None
    index["prototype, 1 per dequeue"] = jain(shares(server, prototype, script))
    return Fairness(waited, index, bench_skew.run(server, lonnymq))
