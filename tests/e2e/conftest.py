import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lonnymq.embedded import Server


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A folder for a server of the test's own, in a place that the server's account can reach."""
    path = Path(tempfile.mkdtemp(prefix="lonnymq-e2e-"))
    yield path
    Server(path).erase()
