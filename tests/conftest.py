"""Fixtures for every test.

`--pg 18` (the default) uses the embedded server, `--pg 15` the oldest supported version, from Debian. All
processes of a run share one server. Each process installs the schema once, into a template database, and
each test gets a copy of it. LONNYMQ_TEST_DSN names another server to use.
"""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import psycopg
import pytest

from lonnymq.embedded import Server, binaries
from lonnymq.install import install
from tests.cases import left_out, most_by_default
from tests.conformance.matrix import Matrix
from tests.database import (
    EMBEDDED_VERSION,
    AnyServer,
    Connect,
    DatabasesToDrop,
    ExternalServer,
    copy_database,
    create_database,
    drop_database,
    embedded_server,
    erase_leftovers,
    server_folder,
    speed_up_logins,
    unique_name,
)
from tests.skips import Skips, require_package

SCHEMA = "lonnymq"
DATA_DIR = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--pg", type=int, default=EMBEDDED_VERSION, help="major version of PostgreSQL to test on"
    )
    parser.addoption(
        "--random", action="store_true", help="generate new examples, not the same ones each time"
    )
    parser.addoption(
        "--own-servers",
        action="store_true",
        help="give each process its own server, for tests that open transactions of others would delay",
    )
    parser.addoption(
        "--cases", type=int, help="run at most this many cases of each test, the same ones each time"
    )

    parser.addoption(
        "--pictures", action="store_true", help="write the pictures of the dashboard in docs/assets"
    )


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.register_profile(
        "lonnymq",
        derandomize=not config.getoption("--random"),
        suppress_health_check=[
            hypothesis.HealthCheck.too_slow
        ],  # which depends on what else the machine does
    )
    hypothesis.settings.load_profile("lonnymq")
    if hasattr(config, "workerinput"):
        is_own = config.getoption("--own-servers")
        shared = Path(config.workerinput["data_dir"])
        config.stash[DATA_DIR] = server_folder("lonnymq-tests-") if is_own else shared
        return
    erase_leftovers()
    config.stash[DATA_DIR] = server_folder("lonnymq-tests-")
    config.pluginmanager.register(Skips(), "skips")
    config.pluginmanager.register(Matrix(), "matrix")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["data_dir"] = str(node.config.stash[DATA_DIR])


def pytest_unconfigure(config: pytest.Config) -> None:
    data_dir = config.stash.get(DATA_DIR, None)
    is_own = not hasattr(config, "workerinput") or config.getoption("--own-servers")
    if data_dir is not None and is_own:
        Server(data_dir).erase()
        shutil.rmtree(data_dir, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Before -m and -k, mark some cases of tests that have the marker `cases` as long. With --cases, leave
    out cases.
    """
    for item in left_out(items, most_by_default):
        item.add_marker(pytest.mark.long)
    yield
    most = config.getoption("--cases")
    if most is not None:
        dropped = left_out(items, lambda _: most)
        config.hook.pytest_deselected(items=[item for item in items if item in dropped])
        items[:] = [item for item in items if item not in dropped]


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("debian"):
        require_package(*marker.args)


@contextmanager
def running_server(config: pytest.Config, data_dir: Path, **settings: str) -> Iterator[AnyServer]:
    address = os.environ.get("LONNYMQ_TEST_DSN")
    if address:
        yield ExternalServer(address)
        return
    version = config.getoption("--pg")
    if version != EMBEDDED_VERSION:
        require_package(f"postgresql-{version}")
    with embedded_server(data_dir, binaries(version), **settings) as running:
        yield running


@pytest.fixture(scope="session")
def server(pytestconfig: pytest.Config) -> Iterator[AnyServer]:
    with running_server(pytestconfig, pytestconfig.stash[DATA_DIR]) as running:
        yield running


@pytest.fixture(scope="session")
def admin(server: AnyServer) -> Iterator[psycopg.Connection]:
    """Makes and drops the tests' databases. One connection for all of them saves two logins per test."""
    with admin_connection(server) as connection:
        yield connection


@contextmanager
def admin_connection(server: AnyServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        if not isinstance(server, ExternalServer):
            speed_up_logins(connection)
        yield connection


@pytest.fixture(scope="session")
def template(server: AnyServer) -> Iterator[str]:
    with installed_template(server) as name:
        yield name


@contextmanager
def installed_template(server: AnyServer) -> Iterator[str]:
    """Make a database with the schema installed. Never connect to it: PostgreSQL copies only unused ones."""
    name = unique_name("lonnymq_template")
    create_database(server, name)
    with psycopg.connect(server.dsn(name), autocommit=True) as connection:
        install(connection, schema=SCHEMA)
        if importlib.util.find_spec("tests.seeded_bugs") is not None:
            importlib.import_module("tests.seeded_bugs").apply_from_env(connection, SCHEMA)
    yield name
    drop_database(server, name)


@pytest.fixture(scope="session")
def to_drop(server: AnyServer) -> Iterator[DatabasesToDrop]:
    databases = DatabasesToDrop(server)
    yield databases
    databases.close()


@pytest.fixture
def dsn(
    pytestconfig: pytest.Config,
    server: AnyServer,
    admin: psycopg.Connection,
    template: str,
    to_drop: DatabasesToDrop,
) -> Iterator[str]:
    name = unique_name("lonnymq_test")
    copy_database(admin, name, template)
    yield server.dsn(name)
    to_drop.add(name)
    if pytestconfig.getoption("--own-servers"):
        to_drop.wait()  # a drop is a transaction that is open for a while


@pytest.fixture
def connect(dsn: str, request: pytest.FixtureRequest) -> Iterator[Connect]:
    opened: list[psycopg.Connection] = []

    def open_connection(**keywords: Any) -> psycopg.Connection:
        defaults: dict[str, Any] = {
            "autocommit": True,
            "options": f"-c search_path={SCHEMA}",
            "application_name": request.node.name[:63],
        }
        connection = psycopg.connect(dsn, **(defaults | keywords))
        opened.append(connection)
        return connection

    yield open_connection
    for connection in opened:
        connection.close()


@pytest.fixture
def conn(connect: Connect) -> psycopg.Connection:
    return connect()
