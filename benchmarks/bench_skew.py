"""./run bench skew: how long quiet tenants wait beside loud ones, and who gets which share.

There are ten workers. In each turn one of them becomes free and takes a message, which keeps it busy for ten
turns. Every policy gets the same arrivals. FIFO, caps and round robin are simulated; LonnyMQ is the real
engine. A wait is the number of turns between the arrival and the start of a message, that is the number of
messages that were, or could have been, served before it.
"""

import argparse
import random
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Protocol

import psycopg

from benchmarks.bench_server import BenchServer, bench_server
from benchmarks.peers import LonnyMQ

WORKERS = 10
CAP = 2
TURNS = 2_000
FLOOD = 20_000


class Policy(Protocol):
    """Decides which message is next. A tenant's channels are named `tenant/channel`."""

    def put(self, channel: str, count: int) -> None: ...

    def take(self) -> str | None:
        """Returns the channel of the message that starts, or None if no message may start."""

    def finish(self, channel: str) -> None:
        """The oldest running message of this channel finishes."""


class Fifo:
    """One queue for all tenants."""

    def __init__(self) -> None:
        self._messages: deque[str] = deque()

    def put(self, channel: str, count: int) -> None:
        self._messages.extend([channel] * count)

    def take(self) -> str | None:
        return self._messages.popleft() if self._messages else None

    def finish(self, channel: str) -> None: ...


class Caps:
    """One queue for all tenants, but no tenant runs more than two messages at a time."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[tuple[int, str]]] = defaultdict(deque)
        self._running: Counter[str] = Counter()
        self._arrived = 0

    def put(self, channel: str, count: int) -> None:
        for _ in range(count):
            self._arrived += 1
            self._waiting[tenant(channel)].append((self._arrived, channel))

    def take(self) -> str | None:
        free = [name for name, messages in self._waiting.items() if messages and self._running[name] < CAP]
        if not free:
            return None
        oldest = min(free, key=lambda name: self._waiting[name][0])
        self._running[oldest] += 1
        return self._waiting[oldest].popleft()[1]

    def finish(self, channel: str) -> None:
        self._running[tenant(channel)] -= 1


class RoundRobin:
    """One message of each channel in turn; a channel that was empty joins at the end."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, int] = OrderedDict()

    def put(self, channel: str, count: int) -> None:
        self._counts[channel] = self._counts.get(channel, 0) + count

    def take(self) -> str | None:
        if not self._counts:
            return None
        channel, count = self._counts.popitem(last=False)
        if count > 1:
            self._counts[channel] = count - 1
        return channel

    def finish(self, channel: str) -> None: ...


class Engine:
    """LonnyMQ. `weights` has the weights of channels that differ from 1."""

    def __init__(self, conn: psycopg.Connection, weights: dict[str, float]) -> None:
        self._conn = conn
        self._running: dict[str, deque[tuple[int, str]]] = defaultdict(deque)
        for channel, weight in weights.items():
            conn.execute("SELECT channel_set(%s, p_weight => %s::NUMERIC)", (channel, weight))

    def put(self, channel: str, count: int) -> None:
        for start in range(0, count, 10_000):
            size = min(10_000, count - start)
            self._conn.execute(
                "SELECT COUNT(*) FROM message_create_many("
                "array_fill(%s::TEXT, ARRAY[%s]), array_fill('x'::BYTEA, ARRAY[%s]))",
                (channel, size, size),
            )
        while self._conn.execute("SELECT dispatch()").fetchone() == (True,):
            pass

    def take(self) -> str | None:
        self._conn.execute("SELECT dispatch()")
        row = self._conn.execute("SELECT channel, id, token FROM message_dequeue(1)").fetchone()
        assert row is not None
        channel, message, token = row
        if channel is not None:
            self._running[channel].append((message, token))
        return None if channel is None else str(channel)

    def finish(self, channel: str) -> None:
        self._conn.execute("SELECT message_complete(%s, %s)", self._running[channel].popleft())


def tenant(channel: str) -> str:
    return channel.partition("/")[0]


@dataclass(frozen=True)
class Scenario:
    title: str
    about: str
    backlogs: dict[str, int]
    """Messages per channel that wait at the start."""
    arrivals: Callable[[int, str | None], Iterator[str]]
    """Returns the channels that get a message, given the turn and the channel that was served last."""
    loud: str
    """The prefix of the tenants whose share is shown."""
    fair_share: float
    """Their fair share."""
    weights: dict[str, float]
    """For tenants with several channels: the weights that make them equal to the others."""


def _arrivals_every(tenants: int, every: int) -> Callable[[int, str | None], Iterator[str]]:
    chance = random.Random(1)
    plan = {turn: f"quiet {chance.randrange(tenants)}" for turn in range(0, TURNS, every)}

    def arrivals(turn: int, _last: str | None) -> Iterator[str]:
        if turn in plan:
            yield plan[turn]

    return arrivals


