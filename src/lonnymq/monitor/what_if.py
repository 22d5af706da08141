"""What a tenant's waits would be under another policy, estimated from its history.

The messages of the history become due again when they did, and take as long as they took, in a queue of their
own that has the limits of the policy. That queue is first tried with the policy that the tenant has: unless
it then behaves as recorded, something else decides how long its messages wait, and there is no estimate.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from lonnymq.formatting import duration, plural
from lonnymq.quantile import quantile
from lonnymq.rate import interval_us
from lonnymq.rules.token_bucket import TokenBucket

if TYPE_CHECKING:
    from lonnymq.channel_policy import ChannelPolicy
    from lonnymq.commands import FinishedMessage
    from lonnymq.monitor.state import QueueSnapshot

LEAST_MESSAGES = 20
MOST_OFF = 0.5
MOST_OFF_MS = 100
"""The simulated p95 wait may differ from the recorded one by this part of it, or by this time."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The parts of a policy that a simulation follows. None: no limit."""

    max_concurrency: int | None = None
    rate: str | None = None
    burst: int = 1


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt. Times are in milliseconds: when it was due, when it began, how long it took."""

    due_at: int
    began_at: int
    took_ms: int

    @property
    def wait_ms(self) -> int:
        return max(0, self.began_at - self.due_at)


@dataclass(frozen=True, slots=True)
class Waits:
    """How long messages waited after they were due, and how many finished per second."""

    p50_ms: int
    p95_ms: int
    max_ms: int
    per_second: float


class Refusal(StrEnum):
    TOO_FEW = "too few"
    NOT_REPRODUCED = "not reproduced"


@dataclass(frozen=True, slots=True)
class NoEstimate:
    """Why there is no estimate, for programs and as a sentence."""

    reason: Refusal
    text: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """`actual` is simulated with the tenant's policy, `proposed` with the other one."""

    messages: int
    recorded: Waits
    actual: Waits
    proposed: Waits
    limits: str
    """What the estimate leaves out, in sentences."""


@dataclass(frozen=True, slots=True)
class WeightShare:
    """The part of a tenant, 0 to 1, while all channels compete that compete now."""

    today: float
    proposed: float
    competitors: int


def limits_of(policy: ChannelPolicy) -> Limits:
    return Limits(policy.max_concurrency, policy.rate, policy.burst)


def estimate(history: Iterable[FinishedMessage], actual: Limits, proposed: Limits) -> Estimate | NoEstimate:
    """`history`: messages of one channel that finished, in any order."""
    runs = last_attempts(history)
    if len(runs) < LEAST_MESSAGES:
        return NoEstimate(
            Refusal.TOO_FEW,
            f"The history has {plural(len(runs), 'message')} of this channel. An estimate needs"
            f" {LEAST_MESSAGES} or more.",
        )
    consumers = _consumers(runs, actual)
    recorded = waits(runs)
    simulated = waits(simulate(runs, actual, consumers))
    off = abs(simulated.p95_ms - recorded.p95_ms)
    if off > MOST_OFF_MS and off > MOST_OFF * recorded.p95_ms:
        return NoEstimate(
            Refusal.NOT_REPRODUCED,
            f"By its policy alone, 95 % of the messages would have waited {duration(simulated.p95_ms)} or"
            f" less, but they waited up to {duration(recorded.p95_ms)}. Something else decides how long they"
            " wait: other tenants, the number of consumers, a pause, or a policy that has changed since.",
        )
    after = waits(simulate(runs, proposed, consumers))
    return Estimate(len(runs), recorded, simulated, after, _limits_text(consumers))


def last_attempts(history: Iterable[FinishedMessage]) -> list[Run]:
    """The last attempt of each message, by due time. The history does not have the times of the others."""
    runs = [
        Run(max(one.created_at, one.dequeue_at), one.dequeued_at, max(0, one.finished_at - one.dequeued_at))
        for one in history
        if one.dequeued_at is not None and one.outcome != "cancelled"
    ]
    return sorted(runs, key=lambda run: (run.due_at, run.began_at))


def simulate(runs: Sequence[Run], limits: Limits, consumers: int | None = None) -> list[Run]:
    """The same runs, by due time, in a queue with these limits, from the time when the first of them began:
    what was due earlier is a backlog then. `consumers`: at most as many run at once; None: any number.

    >>> [run.began_at for run in simulate([Run(0, 0, 10)] * 3, Limits(max_concurrency=1))]
    [0, 10, 20]
    >>> [run.began_at for run in simulate([Run(0, 0, 10)] * 4, Limits(rate="10/s", burst=2))]
    [0, 0, 100, 200]
    """
    slots = min((most for most in (limits.max_concurrency, consumers) if most), default=None)
    interval = interval_us(limits.rate) if limits.rate else 0
    begin = min(run.began_at for run in runs)
    ends: list[int] = []
    bucket = TokenBucket(interval)
    simulated = []
    for run in runs:
        at = max(run.due_at, begin)
        if slots is not None and len(ends) == slots:
            at = max(at, heapq.heappop(ends))
        if interval:
            at = max(at, -(-bucket.token_at_us(limits.burst) // 1000))
            bucket.take(1000 * at)
        if slots is not None:
            heapq.heappush(ends, at + run.took_ms)
        simulated.append(Run(run.due_at, at, run.took_ms))
    return simulated


def waits(runs: Sequence[Run]) -> Waits:
    """
    >>> waits([Run(0, 0, 500), Run(0, 500, 500)])
    Waits(p50_ms=0, p95_ms=500, max_ms=500, per_second=2.0)
    """
    found = [run.wait_ms for run in runs]
    lasted_ms = max(run.began_at + run.took_ms for run in runs) - min(run.began_at for run in runs)
    return Waits(
        quantile(found, 0.5), quantile(found, 0.95), max(found), 1000 * len(runs) / max(1, lasted_ms)
    )


def most_at_once(runs: Iterable[Run]) -> int:
    """
    >>> most_at_once([Run(0, 0, 10), Run(0, 5, 10), Run(0, 10, 10)])
    2
    """
    changes = [(run.began_at, 1) for run in runs] + [(run.began_at + run.took_ms, -1) for run in runs]
    most = running = 0
    for _, change in sorted(changes):  # an end goes before a begin at the same time
        running += change
        most = max(most, running)
    return max(1, most)


def weight_share(snapshot: QueueSnapshot, channel: str, weight: float) -> WeightShare:
    """What its share is by weight, and what it would be with another weight, if it competes too."""
    others = [
        one.stats.weight for one in snapshot.channels.values() if one.is_waiting and one.name != channel
    ]
    known = snapshot.channels.get(channel)
    today = 1.0 if known is None else known.stats.weight
    return WeightShare(today / (today + sum(others)), weight / (weight + sum(others)), len(others))


def _consumers(runs: Sequence[Run], actual: Limits) -> int | None:
    """How many messages the consumers could run at once. Unless a limit explains it, that is as many as ever
    did; else it is not known.
    """
    most = most_at_once(runs)
    is_limited = actual.max_concurrency is not None and most >= actual.max_concurrency
    return None if is_limited or actual.rate else most


def _limits_text(consumers: int | None) -> str:
    known = (
        "it assumes that there are consumers for all that the policy allows"
        if consumers is None
        else f"it assumes that consumers run at most {plural(consumers, 'message')} of this tenant at once,"
        " the most that ever did"
    )
    return (
        f"The estimate leaves out other tenants and the number of consumers: {known}. Of a message that was"
        " retried, only the last attempt counts."
    )
