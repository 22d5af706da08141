"""A pytest plugin: a queue for each test, installed in a database of its own.

Every pytest loads it that runs where LonnyMQ is installed. So it imports nothing, and touches nothing, before
one of its fixtures is used.
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
        help="the PostgreSQL server for tests that use a LonnyMQ queue; its role needs CREATEDB. Unless it "
        f"is given, that of ${DSN_VARIABLE}, of lonnymq_dsn in the configuration, or one started for the run",
    )
    parser.addini("lonnymq_dsn", "the PostgreSQL server for tests that use a LonnyMQ queue")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401 - of xdist, which need not be there
    """The processes of xdist share one server."""
    node.workerinput["lonnymq_data_dir"] = str(_data_dir(node.config))


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and DATA_DIR in config.stash and config.stash[DATA_DIR].exists():
        from lonnymq.testing.shared_server import erase

        erase(config.stash[DATA_DIR])


@pytest.fixture(scope="session")
def lonnymq_schema() -> str:
    """The schema that the queue is installed in. Override it if yours is another."""
    return "lonnymq"


@pytest.fixture(scope="session")
def lonnymq_prepare() -> Callable[[str], object] | None:
    """Override it to return a function that is called once with the address of the database that each test
    gets a copy of: to make your own tables there, or to set channels up.
    """
    return None


@pytest.fixture(scope="session")
def lonnymq_server_dsn(pytestconfig: pytest.Config) -> Iterator[str]:
    """The address of the server on which tests get their databases. Override it if you start one yourself."""
    named = (
        pytestconfig.getoption("--lonnymq-dsn")
        or os.environ.get(DSN_VARIABLE)
        or pytestconfig.getini("lonnymq_dsn")
    )
    if named:
        yield named
        return
    from lonnymq.testing.shared_server import running

    is_alone = not hasattr(pytestconfig, "workerinput")
    with ExitStack() as stack:
        with _said_plainly():
            address = stack.enter_context(running(_data_dir(pytestconfig), is_alone=is_alone))
        yield address


@pytest.fixture(scope="session")
def _lonnymq_databases(lonnymq_server_dsn: str) -> Iterator[Databases]:
    from lonnymq.testing.databases import Databases

    with _said_plainly():
        databases = Databases(lonnymq_server_dsn)
    with closing(databases):
        yield databases


@pytest.fixture
def lonnymq_dsn(
    _lonnymq_databases: Databases, lonnymq_schema: str, lonnymq_prepare: Prepare | None
) -> Iterator[str]:
    """The address of the test's own database, with the queue installed; dropped after the test."""
    with ExitStack() as stack:
        with _said_plainly():
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
    """An AsyncQueue in the test's own database. The test may use it in one event loop after the other, and
    need not close it.
    """
    from lonnymq.testing.loop_safe_queue import AnyLoopQueue

    queue = AnyLoopQueue(lonnymq_dsn, lonnymq_schema)
    yield queue
    queue.end()


@contextmanager
def _said_plainly() -> Iterator[None]:
    """Without a traceback, when it is nothing that the test's author could find in the code."""
    from lonnymq.embedded import EmbeddedError
    from lonnymq.errors import InvalidAddress, SchemaError
    from lonnymq.testing.testing_errors import NoDatabase

    try:
        yield
    except (EmbeddedError, InvalidAddress, NoDatabase, SchemaError) as error:
        raise pytest.fail.Exception(f"LonnyMQ: {error}", pytrace=False) from None


def _data_dir(config: pytest.Config) -> Path:
    """Where the run's own server has its data, if it comes to that. Named here, made there."""
    if hasattr(config, "workerinput"):
        return Path(config.workerinput["lonnymq_data_dir"])
    if DATA_DIR not in config.stash:
        config.stash[DATA_DIR] = Path(tempfile.gettempdir()) / f"lonnymq-testing-{secrets.token_hex(8)}"
    return config.stash[DATA_DIR]
