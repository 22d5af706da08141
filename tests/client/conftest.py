from collections.abc import Iterator
from typing import Any

import pytest

from tests.queues import KINDS, OWN, queue_of


@pytest.fixture(params=KINDS)
def queue(request: pytest.FixtureRequest, dsn: str) -> Iterator[Any]:
    """Of every kind in turn."""
    with queue_of(request.param, dsn) as made:
        yield made


@pytest.fixture(params=OWN)
def own_queue(request: pytest.FixtureRequest, dsn: str) -> Iterator[Any]:
    """Synchronous and asynchronous, on a pool of its own."""
    with queue_of(request.param, dsn) as made:
        yield made
