"""The bound on fairness (invariant 12), on the real engine, with scripts that Hypothesis generates.

A message takes `cost / weight` of its channel's share. Over any stretch of service during which a channel
keeps a backlog, no other channel is served more of its share than it is, except for one message of each:

    served_i / weight_i - served_j / weight_j <= largest_cost_i / weight_i + largest_cost_j / weight_j

Channel j must have a backlog and no limit. Channel i may do anything: go empty and come back, send urgent
messages, or have its messages returned. Where both keep a backlog, the bound holds both ways.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from statistics import median

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.database import Connect
from tests.invariants import check, dequeue, dispatch
from tests.model.machine import SharedDatabase

NAMES = ("a", "b", "c")
CONSUMERS = 3
LEASE_MS = 80_000_000
LONG_MS = 1_500  # after a second, the dispatcher gives up waiting for an open dequeue


@dataclass(frozen=True)
class Create:
    channel: str
    costs: tuple[int, ...]
    urgent: bool
    priority: int


@dataclass(frozen=True)
class Take:
    """Dequeues, one after the other."""

    consumer: int
    limit: int
    times: int
    dispatches: bool
    then: str
    """complete, release, leave or open; an open dequeue is committed or rolled back later."""


@dataclass(frozen=True)
class Trickle:
    """Messages one by one, each dispatched and followed by single dequeues."""

    channel: str
    cost: int
    times: int
    takes: int


@dataclass(frozen=True)
class Returns:
    """Several times: a dequeue is open while another one is served, and is then rolled back."""

    opened: int
    served: int
    times: int


@dataclass(frozen=True)
class End:
    consumer: int
    commits: bool


@dataclass(frozen=True)
class Weigh:
    channel: str
    weight: Decimal


@dataclass(frozen=True)
class Wait:
    ms: int


Step = Create | Take | Trickle | Returns | End | Weigh | Wait

# Virtual time is counted in 1/1,000 of a message. Where a weight does not divide 1,000, steps are rounded up
# and down so that the mean is right.
EXACT = ("1", "1", "2", "5", "0.5", "0.1", "0.25", "10", "100", "1000", "0.001")
ROUNDED = ("3", "0.3", "7.5", "33", "700")
ROUNDING = Fraction(20, 1000)
WEIGHTS = st.sampled_from([Decimal(text) for text in EXACT + ROUNDED])
COSTS = st.one_of(
    st.integers(1, 300).map(lambda n: (1,) * n),
    st.tuples(st.integers(1, 200), st.lists(st.integers(1, 12), min_size=1, max_size=4)).map(
        lambda drawn: tuple(drawn[1] * drawn[0])[:300]
    ),
    st.sampled_from([(1,), (1,), (1, 1), (7,), (100,), (1000,), (1, 50)]),
)
CREATES = st.builds(
    Create,
    st.sampled_from(NAMES),
    COSTS,
    st.sampled_from([False, False, True]),
    st.sampled_from([0, 0, 0, 5, -5]),
)
TAKES = st.builds(
    Take,
    st.integers(0, CONSUMERS - 1),
    st.sampled_from([1, 1, 1, 2, 3, 7, 20, 120]),
    st.sampled_from([1, 2, 5, 20, 40]),
    st.booleans(),
    st.sampled_from(["complete", "complete", "release", "leave", "open"]),
)
TRICKLES = st.builds(
    Trickle,
    st.sampled_from(NAMES),
    st.sampled_from([1, 1, 3, 40]),
    st.sampled_from([3, 10, 30]),
    st.sampled_from([0, 1, 1, 2, 3]),
)
RETURNS = st.builds(
    Returns, st.sampled_from([1, 1, 3, 20]), st.sampled_from([1, 7, 20, 50]), st.sampled_from([1, 5, 10])
)
ENDS = st.builds(End, st.integers(0, CONSUMERS - 1), st.booleans())
STEPS = st.one_of(
    CREATES,
    CREATES,
    TAKES,
    TAKES,
    TRICKLES,
    RETURNS,
    ENDS,
    st.builds(Weigh, st.sampled_from(NAMES), WEIGHTS),
    st.builds(Wait, st.sampled_from([1, 30, LONG_MS])),
)


@st.composite
def scripts(draw: st.DrawFn) -> list[Step]:
    weights = [Weigh(name, draw(WEIGHTS)) for name in NAMES if draw(st.booleans())]
    backlogs = [Create(name, draw(COSTS), urgent=False, priority=0) for name in NAMES]
    return [*weights, *backlogs, *draw(st.lists(STEPS, min_size=1, max_size=25))]


@dataclass
class Taken:
    """A message that a dequeue took, and the state just before."""

    channel: str
    cost: int
    backlogs: dict[str, int]
    """The channels that had a backlog, each with a number that stays the same while the backlog lasts."""
    weights: dict[str, Fraction]
    lowest: dict[str, Fraction]
    """Each channel's lowest weight since its last message was taken: its next one may be placed with that."""
    is_served: bool = True
    """False if the dequeue was rolled back."""