def _one_at_a_time(turn: int, last: str | None) -> Iterator[str]:
    """Each quiet tenant sends its next message when its last one has started."""
    if turn == 0:
        yield from (f"quiet {n}" for n in range(5))
    elif last is not None and last.startswith("quiet"):
        yield last


def all_scenarios() -> Iterator[Scenario]:
    yield Scenario(
        "one flooder",
        f"One tenant has {FLOOD:,} messages waiting. 20 quiet tenants together send 1 message every 7 turns.",
        {"loud": FLOOD},
        _arrivals_every(20, 7),
        "loud",
        6 / 7,
        {},
    )
    spread = [f"loud/{n}" for n in range(50)]
    yield Scenario(
        "spread over many channels",
        "One tenant has 400 messages in each of 50 channels, another has 2,000 in one channel. 20 quiet "
        "tenants together send 1 message every 7 turns. With weights, each of the 50 channels has the weight "
        "1/50.",
        {**dict.fromkeys(spread, 400), "other": 2000},
        _arrivals_every(20, 7),
        "loud",
        3 / 7,
        dict.fromkeys(spread, 0.02),
    )
    yield Scenario(
        "heavy and idle",
        "5 tenants have 4,000 messages each. 95 are mostly idle and together send 1 message every 4 turns.",
        {f"loud {n}": 4000 for n in range(5)},
        _arrivals_every(95, 4),
        "loud",
        3 / 4,
        {},
    )
    yield Scenario(
        "trickle",
        "5 tenants have 4,000 messages each. 5 others send one message at a time, the next when the last "
        "has started.",
        {f"loud {n}": 4000 for n in range(5)},
        _one_at_a_time,
        "loud",
        1 / 2,
        {},
    )


@dataclass(frozen=True)
class Outcome:
    waits: list[int]
    """How long the messages of quiet tenants waited that were served."""
    unserved: list[int]
    """How long those have waited that were not served by the end."""
    loud_share: float
    """The share of the loud tenants in all served messages."""
    idle_share: float
    """The share of turns in which no message was allowed to start."""


def play(scenario: Scenario, policy: Policy) -> Outcome:
    for channel, count in scenario.backlogs.items():
        policy.put(channel, count)
    running: deque[str | None] = deque([None] * WORKERS)
    arrived: defaultdict[str, deque[int]] = defaultdict(deque)
    waits: list[int] = []
    served: Counter[str] = Counter()
    last: str | None = None
    for turn in range(TURNS):
        for channel in scenario.arrivals(turn, last):
            policy.put(channel, 1)
            arrived[channel].append(turn)
        finished = running.popleft()
        if finished is not None:
            policy.finish(finished)
        last = policy.take()
        running.append(last)
        if last is not None:
            served[tenant(last)] += 1
            if arrived[last]:
                waits.append(turn - arrived[last].popleft())
    unserved = [TURNS - turn for turns in arrived.values() for turn in turns]
    loud_served = sum(count for name, count in served.items() if name.startswith(scenario.loud))
    return Outcome(waits, unserved, loud_served / served.total(), 1 - served.total() / TURNS)


@dataclass(frozen=True)
class Row:
    scenario: Scenario
    policy: str
    outcome: Outcome


def run(server: BenchServer, lonnymq: LonnyMQ) -> list[Row]:
    rows = []
    for scenario in all_scenarios():
        simulated: dict[str, Policy] = {
            "FIFO": Fifo(),
            f"at most {CAP} at a time per tenant": Caps(),
            "round robin": RoundRobin(),
        }
        rows += [Row(scenario, name, play(scenario, policy)) for name, policy in simulated.items()]
        weighted = {"LonnyMQ": {}, **({"LonnyMQ, weights": scenario.weights} if scenario.weights else {})}
        for name, weights in weighted.items():
            with server.database(lonnymq, 1), server.connect(lonnymq) as conn:
                rows.append(Row(scenario, name, play(scenario, Engine(conn, weights))))
    return rows


HEAD = """\
| scenario | policy | wait of a quiet message: median | longest | loud share | fair share | workers idle |
|---|---|---:|---:|---:|---:|---:|"""


def table(rows: list[Row]) -> str:
    """The table for the docs. `>` marks a wait that was not over at the end of the run."""
    lines = [HEAD]
    for row in rows:
        waits = row.outcome.waits + row.outcome.unserved
        mark = ">" if max(waits) == max(row.outcome.unserved, default=0) else ""
        lines.append(
            f"| {row.scenario.title} | {row.policy} | {median(waits):,.0f} | {mark}{max(waits):,} "
            f"| {row.outcome.loud_share:.0%} | {row.scenario.fair_share:.0%} | {row.outcome.idle_share:.0%} |"
        )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    argparse.ArgumentParser(prog="./run bench skew", description=__doc__).parse_args(arguments)
    with bench_server() as server:
        print(table(run(server, LonnyMQ(Path(__file__).resolve().parent.parent))))
    return 0
