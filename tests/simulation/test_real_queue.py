"""A real queue with real consumers, and the simulation of it."""

from collections.abc import Iterator, Sequence

import pytest
from psycopg_pool import ConnectionPool

from lonnymq import Queue
from lonnymq.rate import interval_us
from lonnymq.rules.policy_log import PolicyLog
from lonnymq.simulation.calibrate import calibrate, consumers_of
from lonnymq.simulation.events import simulate
from lonnymq.simulation.outcome import RECORDED, TenantWaits, judge
from lonnymq.simulation.runs import Run
from lonnymq.simulation.scenario import ACTUAL, Scenario
from lonnymq.simulation.waits import Histogram, bin_of
from tests.simulation.real_queue import CONSUMERS, OTHER_POLICIES, POLICIES, Tenant, runs_of, serve_all

SPANS = 10


@pytest.fixture
def queue(dsn: str) -> Iterator[Queue]:
    with ConnectionPool(dsn, min_size=CONSUMERS + 2, max_size=CONSUMERS + 2) as pool, Queue(pool) as opened:
        opened.set(history=True)
        for channel, policy in POLICIES.items():
            opened.channel(channel).set(**policy)
        serve_all(opened, [Tenant("first calls are slow", 100, 5)])
        yield opened


def log_of_policies() -> PolicyLog:
    return PolicyLog.of(
        {
            "at": 0,
            "scope": "channel",
            "channel": channel,
            "max_concurrency": policy.get("max_concurrency"),
            "release_interval_us": interval_us(policy["rate"]) if "rate" in policy else None,
            "weight": policy.get("weight"),
        }
        for channel, policy in POLICIES.items()
    )


def waits(runs: Sequence[Run], began_us: Sequence[int | None]) -> dict[str, Histogram]:
    found: dict[str, Histogram] = {}
    for run, at in zip(runs, began_us, strict=True):
        if run.is_counted and at is not None:
            found.setdefault(run.channel, Histogram())[bin_of(at / 1000 - run.due_at)] += 1
    return found


@pytest.mark.slow
def test_the_simulation_reproduces_a_real_queue_and_predicts_other_limits(queue: Queue) -> None:
    """Generous bounds: on a busy machine, two real runs of the same traffic differ by a fifth."""
    past = len(queue.history(limit=10_000))
    first = runs_of(serve_all(queue)[:-past])
    assert {run.number for run in first} == {0, 1}
    log = log_of_policies()
    tenth = -(-len(first) // SPANS)
    used = [place // tenth % 2 == 0 for place in range(len(first))]
    consumers = calibrate(first, log, used, consumers_of(first))
    assert consumers_of(first).count == CONSUMERS
    proposed = Scenario("proposed", OTHER_POLICIES)
    simulated = {
        ACTUAL: waits(first, simulate(first, log, consumers)),
        proposed.name: waits(first, simulate(first, proposed.policies(log), consumers)),
        RECORDED: waits(first, [1000 * run.began_at for run in first]),
    }
    tenants = {
        channel: TenantWaits({name: of_all[channel] for name, of_all in simulated.items()})
        for channel in simulated[RECORDED]
    }
    for tenant in tenants.values():
        tenant.held_out = tenant.all  # few messages: judge by all of them
    outcomes, refusal = judge(tenants, [proposed])
    shown = "\n".join(map(str, outcomes))
    assert refusal is None, shown
    assert sum(outcome.refusal is None for outcome in outcomes) >= 3, shown

    for channel, policy in OTHER_POLICIES.items():
        queue.channel(channel).set(**policy)
    last = max(run.message for run in first)
    second = [run for run in runs_of(serve_all(queue)) if run.message > last]
    real = waits(second, [1000 * run.began_at for run in second])
    for channel in OTHER_POLICIES:
        before, after, predicted = (
            found[channel].quantile(0.95) for found in (simulated[RECORDED], real, simulated["proposed"])
        )
        shown = f"{channel}: recorded {before:.0f}, then {after:.0f}, predicted {predicted:.0f}"
        assert predicted == pytest.approx(after, rel=0.5), shown
        assert predicted < 0.85 * before, shown
