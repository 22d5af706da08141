"""Messages for later would come first by any priority, and are in nobody's way."""

import pytest

from tests.database import Connect
from tests.plans.rounds import Scene
from tests.plans.sessions import Statistics, Watch, no_more
from tests.plans.states import FAR, create, dispatch_in_bulk, loaded, tall


@loaded
@pytest.mark.slow
@pytest.mark.parametrize("statistics", Statistics)
def test_many_messages_for_later(connect: Connect, statistics: Statistics, load: float) -> None:
    watch = Watch(connect, statistics)
    tall(watch.loader, load)
    scene = Scene.NARROW | Scene.WIDE | Scene.DRAINED
    before = watch.costs(scene)
    create(watch.loader, int(500_000 * load), 50, "c", FAR)
    create(watch.loader, int(500_000 * load), int(10_000 * load), "later ", FAR, in_a_row=50)
    dispatch_in_bulk(watch.loader)
    watch.conclude(before, scene, no_more)
