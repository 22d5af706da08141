"""The simulation against schedules that were worked out by hand, and what no scenario may exceed."""

from collections import defaultdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lonnymq.rules.policy_log import PolicyLog
from lonnymq.rules.token_bucket import TokenBucket
from lonnymq.simulation.consumers import Consumers, Pool
from lonnymq.simulation.events import simulate
from lonnymq.simulation.runs import Run, message_runs


def run(message: int, channel: str, due: int, took: int, **values: Any) -> Run:
    made = Run(message, 0, channel, "default", 0, 1, due, due, due, due + took)
    return made._replace(**values)


def consumers(count: int, *lanes: str, **times: float) -> Consumers:
    return Consumers(
        (Pool(count, frozenset(lanes or ("default",))),),
        **{"turnaround_ms": 0, "dispatch_ms": 0, "pickup_ms": 0, **times},
    )


def policies(*rows: dict[str, Any]) -> PolicyLog:
    return PolicyLog.of({"at": 0, "scope": "channel", **row} for row in rows)


def begins(runs: list[Run], log: PolicyLog, by: Consumers) -> list[float | None]:
    return [None if at is None else at / 1000 for at in simulate(runs, log, by)]


def test_limits() -> None:
    backlog = [run(n, "a", 0, 10) for n in range(5)]
    assert begins(backlog, policies(), consumers(2)) == [0, 0, 10, 10, 20]
    one = policies({"channel": "a", "max_concurrency": 1})
    assert begins(backlog, one, consumers(9)) == [0, 10, 20, 30, 40]
    rate = policies({"channel": "a", "release_interval_us": 100_000, "burst": 2})
    assert begins(backlog, rate, consumers(9)) == [0, 0, 100, 200, 300]
    both = policies({"channel": "a", "max_concurrency": 1, "release_interval_us": 4_000, "burst": 2})
    assert begins(backlog, both, consumers(9)) == [0, 10, 20, 30, 40]
    whole = PolicyLog.of([{"at": 0, "scope": "queue", "max_concurrency": 3}])
    assert begins([*backlog[:3], run(7, "b", 1, 5)], whole, consumers(9)) == [0, 0, 0, 10]


def test_policies_that_change() -> None:
    backlog = [run(n, "a", 0, 10) for n in range(4)]
    later = policies(
        {"channel": "a", "paused": True},
        {"channel": "a", "at": 50, "max_concurrency": 1},
        {"channel": "a", "at": 65, "max_concurrency": 3},
    )
    assert begins(backlog, later, consumers(9)) == [50, 60, 65, 65]
    queue = PolicyLog.of([{"at": 0, "scope": "queue", "paused": True}, {"at": 30, "scope": "queue"}])
    assert begins(backlog[:1], queue, consumers(9)) == [30]
    assert begins(backlog, policies({"channel": "a", "paused": True}), consumers(9)) == [None] * 4


def test_turns() -> None:
    """By weight and cost; within a channel by priority, time and id. A channel that comes later does not wait
    for the backlog.
    """
    weighted = policies({"channel": "a", "weight": 2.0})
    mixed = [run(n, "a" if n < 6 else "b", 0, 1) for n in range(8)]
    assert begins(mixed, weighted, consumers(1)) == [0, 2, 3, 5, 6, 7, 1, 4]
    costly = [run(n, "a", 0, 1, cost=3) for n in range(2)] + [run(n, "b", 0, 1) for n in range(2, 6)]
    assert begins(costly, policies(), consumers(1)) == [0, 4, 1, 2, 3, 5]
    urgent = [run(1, "a", 0, 1), run(2, "a", 0, 1, priority=5), run(3, "a", 0, 1, dequeue_at=-1)]
    assert begins(urgent, policies(), consumers(1)) == [2, 0, 1]
    late = [*(run(n, "a", 0, 10) for n in range(9)), run(10, "b", 15, 10)]
    assert begins(late, policies(), consumers(1))[-1] == 30
    lanes = [run(1, "a", 0, 10, lane="x"), run(2, "a", 0, 10, lane="x"), run(3, "a", 0, 10, lane="y")]
    pools = Consumers((Pool(1, frozenset("x")), Pool(1, frozenset("y"))), dispatch_ms=0)
    assert begins(lanes, policies(), pools) == [0, 10, 0]
    assert begins(lanes, policies(), consumers(1, "x", "y")) == [0, 20, 10]