def leads(log: list[Taken], ahead: str, behind: str) -> Iterator[tuple[Fraction, Fraction]]:
    """By how much a channel got ahead of another one that kept a backlog, over all stretches, and the bound.

    For the channel behind, a message that a rolled-back dequeue took counts as served: it was offered.
    """
    rounding = ROUNDING if any(1000 % t.weights[n] for t in log for n in (ahead, behind)) else 0
    lead, bound, before = Fraction(0), Fraction(0), None
    largest = {channel: max((t.cost for t in log if t.channel == channel), default=1) for channel in NAMES}
    for taken in log:
        now = (taken.backlogs.get(behind), taken.weights[ahead], taken.weights[behind])
        if now != before or now[0] is None:
            lead, before = Fraction(0), now
            bound = largest[ahead] / taken.lowest[ahead] + largest[behind] / taken.lowest[behind] + rounding
        if now[0] is None:
            continue
        step = taken.cost / taken.weights[taken.channel]
        if taken.channel == ahead and taken.is_served:
            lead += step
        elif taken.channel == behind:
            lead = max(Fraction(0), lead - step)
        yield lead, bound


def check_fairness(log: list[Taken]) -> None:
    for ahead in NAMES:
        for behind in NAMES:
            if ahead != behind:
                for nth, (lead, bound) in enumerate(leads(log, ahead, behind)):
                    assert lead <= bound, (
                        f"{ahead} got {float(lead):g} ahead of {behind}, which had a backlog, "
                        f"at message {nth}; at most {float(bound):g} is fair"
                    )


@dataclass
class Opened:
    taken: list[Taken] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)


