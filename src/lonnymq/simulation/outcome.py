"""What a simulation answers: the waits of each tenant, before and after, and how far they can be trusted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lonnymq.formatting import duration, plural
from lonnymq.simulation.consumers import Consumers
from lonnymq.simulation.errors import LEAST_MESSAGES, MOST_ERROR, NEGLIGIBLE_MS, relative_error
from lonnymq.simulation.scenario import ACTUAL, Scenario
from lonnymq.simulation.waits import NEVER, Histogram

RECORDED = "recorded"
MOST_REFUSED = 0.5
LIMITS = {
    "Work": "Every attempt takes as long as it took. In reality, work that runs beside more other work is"
    " often slower, because it shares a database, a processor or a service.",
    "Arrivals": "Messages arrive when they did. A producer that waits for a result before it sends the next"
    " message would send sooner if it waited less, and messages that a handler enqueues would come earlier or"
    " later.",
    "Outcomes": "An attempt that failed fails again, and is retried after the delay that was recorded. A"
    " timeout or an overload that another setting would have avoided stays.",
    "Consumers": "The number of consumers is the most attempts that ever ran at once, and the same all the"
    " time. If they were never all busy, there may have been more. They take one message at a time.",
    "Left out": "Messages that were cancelled before they ran, max_size (which refuses messages), and"
    " messages that still wait at the end, unless they were given.",
}
"""What the simulation assumes, for the page and the documentation."""


@dataclass(frozen=True, slots=True)
class WaitNumbers:
    """None: fewer than this share were ever served."""

    p50_ms: float | None
    p95_ms: float | None
    unserved: int = 0

    @classmethod
    def of(cls, waits: Histogram) -> WaitNumbers:
        return cls(_finite(waits.quantile(0.5)), _finite(waits.quantile(0.95)), waits[NEVER])


@dataclass(frozen=True, slots=True)
class TenantOutcome:
    """One channel. `recorded` is what happened, `actual` the simulation of the actual settings, and
    `scenarios` that of others; it is empty if there is no answer, and `refusal` says why. The errors compare
    `actual` with `recorded` on times that the calibration has not seen; None: it is infinite, or there are no
    messages.
    """

    channel: str
    messages: int
    recorded: WaitNumbers
    actual: WaitNumbers
    error_p50: float | None
    error_p95: float | None
    refusal: str | None
    scenarios: Mapping[str, WaitNumbers]


@dataclass(frozen=True)
class SimulationData:
    """Tenants are sorted by messages, the largest first. `refusal`: why there is no answer at all."""

    tenants: tuple[TenantOutcome, ...]
    scenarios: tuple[Scenario, ...]
    consumers: Consumers
    windows: int
    began_at: datetime
    ended_at: datetime
    refusal: str | None
    limits: Mapping[str, str] = field(default_factory=lambda: dict(LIMITS))

    @property
    def messages(self) -> int:
        return sum(tenant.messages for tenant in self.tenants)

    @property
    def refused_messages(self) -> int:
        return sum(tenant.messages for tenant in self.tenants if tenant.refusal)


@dataclass
class TenantWaits:
    """The waits of a channel by what was simulated: all of them, and those that were held out."""

    all: dict[str, Histogram] = field(default_factory=dict)
    held_out: dict[str, Histogram] = field(default_factory=dict)

    def add(self, name: str, number: int, count: int, *, is_held_out: bool) -> None:
        for waits in (self.all, self.held_out) if is_held_out else (self.all,):
            waits.setdefault(name, Histogram())[number] += count


def judge(
    waits: Mapping[str, TenantWaits], scenarios: Sequence[Scenario]
) -> tuple[tuple[TenantOutcome, ...], str | None]:
    """The outcome of each tenant, and why there is no answer at all, if so."""
    judged = [_tenant(channel, found, scenarios) for channel, found in waits.items()]
    tenants = sorted(judged, key=lambda one: (-one.messages, one.channel))
    refused = sum(tenant.messages for tenant in tenants if tenant.refusal)
    total = sum(tenant.messages for tenant in tenants)
    if refused <= MOST_REFUSED * total:
        return tuple(tenants), None
    return tuple(_without_answer(tenants)), (
        f"The simulation does not reproduce what was recorded: {refused:,} of {plural(total, 'message')}"
        f" belong to tenants whose simulated waits are more than {MOST_ERROR:.0%} off, or that have too few"
        " messages to tell. Something else decides how long messages wait, such as consumers that came and"
        " went, dequeues of many messages at once, or an outage. Choose a time (since, until) in which the"
        " consumers were the same."
    )


def _tenant(channel: str, waits: TenantWaits, scenarios: Iterable[Scenario]) -> TenantOutcome:
    errors = [
        relative_error(waits.held_out[ACTUAL].quantile(share), waits.held_out[RECORDED].quantile(share))
        if waits.held_out
        else math.inf
        for share in (0.5, 0.95)
    ]
    refusal = _refusal(waits, max(errors))
    return TenantOutcome(
        channel,
        waits.all[RECORDED].total(),
        WaitNumbers.of(waits.all[RECORDED]),
        WaitNumbers.of(waits.all[ACTUAL]),
        _finite(errors[0]),
        _finite(errors[1]),
        refusal,
        {} if refusal else {one.name: WaitNumbers.of(waits.all[one.name]) for one in scenarios},
    )


def _refusal(waits: TenantWaits, error: float) -> str | None:
    judged = waits.held_out[RECORDED].total() if waits.held_out else 0
    if judged < LEAST_MESSAGES:
        return f"too few messages: {judged} to judge by, and {LEAST_MESSAGES} are needed"
    if error > MOST_ERROR:
        off = "not served at all" if error == math.inf else f"{error:.0%} off"
        return f"not reproduced: the simulated waits are {off}"
    return None


def _without_answer(tenants: Iterable[TenantOutcome]) -> Iterable[TenantOutcome]:
    for one in tenants:
        yield TenantOutcome(
            one.channel,
            one.messages,
            one.recorded,
            one.actual,
            one.error_p50,
            one.error_p95,
            one.refusal or "most of the traffic is not reproduced",
            {},
        )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def consumers_text(consumers: Consumers) -> str:
    """How the queue was served, as a sentence."""
    return (
        f"{plural(consumers.count, 'consumer')}. By calibration, a consumer asks for its next message"
        f" {duration(consumers.turnaround_ms, 2)} after the last one, an idle one has a new message after"
        f" {duration(consumers.pickup_ms, 2)}, and while all are busy there is a dispatch every"
        f" {duration(consumers.dispatch_ms, 2)}."
    )


def errors_text() -> str:
    return (
        "The error compares the simulation of the actual settings with the recorded waits, of the half of the"
        f" messages that the calibration does not use. A difference of {NEGLIGIBLE_MS:.0f} ms or less is not"
        f" an error. A tenant with an error above {MOST_ERROR:.0%}, of p50 or of p95, or with fewer than"
        f" {LEAST_MESSAGES} messages to judge by, gets no answer."
    )
