"""The estimate of what another policy would do, against histories whose answer is known."""

import doctest
from typing import Any

import pytest

from lonnymq.commands import FinishedMessage
from lonnymq.monitor import what_if
from lonnymq.monitor.what_if import (
    Estimate,
    Limits,
    NoEstimate,
    Refusal,
    Run,
    estimate,
    simulate,
    weight_share,
)
from tests.cli.snapshots import channel, snapshot


def finished(
    number: int, due_at: int, began_at: int | None, finished_at: int, **values: Any
) -> FinishedMessage:
    fields: dict[str, Any] = {
        "id": number,
        "channel": "acme",
        "outcome": "completed",
        "created_at": 0,
        "dequeue_at": due_at,
        "first_dequeued_at": began_at,
        "dequeued_at": began_at,
        "finished_at": finished_at,
        "attempts": 1,
        "consumer": None,
        "error": None,
        "dedupe_key": None,
        "lane": "default",
        "priority": 0,
        "cost": 1,
        "headers": {},
        "past_runs": (),
        "content_bytes": 0,
        "content": None,
    }
    return FinishedMessage(**fields | values)


def history(
    limits: Limits, messages: int = 100, every_ms: int = 50, took_ms: int = 100
) -> list[FinishedMessage]:
    """As a queue with these limits would record it, newest first, 1 ms later than possible."""
    arrivals = [Run(1_000 + every_ms * number, 1_000, took_ms) for number in range(messages)]
    runs = simulate(arrivals, limits)
    found = [
        finished(number, run.due_at, run.began_at + 1, run.began_at + 1 + run.took_ms)
        for number, run in enumerate(runs)
    ]
    return found[::-1]


def test_examples() -> None:
    failed, tried = doctest.testmod(what_if)
    assert (failed, tried > 0) == (0, True)


def test_one_more_slot_ends_the_wait() -> None:
    """20 messages per second, each of 100 ms: one slot serves half of them, two serve all."""
    one = Limits(max_concurrency=1)
    found = estimate(history(one), one, Limits(max_concurrency=2))
    assert isinstance(found, Estimate)
    assert found.messages == 100
    assert found.recorded.max_ms == 99 * 50 + 1
    assert abs(found.actual.p95_ms - found.recorded.p95_ms) <= 1
    assert found.actual.per_second == pytest.approx(10, rel=0.01)
    assert (found.proposed.p95_ms, found.proposed.max_ms) <= (1, 1)
    assert found.proposed.per_second == pytest.approx(20, rel=0.05)
    assert "consumers for all that the policy allows" in found.limits


def test_a_rate_makes_them_wait_and_a_burst_lets_some_go_first() -> None:
    free = Limits()
    found = estimate(history(free), free, Limits(rate="10/s"))
    burst = estimate(history(free), free, Limits(rate="10/s", burst=40))
    assert isinstance(found, Estimate)
    assert isinstance(burst, Estimate)
    assert found.recorded.max_ms == 1
    assert found.proposed.max_ms == pytest.approx(99 * 50, abs=2)
    assert found.proposed.per_second == pytest.approx(10, rel=0.02)
    assert burst.proposed.max_ms == pytest.approx(99 * 50 - 39 * 100, abs=2)
    assert "at most 2 messages of this tenant at once" in found.limits


def test_an_unlimited_tenant_does_not_get_more_consumers_than_it_had() -> None:
    """Its limit of 100 was never reached, so that no limit at all changes nothing."""
    high = Limits(max_concurrency=100)
    recorded = history(Limits(max_concurrency=2), took_ms=200)
    found = estimate(recorded, high, Limits())
    assert isinstance(found, Estimate)
    assert found.proposed == found.actual
    assert abs(found.proposed.p95_ms - found.recorded.p95_ms) <= 1


def test_a_backlog_from_before_the_history_begins() -> None:
    late = [finished(n, 0, 3_600_000 + 100 * n, 3_600_100 + 100 * n) for n in range(50)]
    found = estimate(late, Limits(max_concurrency=1), Limits(max_concurrency=5))
    assert isinstance(found, Estimate)
    assert found.actual == found.recorded
    assert found.proposed.max_ms == 3_600_000 + 900


def test_when_there_is_no_estimate() -> None:
    free = Limits()
    few = estimate(history(free, 19), free, free)
    assert isinstance(few, NoEstimate)
    assert (few.reason, few.text) == (
        Refusal.TOO_FEW,
        "The history has 19 messages of this channel. An estimate needs 20 or more.",
    )
    cancelled = [finished(n, 0, 5 if n % 2 else None, 9, outcome="cancelled") for n in range(50)]
    assert isinstance(estimate(cancelled, free, free), NoEstimate)
    begins = [50 * n + (60_000 if n else 0) for n in range(50)]  # paused for a minute after the first
    paused = [finished(n, 50 * n, at, at + 10) for n, at in enumerate(begins)]
    found = estimate(paused, free, free)
    assert isinstance(found, NoEstimate)
    assert found.reason == Refusal.NOT_REPRODUCED
    assert "waited up to 60 s" in found.text


def test_the_share_by_weight() -> None:
    found = snapshot(
        [
            channel("acme", due=5, weight=2.0),
            channel("bolt", due=5, weight=1.0),
            channel("cafe", due=5, weight=1.0),
            channel("dock", due=5, paused=True, weight=9.0),
            channel("echo", weight=9.0),
        ]
    )
    share = weight_share(found, "acme", 6.0)
    assert (share.today, share.proposed, share.competitors) == (0.5, 0.75, 2)
    assert weight_share(found, "new", 4.0).today == 0.2
