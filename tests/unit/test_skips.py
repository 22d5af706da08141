"""With CI=true a skipped test is a failure; otherwise skips are counted, and the summary says what to
install.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dev import debian

CHECKOUT = Path(__file__).parents[2]
CONFTEST = """
from tests.skips import Skips

def pytest_configure(config):
    config.pluginmanager.register(Skips())
"""
TESTS = """
import pytest
from tests.skips import require_package

def test_passes(): pass

@pytest.mark.skip(reason="no reason")
def test_skipped(): pass

@pytest.mark.xfail
def test_expected(): assert False

def test_packaged(monkeypatch):
    monkeypatch.setattr("dev.debian.is_installed", lambda package: False)
    require_package("postgresql-15")
"""


def outcome(folder: Path, tests: str, ci: str, *arguments: str) -> tuple[int, str]:
    (folder / "conftest.py").write_text(CONFTEST, encoding="ascii")
    (folder / "test_it.py").write_text(tests, encoding="ascii")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", f"--rootdir={folder}", "-p", "no:cacheprovider", *arguments, folder],
        cwd=folder,
        env=os.environ | {"CI": ci, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [[], pytest.param(["-n", "2"], marks=pytest.mark.long)], ids=["alone", "xdist"]
)
def test_skips_are_counted_with_what_to_install(tmp_path: Path, arguments: list[str]) -> None:
    code, output = outcome(tmp_path, TESTS, "false", *arguments)
    assert code == 0
    assert "2 skipped" in output
    assert "test_it.py::test_skipped: no reason" in output
    assert "to run the tests that need Debian packages: apt-get install postgresql-15" in output


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["-n", "2"], pytest.param([], marks=pytest.mark.long)], ids=["xdist", "alone"]
)
def test_with_ci_a_skip_is_a_failure(tmp_path: Path, arguments: list[str]) -> None:
    code, output = outcome(tmp_path, TESTS, "true", *arguments)
    assert code == 1
    assert "2 skipped: with CI=true each is a failure" in output


@pytest.mark.slow
def test_with_ci_a_skipped_module_is_a_failure(tmp_path: Path) -> None:
    code, _ = outcome(tmp_path, "import pytest\npytest.importorskip('no_such_module')", "true")
    assert code != 0


@pytest.mark.slow
def test_with_ci_an_expected_failure_is_not_a_failure(tmp_path: Path) -> None:
    code, _ = outcome(tmp_path, TESTS, "true", "-k", "passes or expected")
    assert code == 0


def test_a_required_package_must_be_in_packages_txt() -> None:
    from tests.skips import require_package

    with pytest.raises(pytest.fail.Exception, match=r"packages\.txt"):
        require_package("cowsay")


def test_packages_are_read_without_their_reasons() -> None:
    assert "postgresql-15" in debian.named_packages()
    assert all(" " not in name and "#" not in name for name in debian.named_packages())