class Service:
    """Plays a script on the engine and records what it served."""

    def __init__(self, database: SharedDatabase, consumers: list[psycopg.Connection]) -> None:
        for consumer in consumers:
            consumer.rollback()
        database.reset()
        self.conn = database.conn
        self.clock = database.clock
        self.consumers = consumers
        self.log: list[Taken] = []
        self._opened: dict[int, Opened] = {}
        self._costs: dict[int, tuple[str, int]] = {}
        self._waiting: dict[str, set[int]] = {name: set() for name in NAMES}
        self._backlogs: dict[str, int] = dict.fromkeys(NAMES, 0)
        self._weights = dict.fromkeys(NAMES, Fraction(1))
        self._lowest = dict.fromkeys(NAMES, Fraction(1))

    def play(self, script: list[Step]) -> None:
        for step in script:
            match step:
                case Create():
                    self._create(step)
                case Take():
                    self._take(step)
                case Trickle():
                    self._trickle(step)
                case Returns():
                    self._return(step)
                case End():
                    self._end(step.consumer, commits=step.commits)
                case Weigh():
                    self._weigh(step.channel, step.weight)
                case Wait():
                    self.clock.advance(step.ms)
        for consumer in list(self._opened):
            self._end(consumer, commits=True)

    def _trickle(self, step: Trickle) -> None:
        for _ in range(step.times):
            self._create(Create(step.channel, (step.cost,), urgent=False, priority=0))
            self._take(Take(0, 1, step.takes, dispatches=True, then="complete"))

    def _return(self, step: Returns) -> None:
        for _ in range(step.times):
            self._take(Take(0, step.opened, 1, dispatches=True, then="open"))
            self._take(Take(1, step.served, 1, dispatches=False, then="complete"))
            self._end(0, commits=False)

    def _weigh(self, channel: str, weight: Decimal) -> None:
        # A channel is not served while its policy has changed and an open dequeue holds some of its messages.
        holding = [n for n, opened in self._opened.items() if any(t.channel == channel for t in opened.taken)]
        for consumer in holding:
            self._end(consumer, commits=True)
        self.conn.execute("SELECT channel_set(%s, p_weight => %s)", (channel, weight))
        dispatch(self.conn)
        self._weights[channel] = Fraction(weight)
        self._lowest[channel] = min(self._lowest[channel], Fraction(weight))

    def _create(self, step: Create) -> None:
        n = len(step.costs)
        rows = self.conn.execute(
            "SELECT id FROM message_create_many(%s, %s, %s, p_costs => %s, p_priorities => %s)",
            (
                [step.channel] * n,
                [b""] * n,
                [-1 if step.urgent else None] * n,
                list(step.costs),
                [step.priority] * n,
            ),
        ).fetchall()
        dispatch(self.conn)
        for (message,), cost in zip(rows, step.costs, strict=True):
            self._costs[message] = step.channel, cost
            self._waiting[step.channel].add(message)

    def _take(self, step: Take) -> None:
        self._end(step.consumer, commits=True)
        consumer = self.consumers[step.consumer]
        needs_dispatch = step.dispatches
        for nth in range(step.times):
            if needs_dispatch:
                self.conn.execute("SELECT dispatch()")
            stays_open = step.then == "open" and nth == step.times - 1
            if stays_open:
                consumer.execute("BEGIN")
            messages, again_at = dequeue(consumer, step.limit, LEASE_MS)
            needs_dispatch = again_at is not None or step.dispatches
            taken = [self._count(message.id) for message in messages]
            ids = [message.id for message in messages]
            if stays_open:
                self._opened[step.consumer] = Opened(taken, ids)
            elif step.then == "complete":
                consumer.execute(
                    "SELECT COUNT(*) FROM message_complete_many(%s, %s)", (ids, [m.token for m in messages])
                )
            elif step.then == "release" and messages:
                consumer.execute(
                    "SELECT COUNT(*) FROM message_retry_many(%s, %s)", (ids, [m.token for m in messages])
                )
                dispatch(self.conn)
                for message in ids:
                    self._waiting[self._costs[message][0]].add(message)

    def _count(self, message: int) -> Taken:
        channel, cost = self._costs[message]
        backlogs = {name: since for name, since in self._backlogs.items() if self._waiting[name]}
        taken = Taken(channel, cost, backlogs, dict(self._weights), dict(self._lowest))
        self.log.append(taken)
        self._waiting[channel].remove(message)
        self._lowest[channel] = self._weights[channel]
        if not self._waiting[channel]:
            self._backlogs[channel] += 1
        return taken

    def _end(self, consumer: int, *, commits: bool) -> None:
        opened = self._opened.pop(consumer, None)
        if opened is None:
            return
        self.consumers[consumer].execute("COMMIT" if commits else "ROLLBACK")
        if commits:
            return
        for taken, message in zip(opened.taken, opened.ids, strict=True):
            taken.is_served = False
            self._waiting[taken.channel].add(message)
        dispatch(self.conn)
        self.clock.advance(LONG_MS)  # its rows may still be locked
        dispatch(self.conn)


@pytest.fixture
def serve(connect: Connect) -> Callable[[list[Step]], list[Taken]]:
    database = SharedDatabase(connect)
    consumers = [connect() for _ in range(CONSUMERS)]

    def play(script: list[Step]) -> list[Taken]:
        service = Service(database, consumers)
        service.play(script)
        check(service.conn)
        return service.log

    return play


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("examples", [25, pytest.param(600, marks=pytest.mark.long)])
def test_no_channel_gets_ahead_of_a_backlog(
    serve: Callable[[list[Step]], list[Taken]], examples: int
) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        print_blob=True,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(scripts())
    def over_any_stretch(script: list[Step]) -> None:
        check_fairness(serve(script))

    over_any_stretch()


