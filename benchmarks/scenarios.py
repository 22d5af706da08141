"""The scenarios of the engine benchmark. Each can run one peer once."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import psycopg

from benchmarks.bench_server import BenchServer
from benchmarks.measure import Sample, measured
from benchmarks.peers import Peer
from benchmarks.peers.peer import SMALL, Commit, Script
from benchmarks.pgbench import Pgbench

PRODUCERS = CONSUMERS = 8
BATCH_PRODUCERS = 4
DRAINERS = 2
DRAIN_LIMIT_SECONDS = 300
WARM_UP_SECONDS = 1  # not measured: new connections compile functions and plan statements
CONTENT_SIZES = {1024: "1 KiB", 8192: "8 KiB"}


class Scenario(ABC):
    group: ClassVar[str]
    rounds: ClassVar[int] = 10
    """The maximum number of rounds."""

    @property
    @abstractmethod
    def title(self) -> str: ...

    @abstractmethod
    def applies_to(self, peer: Peer) -> bool: ...

    @abstractmethod
    def run(self, server: BenchServer, peer: Peer, seconds: int) -> Sample: ...


@dataclass(frozen=True)
class Create(Scenario):
    """Producers only, with durable commits."""

    group = "create"
    channels: int
    size: int
    content_bytes: int = SMALL

    @property
    def title(self) -> str:
        return f"{channels_text(self.channels)}, {self.size} per call{content_text(self.content_bytes)}"

    def applies_to(self, peer: Peer) -> bool:
        return is_plain(peer) and self._script(peer) is not None

    def run(self, server: BenchServer, peer: Peer, seconds: int) -> Sample:
        script = self._script(peer)
        assert script is not None
        clients = PRODUCERS if self.size == 1 else BATCH_PRODUCERS
        with server.database(peer, self.channels) as bench:
            return measured(
                server, lambda: bench.start(script, clients=clients, seconds=seconds).wait() * self.size
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
        dequeue = f"{self.size} per dequeue, {self.commit} dequeue"
        return f"{channels_text(self.channels)}, {dequeue}{content_text(self.content_bytes)}"

    def applies_to(self, peer: Peer) -> bool:
        return is_plain(peer) and peer.consume(self.size, self.commit) is not None


class Steady(Consuming):
    """Producers of single messages and consumers at the same time; completed messages are counted."""

    group = "steady"

    def run(self, server: BenchServer, peer: Peer, seconds: int) -> Sample:
        with server.database(peer, self.channels) as bench:
            return self.on(bench, server, peer, warm_up=WARM_UP_SECONDS, seconds=seconds)

    def on(self, bench: Pgbench, server: BenchServer, peer: Peer, *, warm_up: int, seconds: int) -> Sample:
        """Run for `warm_up + seconds`; measure the last `seconds`."""
        consume = peer.consume(self.size, self.commit)
        assert consume is not None
        consumers = bench.start(consume, clients=CONSUMERS, seconds=warm_up + seconds)
        producers = bench.start(
            peer.create(self.channels, self.content_bytes), clients=PRODUCERS, seconds=warm_up + seconds
        )
        time.sleep(warm_up)
        with server.connect(peer) as conn:
            before = finished(conn, peer)

            def completed() -> int:
                producers.wait()
                consumers.wait()
                return finished(conn, peer) - before

            return measured(server, completed)


@dataclass(frozen=True)
class Held(Steady):
    """Runs for three lease periods and measures the last, with and without a snapshot held open."""

    group = "held"
    rounds = 1
    seconds: int = 90

    def applies_to(self, peer: Peer) -> bool:
        return not peer.has_limits and peer.consume(self.size, self.commit) is not None

    def run(self, server: BenchServer, peer: Peer, seconds: int) -> Sample:  # noqa: ARG002
        with server.database(peer, self.channels) as bench, server.connect(peer) as reader:
            if peer.has_held_snapshot:
                reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                reader.execute("SELECT COUNT(*) FROM pg_class")
            return self.on(bench, server, peer, warm_up=self.seconds * 2 // 3, seconds=self.seconds // 3)


class Limits(Steady):
    """LonnyMQ only, with and without limits."""

    group = "limits"

    def applies_to(self, peer: Peer) -> bool:
        return peer.has_limits or peer.name == "lonnymq"


@dataclass(frozen=True)
class Drain(Consuming):
    """Consumers work through a backlog until it is empty."""

    group = "drain"
    messages: int = 100_000

    def run(self, server: BenchServer, peer: Peer, seconds: int) -> Sample:  # noqa: ARG002
        consume = peer.consume(self.size, self.commit)
        assert consume is not None
        with server.database(peer, self.channels) as bench:
            with server.connect(peer) as conn:
                peer.fill(conn, self.channels, self.messages, self.content_bytes)
                conn.execute(f"VACUUM ANALYZE {peer.table}")

            def completed() -> int:
                script = consume.until_empty()
                bench.start(script, clients=DRAINERS, seconds=DRAIN_LIMIT_SECONDS).wait_until_stopped()
                return self.messages

            sample = measured(server, completed)
            with server.connect(peer) as conn:
                assert finished(conn, peer) == self.messages, f"{peer.name} left messages behind"
            return sample


def is_plain(peer: Peer) -> bool:
    return not peer.has_limits and not peer.has_held_snapshot


def finished(conn: psycopg.Connection, peer: Peer) -> int:
    """The number of messages that were created and are no longer in the table."""
    row = conn.execute(
        f"SELECT COALESCE(pg_sequence_last_value('{peer.sequence}'), 0) - (SELECT COUNT(*) FROM {peer.table})"
    ).fetchone()
    assert row is not None
    return int(row[0])


def channels_text(count: int) -> str:
    return "1 channel" if count == 1 else f"{count:,} channels"


def content_text(size: int) -> str:
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
