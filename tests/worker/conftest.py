"""Fixtures for tests of the worker."""

from collections.abc import Iterator

import pytest

from lonnymq import App, Queue


@pytest.fixture
def queue(dsn: str) -> Iterator[Queue]:
    with Queue(dsn) as made:
        made.set(history=True, history_content=True)
        yield made


@pytest.fixture
def app(queue: Queue) -> App:
    return App(queue)