BACKLOGS: list[Step] = [Create(name, (1,), urgent=False, priority=0) for name in "ab"]


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            [
                *BACKLOGS,
                Create("c", (3,) * 22, urgent=False, priority=0),
                Returns(20, 1, 1),
                Create("a", (1,) * 3, urgent=False, priority=0),
                Weigh("c", Decimal(2)),
                Take(0, 1, 40, dispatches=False, then="complete"),
            ],
            id="a weight that rises after a rollback",
        ),
        pytest.param(
            [
                *BACKLOGS,
                Create("c", (2, 2), urgent=False, priority=0),
                Create("a", (1,) * 4, urgent=False, priority=0),
                Returns(1, 7, 1),
                Create("c", (1,), urgent=False, priority=0),
                Trickle("a", 1, 10, 1),
            ],
            id="a rollback after everything else was served",
        ),
        pytest.param(
            [
                Create("a", (4, 1), urgent=False, priority=0),
                Create("b", (1,), urgent=False, priority=0),
                Create("c", (1,) * 6, urgent=False, priority=0),
                Returns(1, 7, 1),
                Trickle("b", 1, 3, 0),
                Take(0, 1, 5, dispatches=False, then="complete"),
            ],
            id="a third channel, while one has turns to make up for",
        ),
        pytest.param(
            [
                *BACKLOGS,
                Create("c", (7,), urgent=False, priority=0),
                Create("b", (1,) * 3, urgent=False, priority=0),
                Take(0, 2, 2, dispatches=False, then="release"),
                Take(0, 1, 20, dispatches=False, then="release"),
            ],
            id="a message that is released again and again, once its tag was remembered",
        ),
        pytest.param(
            [
                Create("a", (1,), urgent=False, priority=0),
                Create("b", (1, 1), urgent=False, priority=0),
                Create("c", (1,), urgent=False, priority=0),
                Take(0, 1, 2, dispatches=False, then="open"),
                Take(1, 1, 5, dispatches=False, then="release"),
            ],
            id="a message that is released again and again, beside an open dequeue of its channel",
        ),
    ],
)
def test_scripts_that_were_unfair(serve: Callable[[list[Step]], list[Taken]], script: list[Step]) -> None:
    check_fairness(serve(script))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("3", "1"),
        ("0.3", "1"),
        ("0.001", "0.007"),
        ("30", "7"),
        ("700", "1000"),
        ("1000", "300"),
    ],
)
def test_weights_are_kept(conn: psycopg.Connection, first: str, second: str) -> None:
    """Within 2 %: rounding errors must not add up over many messages."""
    weights = {"a": Decimal(first), "b": Decimal(second)}
    for channel, weight in weights.items():
        conn.execute("SELECT channel_set(%s, p_weight => %s)", (channel, weight))
        flood(conn, channel, 3000)
    dispatch(conn)
    served: Counter[str] = Counter()
    for _ in range(30):
        served.update(message.channel for message in dequeue(conn, 100)[0])
        conn.execute("SELECT dispatch()")
    assert sum(served.values()) > 2900
    assert served["a"] / served["b"] == pytest.approx(float(weights["a"] / weights["b"]), rel=0.02), served


@pytest.mark.parametrize("largest", [1, 1000, 5000])
@pytest.mark.parametrize(
    "backlog",
    [
        8_000,
        pytest.param(80_000, marks=pytest.mark.long),
        pytest.param(1_000_000, marks=[pytest.mark.long, pytest.mark.timeout(1800)]),
    ],
)
def test_a_quiet_tenant_waits_for_two_others(conn: psycopg.Connection, backlog: int, largest: int) -> None:
    """The dispatcher looks further ahead after large requests; that must not delay a quiet tenant."""
    for _ in range(0, backlog, 8000):
        flood(conn, "flood", 8000)
    dispatch(conn)
    taken = dequeue(conn, largest)[0]
    dispatch(conn)
    others = [served_before(conn, f"quiet {nth}") for nth in range(41)]
    assert len(taken) == largest or len(taken) >= 100
    assert median(others) <= 2, others
    assert max(others) <= 3, others


def served_before(conn: psycopg.Connection, channel: str) -> int:
    flood(conn, channel, 1)
    for others in range(100):
        conn.execute("SELECT dispatch()")
        ((message,), _) = dequeue(conn)
        if message.channel == channel:
            return others
    raise AssertionError(f"{channel} was not served")


def flood(conn: psycopg.Connection, channel: str, n: int) -> None:
    conn.execute(
        "SELECT COUNT(*) FROM message_create_many(array_fill(%s::TEXT, %s), array_fill(''::BYTEA, %s))",
        (channel, [n], [n]),
    )
