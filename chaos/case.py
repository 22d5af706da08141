"""The evidence, prepared for the rules: what is certain, and until when each lease certainly held."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from chaos.evidence import NO_LSN, OK, RESULTS, UNKNOWN, Bools, Evidence, FinalState, Floats, Ints, Table
from chaos.world import World

EXAMPLES = 5
UNSETTLED_MS = 2500  # processes of the server notice a step of the clock within a second
FLUSHED_MS = 5000  # asynchronous commits are on disk after this time at the latest
COMPLETE, RETRY, EXTEND = range(3)
COMPLETED, RETRIED, DEAD, EXTENDED = (RESULTS.index(r) for r in ("completed", "retried", "dead", "extended"))
LOST, NOT_FOUND, CREATED, DUPLICATE = (
    RESULTS.index(r) for r in ("lost", "not_found", "created", "duplicate")
)


@dataclass(frozen=True)
class Verdict:
    """`judged` is how many cases the rule was applied to: with none, it says nothing."""

    rule: str
    title: str
    judged: int
    broken: int
    examples: list[str] = field(default_factory=list)
    note: str = ""

    @property
    def holds(self) -> bool:
        return self.broken == 0


@dataclass
class Limits:
    """How long things may take once a fault is over, in ms."""

    wait_ms: float = 30_000


class Case:
    def __init__(self, evidence: Evidence, final: FinalState, world: World, limits: Limits) -> None:
        self.evidence = evidence
        self.final = final
        self.world = world
        self.limits = limits
        self.crashes = self._crashes()
        self.unsettled = [
            (at, at + UNSETTLED_MS) for fault in evidence.faults for at in fault.get("steps", ())
        ]
        """From a step of the clock until all processes of the server have the same time again."""
        self.failovers = [f for f in evidence.faults if "taken_over" in f]
        self.creates, self.doubtful_creates = self._doubted(evidence.creates)
        finishes, self.doubtful_finishes = self._doubted(evidence.finishes)
        self.finishes = finishes
        self.deliveries = evidence.deliveries

    def _crashes(self) -> list[tuple[float, float]]:
        """From before each crash until the server answered again.

        Processes of a killed server go on for a moment: what they commit then may be undone, too.
        """
        return sorted((f["crash"], f["end"]) for f in self.evidence.faults if f.get("crash") is not None)

    def _doubted(self, table: Table) -> tuple[Table, Bools]:
        """What an asynchronous standby may have lost is as if there had been no answer."""
        doubtful = np.zeros(len(table), dtype=np.bool_)
        for failover in self.failovers:
            if failover["is_synchronous"]:
                continue
            since = max((f["crash"] for f in self.failovers if f["crash"] < failover["crash"]), default=0.0)
            is_before = (table.begin >= since) & (table.end < failover["taken_over"])
            has_it = is_before & (table.lsn <= failover["lsn"]) & (table.lsn != NO_LSN)
            safe_until = table.begin[has_it].max(initial=0.0)
            doubtful |= is_before & ~has_it & (table.end > safe_until) & (table.outcome == OK)
        columns = dict(table.columns)
        columns["outcome"] = np.where(doubtful, UNKNOWN, table.outcome)
        return Table(columns), doubtful

    @cached_property
    def keys(self) -> Ints:
        """All messages that somebody tried to create."""
        return np.unique(self.creates.key)

    def index(self, keys: Ints) -> Ints:
        """Where these messages are in `keys`; -1 for those that nobody created."""
        places = np.searchsorted(self.keys, keys).clip(max=max(len(self.keys) - 1, 0))
        if not len(self.keys):
            return np.full(len(keys), -1)
        return np.where(self.keys[places] == keys, places, -1)

    @cached_property
    def is_leased(self) -> Bools:
        """Deliveries whose dequeue was committed, as far as is known."""
        return np.asarray(self.deliveries.outcome == OK)

    @cached_property
    def is_revocable(self) -> Bools:
        """Deliveries that a crash, or a standby that lagged, may have undone."""
        d = self.deliveries
        found = np.zeros(len(d), dtype=np.bool_)
        for begin, end in self.crashes:
            found |= (d.is_async == 1) & (d.begin <= end) & (d.end > begin - FLUSHED_MS)
        for failover in self.failovers:
            if not failover["is_synchronous"]:
                found |= (d.begin <= failover["taken_over"]) & (d.end > failover["crash"] - FLUSHED_MS)
            else:  # asynchronous commits do not wait for the standby
                is_near = (d.begin <= failover["taken_over"]) & (d.end > failover["crash"] - FLUSHED_MS)
                found |= is_near & (d.is_async == 1)
        return found

    @cached_property
    def lease_until(self) -> Floats:
        """Until when each lease certainly held: it was not given back, and its time was not over."""
        d, f = self.deliveries, self.finishes
        until = np.where(d.task == 1, d.end, d.begin + d.lease_ms)
        extends = np.flatnonzero((f.kind == EXTEND) & (f.outcome == OK) & (f.result == EXTENDED))
        np.maximum.at(until, f.delivery[extends], f.begin[extends] + f.lease_ms[extends])
        ends = np.flatnonzero((f.kind != EXTEND) & ((f.outcome == OK) | (f.outcome == UNKNOWN)))
        np.minimum.at(until, f.delivery[ends], f.begin[ends])
        for begin, end in self.unsettled:  # another process may have a clock that is ahead
            is_touched = (d.begin <= end) & (until > begin)
            until = np.where(is_touched, np.minimum(until, np.maximum(begin, d.begin)), until)
        for begin, end in self.crashes:
            is_undone = self.is_revocable & (d.begin <= end) & (until > begin)
            until = np.where(is_undone, begin, until)
        return np.asarray(until, dtype=np.float64)

    @cached_property
    def is_completed(self) -> Bools:
        """Finishes that certainly completed their message."""
        f = self.finishes
        return np.asarray((f.kind == COMPLETE) & (f.outcome == OK) & (f.result == COMPLETED))

    @cached_property
    def ended_maybe(self) -> Bools:
        """Finishes that may have ended their message."""
        f = self.finishes
        is_unknown = (f.outcome == UNKNOWN) & (f.kind != EXTEND)
        return np.asarray(self.is_completed | is_unknown | ((f.outcome == OK) & (f.result == DEAD)))

    @cached_property
    def finished_keys(self) -> Ints:
        """The message of each finish."""
        return np.asarray(self.deliveries.key[self.finishes.delivery], dtype=np.int64)

    @cached_property
    def next_delivery(self) -> Ints:
        """For each delivery, the next one of its message whose call began after it was known; -1 if none did.

        Deliveries that may have been undone are left out.
        """
        d = self.deliveries
        places = self.index(d.key)
        leased = np.flatnonzero(self.is_leased & ~self.is_revocable & (places >= 0))
        begins = np.sort(d.begin[leased])
        # A number for each message and time: the times are replaced by their ranks.
        ranks = np.searchsorted(begins, d.begin[leased], side="left")
        numbers = places[leased] * (len(leased) + 1) + ranks
        order = np.argsort(numbers, kind="stable")
        numbers, leased = numbers[order], leased[order]
        wanted = places * (len(leased) + 1) + np.searchsorted(begins, d.end, side="right")
        found = np.append(leased, -1)[np.searchsorted(numbers, wanted, side="left")]
        is_same = (found >= 0) & (places >= 0) & (places[found] == places)
        return np.where(is_same, found, -1)

    @cached_property
    def first_delivery_begin(self) -> Floats:
        """When the call began that delivered each message first; infinite if there was none."""
        return self._first(self.deliveries.begin)

    @cached_property
    def first_delivery_end(self) -> Floats:
        return self._first(self.deliveries.end)

    def _first(self, times: Floats) -> Floats:
        first = np.full(len(self.keys), np.inf)
        rows = np.flatnonzero(self.deliveries.outcome == OK)
        places = self.index(self.deliveries.key[rows])
        np.minimum.at(first, places[places >= 0], times[rows][places >= 0])
        return first

    def family(self, *names: str) -> list[int]:
        return [i for i, channel in enumerate(self.world.channels) if channel.family in names]

    def channel_name(self, index: int) -> str:
        return self.world.names[index] if 0 <= index < len(self.world.names) else f"unknown channel {index}"

    def disturbances(self) -> Iterator[tuple[float, float]]:
        """From when to when each fault lasted."""
        for fault in self.evidence.faults:
            if fault["fault"] != "calm":
                yield fault["begin"], fault["end"]


def some(texts: Iterable[str]) -> list[str]:
    return [text for _, text in zip(range(EXAMPLES), texts, strict=False)]


def verdict(
    rule: str, title: str, judged: int, broken: int, examples: Iterable[str] = (), note: str = ""
) -> Verdict:
    return Verdict(rule, title, int(judged), int(broken), some(examples), note)
