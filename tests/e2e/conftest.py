import signal
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


@pytest.fixture(autouse=True, scope="session")
def signals_reach_programs() -> None:
    """A run in the background of a shell ignores these two, and every program it starts inherits that."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
