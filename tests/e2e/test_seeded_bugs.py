"""The tests catch each seeded bug."""

import os
import subprocess
import sys

import pytest

from tests.database import AnyServer
from tests.seeded_bugs import BUGS


def run(server: AnyServer, bug: str, tests: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"LONNYMQ_SEEDED_BUG": bug, "LONNYMQ_TEST_DSN": server.dsn("postgres")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *tests],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


# The tests that catch these wait for deadlocks.
LONG = {"unsorted keys", "unsorted locks"}


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=pytest.mark.long) if bug in LONG else bug for bug in BUGS]
)
def test_caught(server: AnyServer, bug: str) -> None:
    caught = run(server, bug, BUGS[bug].caught_by)
    assert caught.returncode == pytest.ExitCode.TESTS_FAILED, caught.stdout + caught.stderr
    assert " error" not in caught.stdout.splitlines()[-1], caught.stdout


@pytest.mark.long
def test_without_a_bug_the_same_tests_pass(server: AnyServer) -> None:
    tests = tuple(sorted({test for bug in BUGS.values() for test in bug.caught_by}))
    passed = run(server, "", tests)
    assert passed.returncode == pytest.ExitCode.OK, passed.stdout + passed.stderr
