"""Twice at most: from 10 to 100,000 channels, and from 1,000 to 1,000,000 waiting messages."""

import pytest

from tests.database import Connect
from tests.plans.rounds import Scene
from tests.plans.sessions import Statistics, Watch, twice
from tests.plans.states import create, dispatch_in_bulk, loaded

# A dispatch, and a look whether one is due, read what is ready. Of few channels it lies in order; of many,
# the next one may be on another page.
READY = 200


def twice_and_what_is_ready(call: str, before: int) -> int:
    return twice(call, before) + (READY if call.startswith(("dispatch", "look")) else 0)


@loaded
@pytest.mark.slow
@pytest.mark.parametrize("statistics", Statistics)
def test_channels_and_messages(connect: Connect, statistics: Statistics, load: float) -> None:
    watch = Watch(connect, statistics)
    create(watch.loader, 1_000, 10, "c")
    before = watch.costs(Scene.NARROW | Scene.WIDE)

    create(watch.loader, int(1_000_000 * load), 250, "c")
    watch.compare(before, Scene.NARROW | Scene.WIDE, twice_and_what_is_ready, "a million messages")

    create(watch.loader, int(100_000 * load), int(100_000 * load), "c")
    dispatch_in_bulk(watch.loader)
    watch.conclude(before, Scene.NARROW | Scene.WIDE, twice_and_what_is_ready)
