"""What is measured: each a way to run one peer once."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import psycopg

from benchmarks.arena import Arena
from benchmarks.measure import Sample, measured
from benchmarks.peers import Peer
from benchmarks.peers.peer import SMALL, Commit, Script
from benchmarks.pgbench import Pgbench

PRODUCERS = CONSUMERS = 8
BATCH_PRODUCERS = 4
DRAINERS = 2
DRAIN_LIMIT_SECONDS = 300
WARM_UP_SECONDS = 1  # new connections compile functions and plan statements, which is not counted
CONTENT_SIZES = {1024: "1 KiB", 8192: "8 KiB"}


class Scenario(ABC):
    group: ClassVar[str]
    rounds: ClassVar[int] = 10
    """At most."""

    @property
    @abstractmethod
    def title(self) -> str: ...

    @abstractmethod
    def suits(self, peer: Peer) -> bool: ...

    @abstractmethod
    def run(self, arena: Arena, peer: Peer, seconds: int) -> Sample: ...


@dataclass(frozen=True)
class Create(Scenario):
    """Producers alone, durable."""

    group = "create"
    channels: int
    size: int
    content_bytes: int = SMALL

    @property
    def title(self) -> str:
        return f"{of_channels(self.channels)}, {self.size} a call{of_contents(self.content_bytes)}"

    def suits(self, peer: Peer) -> bool:
        return is_plain(peer) and self._script(peer) is not None

    def run(self, arena: Arena, peer: Peer, seconds: int) -> Sample:
        script = self._script(peer)
        assert script is not None
        clients = PRODUCERS if self.size == 1 else BATCH_PRODUCERS
        with arena.database(peer, self.channels) as bench:
            return measured(
                arena, lambda: bench.start(script, clients=clients, seconds=seconds).wait() * self.size
            )

    def _script(self, peer: Peer) -> Script | None:
        if self.size == 1:
            return peer.create(self.channels, self.content_bytes)
        return peer.create_many(self.channels, self.size, self.content_bytes)


@dataclass(frozen=True)
class Consuming(Scenario):
    channels: int
    size: int
    commit: Commit
    content_bytes: int = SMALL

    @property
    def title(self) -> str:
        dequeue = f"{self.size} a dequeue, {self.commit} dequeue"
        return f"{of_channels(self.channels)}, {dequeue}{of_contents(self.content_bytes)}"

    def suits(self, peer: Peer) -> bool:
        return is_plain(peer) and peer.consume(self.size, self.commit) is not None


class Steady(Consuming):
    """Producers of single messages and consumers side by side; counted is what was completed."""

    group = "steady"

    def run(self, arena: Arena, peer: Peer, seconds: int) -> Sample:
        with arena.database(peer, self.channels) as bench:
            return self.on(bench, arena, peer, warm_up=WARM_UP_SECONDS, seconds=seconds)

    def on(self, bench: Pgbench, arena: Arena, peer: Peer, *, warm_up: int, seconds: int) -> Sample:
        """So many seconds, those of the warm-up not counted."""
        consume = peer.consume(self.size, self.commit)
        assert consume is not None
        consumers = bench.start(consume, clients=CONSUMERS, seconds=warm_up + seconds)
        producers = bench.start(
            peer.create(self.channels, self.content_bytes), clients=PRODUCERS, seconds=warm_up + seconds
        )
        time.sleep(warm_up)
        with arena.connect(peer) as conn:
            before = finished(conn, peer)

            def completed() -> int:
                producers.wait()
                consumers.wait()
                return finished(conn, peer) - before

            return measured(arena, completed)


@dataclass(frozen=True)
class Held(Steady):
    """For three lease periods, of which the last counts; with a snapshot that somebody holds, and without."""

    group = "held"
    rounds = 1
    seconds: int = 90

    def suits(self, peer: Peer) -> bool:
        return not peer.is_limited and peer.consume(self.size, self.commit) is not None

    def run(self, arena: Arena, peer: Peer, seconds: int) -> Sample:  # noqa: ARG002
        with arena.database(peer, self.channels) as bench, arena.connect(peer) as reader:
            if peer.meets_snapshot:
                reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                reader.execute("SELECT COUNT(*) FROM pg_class")
            return self.on(bench, arena, peer, warm_up=self.seconds * 2 // 3, seconds=self.seconds // 3)


class Limits(Steady):
    """By LonnyMQ alone, with limits and without."""

    group = "limits"

    def suits(self, peer: Peer) -> bool:
        return peer.is_limited or peer.name == "lonnymq"


@dataclass(frozen=True)
class Drain(Consuming):
    """A backlog, and consumers until it is gone."""

    group = "drain"
    messages: int = 100_000

    def run(self, arena: Arena, peer: Peer, seconds: int) -> Sample:  # noqa: ARG002
        consume = peer.consume(self.size, self.commit)
        assert consume is not None
        with arena.database(peer, self.channels) as bench:
            with arena.connect(peer) as conn:
                peer.fill(conn, self.channels, self.messages, self.content_bytes)
                conn.execute(f"VACUUM ANALYZE {peer.table}")

            def completed() -> int:
                script = consume.until_empty()
                bench.start(script, clients=DRAINERS, seconds=DRAIN_LIMIT_SECONDS).wait_until_stopped()
                return self.messages

            sample = measured(arena, completed)
            with arena.connect(peer) as conn:
                assert finished(conn, peer) == self.messages, f"{peer.name} left messages behind"
            return sample


def is_plain(peer: Peer) -> bool:
    return not peer.is_limited and not peer.meets_snapshot


def finished(conn: psycopg.Connection, peer: Peer) -> int:
    """Messages that were created and are gone; ids are given out one by one."""
    row = conn.execute(
        f"SELECT COALESCE(pg_sequence_last_value('{peer.sequence}'), 0) - (SELECT COUNT(*) FROM {peer.table})"
    ).fetchone()
    assert row is not None
    return int(row[0])


def of_channels(count: int) -> str:
    return "1 channel" if count == 1 else f"{count:,} channels"


def of_contents(size: int) -> str:
    return f", {CONTENT_SIZES[size]}" if size in CONTENT_SIZES else ""


def all_scenarios() -> Iterator[Scenario]:
    commits: tuple[Commit, ...] = ("durable", "async")
    channels = (1, 10, 1000)
    yield from (Create(count, size) for size, count in product((1, 100), channels))
    yield from (Create(10, size, large) for large, size in product(CONTENT_SIZES, (1, 100)))
    yield from (
        Steady(count, size, commit) for commit, size, count in product(commits, (1, 50, 1000), channels)
    )
    yield from (Steady(10, size, "durable", large) for large, size in product(CONTENT_SIZES, (1, 50)))
    yield from (Drain(count, size, commit) for commit, size, count in product(commits, (50, 1000), channels))
    yield from (Drain(10, 50, "durable", large, messages=30_000) for large in CONTENT_SIZES)
    yield from (Limits(1000, size, "durable") for size in (1, 50))
    yield Held(10, 50, "async")
