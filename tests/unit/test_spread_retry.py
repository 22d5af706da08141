"""How retry_all spreads over a time the dead letters that it retries in several calls."""

from typing import Any

from lonnymq.client.manage_dead_letters import retry_all_dead
from lonnymq.client.times import ServerClock
from lonnymq.commands import DeadRetryAll, RetriedAll


def test_all_calls_share_one_span_of_time() -> None:
    steps: Any = retry_all_dead(spread=60).steps
    assert next(steps) == ServerClock()
    assert steps.send(5_000) == DeadRetryAll(dequeue_at=5_000, spread_ms=60_000)
    assert steps.send(RetriedAll(1000, 0, 7)) == DeadRetryAll(dequeue_at=5_000, after=7, spread_ms=60_000)
