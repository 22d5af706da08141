"""Twice at most: from 10 to 100,000 channels, and from 1,000 to 1,000,000 waiting messages."""

import pytest

from tests.database import Connect
from tests.plans.rounds import Scene
from tests.plans.sessions import Statistics, Watch, twice
from tests.plans.states import create, dispatch_in_bulk


@pytest.mark.slow
@pytest.mark.parametrize("statistics", Statistics)
def test_channels_and_messages(connect: Connect, statistics: Statistics) -> None:
    watch = Watch(connect, statistics)
    create(watch.loader, 1_000, 10, "c")
    narrow = watch.costs(Scene.NARROW)
    create(watch.loader, 2_000, 2_000, "c")
    wide = watch.costs(Scene.WIDE)
    before = {session: narrow[session] | wide[session] for session in narrow}

    create(watch.loader, 1_000_000, 250, "c")
    watch.compare(before, Scene.NARROW | Scene.WIDE, twice, "a million messages")

    create(watch.loader, 100_000, 100_000, "c")
    dispatch_in_bulk(watch.loader)
    watch.conclude(before, Scene.NARROW | Scene.WIDE, twice)
