"""Scheduled messages would come first by any priority, but do not slow down any call."""

import pytest

from tests.database import Connect
from tests.plans.rounds import Workload
from tests.plans.sessions import Comparison, Statistics, no_growth
from tests.plans.states import FAR, create, dispatch_in_bulk, loaded, make_indexes_tall


@pytest.mark.cases(1)
@loaded
@pytest.mark.slow
@pytest.mark.parametrize("statistics", Statistics)
def test_many_messages_for_later(connect: Connect, statistics: Statistics, load: float) -> None:
    comparison = Comparison(connect, statistics)
    make_indexes_tall(comparison.loader, load)
    workload = Workload.NARROW | Workload.WIDE | Workload.DRAINED
    before = comparison.costs(workload)
    create(comparison.loader, int(500_000 * load), 50, "c", FAR)
    create(comparison.loader, int(500_000 * load), int(10_000 * load), "later ", FAR, in_a_row=50)
    dispatch_in_bulk(comparison.loader)
    comparison.check_no_growth(before, workload, no_growth)
