"""Channels that may not give anything cost those that may nothing."""

import psycopg
import pytest

from tests.database import Connect
from tests.invariants import dequeue
from tests.plans.rounds import Scene
from tests.plans.sessions import Statistics, Watch, no_more
from tests.plans.states import create, dispatch_in_bulk, limit_channels, loaded, tall

DAY = 86_400_000


def an_hour_passes(conn: psycopg.Connection) -> None:
    """The longer a channel has been full, the more seldom it is looked at."""
    conn.execute("UPDATE slots SET changed_at = changed_at - 3600000, alarm_at = alarm_at + 3600000")
    conn.execute("UPDATE alarm SET at = at + 3600000")
    conn.execute("DELETE FROM served_by")  # it is summed up by then
    conn.execute("VACUUM alarm, served_by")


@loaded
@pytest.mark.slow
@pytest.mark.parametrize("statistics", Statistics)
def test_channels_at_their_limit(connect: Connect, statistics: Statistics, load: float) -> None:
    """One lease each, a message that waited behind it, and one that came when they were full already."""
    watch = Watch(connect, statistics)
    channels = int(100_000 * load)
    tall(watch.loader, load)
    scene = Scene.NARROW | Scene.WIDE | Scene.DRAINED
    before = watch.costs(scene)
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
    watch.conclude(before, scene, no_more)
