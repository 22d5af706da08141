from collections.abc import Iterator
from typing import Any

import pytest

from tests.client.queues import QUEUES


@pytest.fixture(params=QUEUES)
def queue(request: pytest.FixtureRequest, dsn: str) -> Iterator[Any]:
    """Of every kind in turn."""
    with QUEUES[request.param](dsn) as made:
        yield made


@pytest.fixture(params=["DSN", "async, DSN"])
def own_queue(request: pytest.FixtureRequest, dsn: str) -> Iterator[Any]:
    """Synchronous and asynchronous, on a pool of its own."""
    with QUEUES[request.param](dsn) as made:
        yield made
