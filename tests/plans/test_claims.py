"""Claims cost what their messages cost, whatever was claimed before, waits, or cannot be vacuumed."""

import pytest

from tests.database import Connect
from tests.invariants import dispatch
from tests.plans.buffers import Meter
from tests.plans.rounds import HOUR
from tests.plans.sessions import Comparison, Statistics
from tests.plans.states import create, dispatch_in_bulk
from tests.plans.test_dead_rows import hold_a_snapshot

CLAIMED = 100


def run_claim(meter: Meter, seq: int) -> int:
    """One claim from start to end."""
    name = "'me', 1"
    meter.count("next", f"claim_next({name}, {seq}, {CLAIMED}, {HOUR})")
    assert len(meter.count("read", f"claim_read({name}, {seq}, {seq + 1}, 0, 2)")) == CLAIMED // 2
    [extended] = meter.count("extend", f"claim_extend({name}, {HOUR}, TRUE)")
    assert extended == {"extended": CLAIMED, "lost": 0}
    meter.count("adopt", f"claim_next({name}, {seq}, {CLAIMED}, {HOUR})")
    [completed] = meter.count("complete", f"claim_complete({name}, {seq + 1}, TRUE)")
    assert completed["completed"] == CLAIMED
    return seq + 1


@pytest.mark.cases(1)
@pytest.mark.parametrize("statistics", Statistics)
def test_claims_beside_much_that_is_dead(connect: Connect, statistics: Statistics) -> None:
    comparison = Comparison(connect, statistics)
    loader, veteran = comparison.loader, Meter(connect())
    loader.execute("SELECT claim_open('me')")
    loader.execute("SELECT claim_open('other')")
    create(loader, 2_000, 20, "c")
    dispatch(loader)
    seq = 0
    for _ in range(8):  # the first calls of a session read the catalogue
        seq = run_claim(veteran, seq)
        dispatch(loader)
    veteran.forget()
    for _ in range(8):
        seq = run_claim(veteran, seq)
        dispatch(loader)
    before = veteran.costs()
    hold_a_snapshot(connect())
    create(loader, 50_000, 20, "c")
    dispatch_in_bulk(loader)
    loader.execute("SELECT claim_next('other', 1, 0, 20000, %s)", (HOUR,))
    dispatch(loader)
    for _ in range(150):
        loader.execute("SELECT claim_next('me', 1, %s, 200, %s)", (seq, HOUR))
        seq += 1
        loader.execute("SELECT claim_complete('me', 1, %s)", (seq,))
        dispatch(loader)
    for meter in (veteran, comparison.newcomer()):
        meter.forget()
        for _ in range(8):
            seq = run_claim(meter, seq)
            dispatch(loader)
        after = meter.costs()
        grown = {call: (before[call], after[call]) for call in before if after[call] > 2 * before[call]}
        assert not grown, f"buffers before and after: {grown}"


@pytest.mark.parametrize("take", ["p_channels => '{far1}'", "p_pattern => 'far.'"])
def test_a_claim_from_one_channel_costs_the_same_among_many(connect: Connect, take: str) -> None:
    """By name; by a pattern it also reads the open backlogs."""
    loader, meter = connect(), Meter(connect())
    loader.execute("SELECT claim_open('me')")
    seq = 0
    costs = []
    for channels in (20, 3_000):
        create(loader, 3 * channels, channels, "c")
        create(loader, 1_000, 1, "far")
        dispatch_in_bulk(loader)
        meter.forget()
        for _ in range(8):
            channels_or_pattern = take if "pattern" not in take else f"NULL, {take}"
            meter.count("dispatch", f"channels_dispatch({channels_or_pattern}, p_limit => 50)")
            [claim] = meter.count("next", f"claim_next('me', 1, {seq}, 50, {HOUR}, {take})")
            assert claim["messages"] == 50
            seq = claim["seq"]
            loader.execute("SELECT claim_complete('me', 1, %s)", (seq,))
            dispatch(loader)
        costs.append(meter.costs())
    few, many = costs
    backlogs = 3_000 if "pattern" in take else 0
    assert all(many[call] <= 1.5 * few[call] + backlogs for call in few), costs
