"""A pytest plugin: a queue for each test, in the test's own database.

pytest loads it wherever LonnyMQ is installed. So it does nothing, and imports nothing, before one of its
fixtures is used.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lonnymq import AsyncQueue, Queue
    from lonnymq.testing.databases import Databases, Prepare

DSN_VARIABLE = "LONNYMQ_TEST_DSN"
DATA_DIR = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("lonnymq").addoption(
        "--lonnymq-dsn",
        metavar="DSN",
        help="the PostgreSQL server for tests that use a LonnyMQ queue; the role needs CREATEDB. Default: "
        f"${DSN_VARIABLE}, lonnymq_dsn in the configuration, or a server that is started for the run",
    )
    parser.addini("lonnymq_dsn", "the PostgreSQL server for tests that use a LonnyMQ queue")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401 - of xdist, which may not be installed
    """Let the processes of xdist share one server."""
    node.workerinput["lonnymq_data_dir"] = str(_data_dir(node.config))


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and DATA_DIR in config.stash and config.stash[DATA_DIR].exists():
        from lonnymq.testing.shared_server import erase

        erase(config.stash[DATA_DIR])


@pytest.fixture(scope="session")
def lonnymq_schema() -> str:
    """The schema that the queue is installed in. Override it to use another one."""
    return "lonnymq"


@pytest.fixture(scope="session")
def lonnymq_prepare() -> Callable[[str], object] | None:
    """Override it to return a function that creates your own tables, or sets up channels. It is called
    once, with the address of the database that each test gets a copy of.
    """
    return None


@pytest.fixture(scope="session")
def lonnymq_server_dsn(pytestconfig: pytest.Config) -> Iterator[str]:
    """The address of the server for the databases of tests. Override it if you start one yourself."""
    dsn = (
        pytestconfig.getoption("--lonnymq-dsn")
        or os.environ.get(DSN_VARIABLE)
        or pytestconfig.getini("lonnymq_dsn")
    )
    if dsn:
        yield dsn
        return
    from lonnymq.testing.shared_server import running

    is_alone = not hasattr(pytestconfig, "workerinput")
    with ExitStack() as stack:
        with _without_traceback():
            address = stack.enter_context(running(_data_dir(pytestconfig), is_alone=is_alone))
        yield address


@pytest.fixture(scope="session")
def _lonnymq_databases(lonnymq_server_dsn: str) -> Iterator[Databases]:
    from lonnymq.testing.databases import Databases

    with _without_traceback():
        databases = Databases(lonnymq_server_dsn)
    with closing(databases):
        yield databases


@pytest.fixture
def lonnymq_dsn(
    _lonnymq_databases: Databases, lonnymq_schema: str, lonnymq_prepare: Prepare | None
) -> Iterator[str]:
    """The address of the test's own database, with the queue installed; dropped after the test."""
    with ExitStack() as stack:
        with _without_traceback():
            address = stack.enter_context(_lonnymq_databases.copy(lonnymq_schema, lonnymq_prepare))
        yield address


@pytest.fixture
def lonnymq_queue(lonnymq_dsn: str, lonnymq_schema: str) -> Iterator[Queue]:
    """A Queue in the test's own database."""
    from lonnymq import Queue

    with Queue(lonnymq_dsn, lonnymq_schema) as queue:
        yield queue


@pytest.fixture
def lonnymq_async_queue(lonnymq_dsn: str, lonnymq_schema: str) -> Iterator[AsyncQueue]:
    """An AsyncQueue in the test's own database. The test may use it in several event loops, one after the
    other, and need not close it.
    """
    from lonnymq.client.loop_safe_queue import LoopSafeQueue

    queue = LoopSafeQueue(lonnymq_dsn, lonnymq_schema)
    yield queue
    queue.close_now()


@contextmanager
def _without_traceback() -> Iterator[None]:
    """Fail the test without a traceback, because the error is in its environment and not in the code."""
    from lonnymq.embedded import EmbeddedError
    from lonnymq.errors import InvalidAddress, SchemaError
    from lonnymq.testing.databases import NoDatabase

    try:
        yield
    except (EmbeddedError, InvalidAddress, NoDatabase, SchemaError) as error:
        raise pytest.fail.Exception(f"LonnyMQ: {error}", pytrace=False) from None


def _data_dir(config: pytest.Config) -> Path:
    """The folder for the server that is started for the run, if one is. It is only named here."""
    if hasattr(config, "workerinput"):
        return Path(config.workerinput["lonnymq_data_dir"])
    if DATA_DIR not in config.stash:
        config.stash[DATA_DIR] = Path(tempfile.gettempdir()) / f"lonnymq-testing-{secrets.token_hex(8)}"
    return config.stash[DATA_DIR]
