"""The steps of a benchmark: what is measured, and in which order."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lonnymq.cli.bench.clients import ClientFailed, Clients
from lonnymq.cli.bench.parameters import (
    BATCHES,
    COMMIT_MESSAGES,
    LATENCY_MESSAGES,
    NOISY_BACKLOG,
    QUIET_MESSAGES,
    ROUNDS,
    Parameters,
)
from lonnymq.cli.bench.protocol import Answer, Measurement
from lonnymq.cli.bench.results import FairnessResult, Latency, Rate, Results, ServerInfo, median, rate_name
from lonnymq.cli.bench.server_info import wal_position
from lonnymq.quantile import quantile

if TYPE_CHECKING:
    from psycopg import Connection

KINDS = [(what, batch) for what in ("enqueue", "consume") for batch in BATCHES]
STEPS = 4 + ROUNDS * (2 + len(KINDS))
TRIPS = 500
PAUSE_S, PAUSE_TRIPS, PAUSE_COMMITS = 0.02, 10, 3
"""Wait this long, and as long as some calls take, until a consumer that found nothing sleeps."""
PAUSE_POOLED_S = 1.5
"""Without notifications a consumer polls less and less often, down to once per second."""

ReportStep = Callable[[str], object]


@dataclass
class _Rounds:
    """Results of one kind of call, one per round."""

    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    wal: list[float] = field(default_factory=list)


class Benchmark:
    """`report_step` is called at the start of each step, with its name."""

    def __init__(
        self, parameters: Parameters, clients: Clients, conn: Connection[Any], report_step: ReportStep
    ) -> None:
        self._parameters = parameters
        self._clients = clients
        self._conn = conn
        self._report_step = report_step
        self._written = 0
        self._waiting = 0
        self._rounds = {kind: _Rounds() for kind in KINDS}
        self._trips: list[float] = []
        self._commits: list[float] = []

    def run(self, schema: str, server: ServerInfo) -> Results:
        begin = time.monotonic()
        self._report_step("starting the clients")
        latency = self._latency(PAUSE_POOLED_S if server.is_pooled else self._pause_s())
        fairness = self._fairness()
        self._warm_up()
        for number in range(ROUNDS):
            self._round(number)
        return Results(
            schema,
            server,
            self._parameters,
            self._written,
            time.monotonic() - begin,
            median(self._trips),
            median(self._commits),
            latency,
            fairness,
            tuple(self._rate(*kind) for kind in KINDS),
        )

    def _pause_s(self) -> float:
        trips = self._one(Measurement("round_trip", 0.0, TRIPS)).samples
        commits = self._one(Measurement("commit", 0.0, COMMIT_MESSAGES)).samples
        return PAUSE_S + (PAUSE_TRIPS * median(trips) + PAUSE_COMMITS * median(commits)) / 1000

    def _latency(self, pause_s: float) -> Latency:
        """With an otherwise empty queue."""
        self._report_step("latency of a message")
        answer = self._one(
            Measurement("latency", self._parameters.seconds, LATENCY_MESSAGES, pause_s=pause_s)
        )
        return Latency(len(answer.samples), median(answer.samples), quantile(answer.samples, 0.99))

    def _fairness(self) -> FairnessResult:
        self._report_step("a quiet tenant beside a noisy one")
        answer = self._one(Measurement("quiet", self._parameters.seconds, QUIET_MESSAGES))
        return FairnessResult(
            len(answer.samples),
            NOISY_BACKLOG,
            median(answer.samples),
            int(max(answer.samples)),
            median([ahead + 1 for ahead in answer.ahead]),
        )

    def _warm_up(self) -> None:
        self._report_step("warming up")
        for what, batch in KINDS:
            self._all(Measurement(what, 0.0, batch, batch))

    def _round(self, number: int) -> None:
        brief = self._parameters.brief_s
        self._report_step("round trip")
        self._trips += self._one(Measurement("round_trip", brief, TRIPS)).samples
        self._report_step("commit")
        self._commits += self._one(Measurement("commit", brief, COMMIT_MESSAGES)).samples
        batches = BATCHES if number % 2 == 0 else BATCHES[::-1]
        for batch in batches:
            self._measure_rate("enqueue", batch, self._parameters.messages_per_turn(batch))
        for left, batch in zip(range(len(batches), 0, -1), batches, strict=True):
            share = self._waiting // left // self._parameters.clients
            self._measure_rate("consume", batch, max(batch, share))

    def _measure_rate(self, what: str, batch: int, limit: int) -> None:
        self._report_step(rate_name(what, batch))
        before = wal_position(self._conn)
        answers = self._all(Measurement(what, self._parameters.turn_s, limit, batch))
        after = wal_position(self._conn)
        busy = [answer for answer in answers if answer.handled]
        if not busy:
            return
        rounds = self._rounds[what, batch]
        rounds.rates.append(sum(answer.handled / answer.seconds for answer in busy))
        rounds.cpu.append(sum(answer.cpu_seconds for answer in busy) / sum(answer.seconds for answer in busy))
        if before is not None and after is not None:
            rounds.wal.append((after - before) / sum(answer.handled for answer in busy))

    def _rate(self, what: str, batch: int) -> Rate:
        rounds = self._rounds[what, batch]
        if not rounds.rates:
            raise ClientFailed("the clients could not dequeue any of the waiting messages", "try again")
        return Rate(
            what,
            batch,
            median(rounds.rates),
            tuple(rounds.rates),
            min(1.0, median(rounds.cpu)),
            median(rounds.wal) if rounds.wal else None,
        )

    def _one(self, measurement: Measurement) -> Answer:
        answer = self._clients.one(measurement)
        self._written += answer.written
        return answer

    def _all(self, measurement: Measurement) -> list[Answer]:
        answers = self._clients.all(measurement)
        for answer in answers:
            self._written += answer.written
            self._waiting += answer.written or -answer.handled
        return answers
