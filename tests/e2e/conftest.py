import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from lonnymq.embedded import Server
from tests.database import server_folder


@pytest.fixture
def data_dir() -> Iterator[Path]:
    path = server_folder("lonnymq-e2e-")
    yield path
    Server(path).erase()


@pytest.fixture(autouse=True, scope="session")
def signals_reach_programs() -> None:
    """A run in the background of a shell ignores these signals, and so would every program it starts."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
