"""Messages for later would come first by any priority, and are in nobody's way."""

import pytest

from tests.database import Connect
from tests.plans.rounds import Scene
from tests.plans.sessions import Statistics, Watch, no_more
from tests.plans.states import FAR, create, dispatch_in_bulk, tall


@pytest.mark.slow
@pytest.mark.parametrize("statistics", Statistics)
def test_a_million_messages_for_later(connect: Connect, statistics: Statistics) -> None:
    watch = Watch(connect, statistics)
    tall(watch.loader)
    scene = Scene.NARROW | Scene.WIDE | Scene.DRAINED
    before = watch.costs(scene)
    create(watch.loader, 500_000, 50, "c", FAR)
    create(watch.loader, 500_000, 10_000, "later ", FAR, in_a_row=50)
    dispatch_in_bulk(watch.loader)
    watch.conclude(before, scene, no_more)
