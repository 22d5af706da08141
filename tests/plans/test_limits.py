"""Channels that may not release cost the other channels nothing."""

import psycopg
import pytest

from tests.database import Connect
from tests.invariants import dequeue
from tests.plans.rounds import Workload
from tests.plans.sessions import Comparison, Statistics, no_growth
from tests.plans.states import create, dispatch_in_bulk, limit_channels, loaded, make_indexes_tall

DAY = 86_400_000


def an_hour_passes(conn: psycopg.Connection) -> None:
    """The longer a channel has been full, the less often it is looked at."""
    conn.execute("UPDATE slots SET changed_at = changed_at - 3600000, alarm_at = alarm_at + 3600000")
    conn.execute("UPDATE alarm SET at = at + 3600000")
    conn.execute("DELETE FROM served_by")  # added to tally by then
    conn.execute("VACUUM alarm, served_by")


@pytest.mark.cases(1)
@loaded
@pytest.mark.slow
@pytest.mark.parametrize("statistics", Statistics)
def test_channels_at_their_limit(connect: Connect, statistics: Statistics, load: float) -> None:
    """Each has one lease, a message that waited behind it, and one that came when it was full."""
    comparison = Comparison(connect, statistics)
    channels = int(100_000 * load)
    make_indexes_tall(comparison.loader, load)
    workload = Workload.NARROW | Workload.WIDE | Workload.DRAINED
    before = comparison.costs(workload)
    loader = connect()  # channel_set is not for sessions that planned when there were no policies
    limit_channels(loader, channels, "limited ", 1)
    create(loader, 2 * channels, channels, "limited ", in_a_row=2)
    dispatch_in_bulk(loader)
    leased = 0
    while leased < channels:
        leased += len(dequeue(loader, 10_000, DAY)[0])
        dispatch_in_bulk(loader)
    create(loader, channels, channels, "limited ")
    dispatch_in_bulk(loader)
    assert dequeue(loader, 10_000)[0] == []
    an_hour_passes(loader)
    comparison.check_no_growth(before, workload, no_growth)
