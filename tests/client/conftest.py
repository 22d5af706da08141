from collections.abc import Iterator
from typing import Any

import pytest

from tests.queues import KINDS, OWN_POOL, queue_of


@pytest.fixture(params=KINDS)
def queue(request: pytest.FixtureRequest, dsn: str) -> Iterator[Any]:
    """A queue on each kind of pool and engine, sync and async."""
    with queue_of(request.param, dsn) as made:
        yield made


@pytest.fixture(params=OWN_POOL)
def own_queue(request: pytest.FixtureRequest, dsn: str) -> Iterator[Any]:
    """A Queue and an AsyncQueue that open their own pool."""
    with queue_of(request.param, dsn) as made:
        yield made
