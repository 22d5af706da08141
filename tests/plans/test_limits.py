"""Channels that may not give anything cost those that may nothing."""

import pytest

from tests.database import Connect
from tests.judge import dequeue
from tests.plans.rounds import Scene
from tests.plans.sessions import Statistics, Watch, no_more
from tests.plans.states import create, dispatch_in_bulk, limit_channels, tall

CHANNELS = 100_000
DAY = 86_400_000


@pytest.mark.slow
@pytest.mark.parametrize("statistics", Statistics)
def test_channels_at_their_limit(connect: Connect, statistics: Statistics) -> None:
    """One lease each, a message that waited behind it, and one that came when they were full already."""
    watch = Watch(connect, statistics)
    tall(watch.loader)
    scene = Scene.NARROW | Scene.WIDE | Scene.DRAINED
    before = watch.costs(scene)
    loader = connect()  # channel_set is not for sessions that planned when there were no policies
    limit_channels(loader, CHANNELS, "limited ", 1)
    create(loader, 2 * CHANNELS, CHANNELS, "limited ", in_a_row=2)
    dispatch_in_bulk(loader)
    for _ in range(CHANNELS // 10_000):
        assert len(dequeue(loader, 10_000, DAY)[0]) == 10_000
    dispatch_in_bulk(loader)
    create(loader, CHANNELS, CHANNELS, "limited ")
    dispatch_in_bulk(loader)
    assert dequeue(loader, 10_000)[0] == []
    watch.conclude(before, scene, no_more)