def test_consumers_that_take_their_time() -> None:
    backlog = [run(n, "a", 0, 10) for n in range(3)]
    assert begins(backlog, policies(), consumers(1, turnaround_ms=5)) == [0, 15, 30]
    assert begins(backlog[:1], policies(), consumers(1, pickup_ms=7)) == [7]
    # The slot is free at 10. The next dispatch is when a consumer asks 20 ms or more after the last one.
    limited = [run(1, "a", 0, 10), run(2, "a", 0, 10), *(run(n, "b", 0, 12) for n in range(3, 9))]
    log = policies({"channel": "a", "max_concurrency": 1})
    assert begins(limited, log, consumers(2, dispatch_ms=20))[1] == 22
    assert begins(limited, log, consumers(2))[1] == 12  # at 10 it is the turn of b


def test_retries_come_back_after_the_recorded_delay() -> None:
    """The first attempt waited 5 ms, took 10, and the next one was due 100 ms later and waited 1."""
    recorded = list(
        message_runs(1, "a", created_at=0, past_runs=[(0, 5, 15)], last_run=(115, 116, 120), attempts=2)
    )
    assert [one.wait_ms for one in recorded] == [5, 1]
    assert [one.is_counted for one in recorded] == [True, False]
    assert begins(recorded, policies(), consumers(1)) == [0, 110]
    kept = list(message_runs(1, "a", created_at=0, past_runs=[(0, 0, 10)], last_run=(0, 30, 40), attempts=2))
    assert begins(kept, policies(), consumers(1)) == [0, 10]
    (unknown,) = message_runs(1, "a", created_at=0, past_runs=[], last_run=(5, 6, 7), attempts=2)
    assert not unknown.is_counted


def test_what_runs_already_takes_a_slot_and_a_consumer() -> None:
    running = run(1, "a", -5, 25, is_running=True)
    log = policies({"channel": "a", "max_concurrency": 1})
    assert begins([running, run(2, "a", 0, 5), run(3, "b", 0, 5)], log, consumers(2)) == [-5, 20, 0]
    assert begins([running, run(3, "b", 0, 5)], log, consumers(1)) == [-5, 20]


LIMITS = st.fixed_dictionaries(
    {
        "max_concurrency": st.none() | st.integers(1, 3),
        "release_interval_us": st.none() | st.integers(1, 50_000),
        "burst": st.integers(1, 4),
        "weight": st.floats(0.1, 10),
    }
)
RUNS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(0, 300),
        st.integers(0, 60),
        st.sampled_from(("x", "y")),
        st.integers(1, 5),
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(
    RUNS,
    st.fixed_dictionaries(dict.fromkeys("abc", LIMITS)),
    st.none() | st.integers(1, 4),
    st.integers(1, 5),
    st.integers(0, 30),
)
def test_nothing_exceeds_its_limits(
    given_runs: list[tuple[str, int, int, str, int]],
    limits: dict[str, dict[str, Any]],
    most: int | None,
    count: int,
    slow_ms: int,
) -> None:
    runs = [
        run(n, channel, due, took, lane=lane, cost=cost)
        for n, (channel, due, took, lane, cost) in enumerate(given_runs)
    ]
    log = PolicyLog.of(
        [
            {"at": 0, "scope": "queue", "max_concurrency": most},
            *({"at": 0, "scope": "channel", "channel": one, **of_one} for one, of_one in limits.items()),
        ]
    )
    by = consumers(count, "x", "y", turnaround_ms=slow_ms / 3, dispatch_ms=slow_ms, pickup_ms=slow_ms / 5)
    found = simulate(runs, log, by)
    assert None not in found
    changes = []
    released = defaultdict(list)
    for one, at in zip(runs, found, strict=True):
        assert at is not None
        assert at >= 1000 * one.due_at
        changes += [(at + 1000 * one.took_ms, -1, one.channel), (at, 1, one.channel)]
        released[one.channel].append(at)
    running: dict[str, int] = defaultdict(int)
    for _, change, channel in sorted(changes):
        running[channel] += change
        assert running[channel] <= (limits[channel]["max_concurrency"] or 60)
        assert sum(running.values()) <= min(count, most or count)
    for channel, times in released.items():
        interval = limits[channel]["release_interval_us"]
        bucket = TokenBucket(interval or 1)
        for at in sorted(times):
            assert not interval or bucket.tokens(limits[channel]["burst"], at) > 0
            bucket.take(at)
