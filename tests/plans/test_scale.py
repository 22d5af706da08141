"""Costs at most double from 10 to 100,000 channels, and from 1,000 to 1,000,000 waiting messages."""

import pytest

from tests.database import Connect
from tests.plans.rounds import Workload
from tests.plans.sessions import Comparison, Statistics, twice
from tests.plans.states import create, dispatch_in_bulk, loaded

# A dispatch, and the check whether one is due, read ready. With few channels its rows are in order; with
# many, the next one may be on another page.
READY = 200


def twice_and_the_ready_list(call: str, before: int) -> int:
    return twice(call, before) + (READY if call.startswith(("dispatch", "look")) else 0)


@pytest.mark.cases(1)
@loaded
@pytest.mark.slow
@pytest.mark.parametrize("statistics", Statistics)
def test_channels_and_messages(connect: Connect, statistics: Statistics, load: float) -> None:
    comparison = Comparison(connect, statistics)
    create(comparison.loader, 1_000, 10, "c")
    before = comparison.costs(Workload.NARROW | Workload.WIDE)

    create(comparison.loader, int(1_000_000 * load), 250, "c")
    comparison.compare(
        before, Workload.NARROW | Workload.WIDE, twice_and_the_ready_list, "a million messages"
    )

    create(comparison.loader, int(100_000 * load), int(100_000 * load), "c")
    dispatch_in_bulk(comparison.loader)
    comparison.check_no_growth(before, Workload.NARROW | Workload.WIDE, twice_and_the_ready_list)
