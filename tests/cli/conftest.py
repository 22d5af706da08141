"""A queue, and the command line that is told of it by its environment."""

from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from lonnymq import Queue
from tests.cli.running import Done, run


class Run(Protocol):
    def __call__(self, *arguments: str, stdin: bytes = b"", **keywords: Any) -> Done: ...


@pytest.fixture
def queue(dsn: str) -> Iterator[Queue]:
    with Queue(dsn) as queue:
        yield queue


@pytest.fixture
def lonnymq(dsn: str) -> Run:
    def call(*arguments: str, stdin: bytes = b"", **keywords: Any) -> Done:
        return run(*arguments, dsn=dsn, stdin=stdin, **keywords)

    return call
