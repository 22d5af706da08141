"""The course of a bench: what is measured, in which order."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lonnymq.cli.bench.clients import ClientFailed, Crew
from lonnymq.cli.bench.parameters import BATCHES, COMMITS, LONE, NOISY, QUIET, ROUNDS, Terms
from lonnymq.cli.bench.protocol import Answer, Order
from lonnymq.cli.bench.results import Fairness, Lone, Rate, Results, Surroundings, median, named, part
from lonnymq.cli.bench.server_info import wal_position

if TYPE_CHECKING:
    from psycopg import Connection

KINDS = [(what, batch) for what in ("create", "consume") for batch in BATCHES]
STEPS = 4 + ROUNDS * (2 + len(KINDS))
TRIPS = 500
PAUSE_S, PAUSE_TRIPS, PAUSE_COMMITS = 0.02, 10, 3
"""A consumer makes some calls before it sleeps."""
PAUSE_POOLED_S = 1.5
"""Where it is not notified, it looks more and more seldom, down to once a second."""

Tell = Callable[[str], object]


@dataclass
class _Turns:
    """Of one kind of call: a round each."""

    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    wal: list[float] = field(default_factory=list)


class Course:
    """`tell` is called at the beginning of each step, with what it is."""

    def __init__(self, terms: Terms, crew: Crew, conn: Connection[Any], tell: Tell) -> None:
        self._terms = terms
        self._crew = crew
        self._conn = conn
        self._tell = tell
        self._written = 0
        self._waiting = 0
        self._turns = {kind: _Turns() for kind in KINDS}
        self._trips: list[float] = []
        self._commits: list[float] = []

    def run(self, schema: str, surroundings: Surroundings) -> Results:
        begin = time.monotonic()
        self._tell("clients start")
        lone = self._lone(PAUSE_POOLED_S if surroundings.is_pooled else self._pause_s())
        fairness = self._fairness()
        self._warm_up()
        for number in range(ROUNDS):
            self._round(number)
        return Results(
            schema,
            surroundings,
            self._terms,
            self._written,
            time.monotonic() - begin,
            median(self._trips),
            median(self._commits),
            lone,
            fairness,
            tuple(self._rate(*kind) for kind in KINDS),
        )

    def _pause_s(self) -> float:
        trips = self._one(Order("round_trip", 0.0, TRIPS)).samples
        commits = self._one(Order("commit", 0.0, COMMITS)).samples
        return PAUSE_S + (PAUSE_TRIPS * median(trips) + PAUSE_COMMITS * median(commits)) / 1000

    def _lone(self, pause_s: float) -> Lone:
        """While nothing else waits."""
        self._tell("a lone message")
        answer = self._one(Order("lone", self._terms.seconds, LONE, pause_s=pause_s))
        return Lone(len(answer.samples), median(answer.samples), part(answer.samples, 0.99))

    def _fairness(self) -> Fairness:
        self._tell("a quiet tenant beside a noisy one")
        answer = self._one(Order("quiet", self._terms.seconds, QUIET))
        return Fairness(
            len(answer.samples),
            NOISY,
            median(answer.samples),
            int(max(answer.samples)),
            median([ahead + 1 for ahead in answer.ahead]),
        )

    def _warm_up(self) -> None:
        self._tell("warming up")
        for what, batch in KINDS:
            self._all(Order(what, 0.0, batch, batch))

    def _round(self, number: int) -> None:
        brief = self._terms.brief_s
        self._tell("round trip")
        self._trips += self._one(Order("round_trip", brief, TRIPS)).samples
        self._tell("commit")
        self._commits += self._one(Order("commit", brief, COMMITS)).samples
        batches = BATCHES if number % 2 == 0 else BATCHES[::-1]
        for batch in batches:
            self._turn("create", batch, self._terms.most_of_a_turn(batch))
        for left, batch in zip(range(len(batches), 0, -1), batches, strict=True):
            share = self._waiting // left // self._terms.clients
            self._turn("consume", batch, max(batch, share))

    def _turn(self, what: str, batch: int, most: int) -> None:
        self._tell(named(what, batch))
        before = wal_position(self._conn)
        answers = self._all(Order(what, self._terms.turn_s, most, batch))
        after = wal_position(self._conn)
        at_work = [answer for answer in answers if answer.handled]
        if not at_work:
            return
        turns = self._turns[what, batch]
        turns.rates.append(sum(answer.handled / answer.seconds for answer in at_work))
        turns.cpu.append(
            sum(answer.cpu_seconds for answer in at_work) / sum(answer.seconds for answer in at_work)
        )
        if before is not None and after is not None:
            turns.wal.append((after - before) / sum(answer.handled for answer in at_work))

    def _rate(self, what: str, batch: int) -> Rate:
        turns = self._turns[what, batch]
        if not turns.rates:
            raise ClientFailed("the clients found none of the messages that wait", "try again")
        return Rate(
            what,
            batch,
            median(turns.rates),
            tuple(turns.rates),
            min(1.0, median(turns.cpu)),
            median(turns.wal) if turns.wal else None,
        )

    def _one(self, order: Order) -> Answer:
        answer = self._crew.one(order)
        self._written += answer.written
        return answer

    def _all(self, order: Order) -> list[Answer]:
        answers = self._crew.all(order)
        for answer in answers:
            self._written += answer.written
            self._waiting += answer.written or -answer.handled
        return answers
