"""./run as a user calls it."""

import os
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
BARE = {"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}


def run(*arguments: str, folder: Path = CHECKOUT, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CHECKOUT / "run", *arguments],
        cwd=folder,
        env=BARE | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("arguments", [[], ["--help"], ["help"], ["check", "-h"], ["test", "--help"]])
def test_help_lists_the_commands(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode == 0
    for command in (
        "test",
        "test --quick",
        "check",
        "demo",
        "bench",
        "suites",
        "model",
        "docs",
        "lonnymq",
        "lock",
    ):
        assert f"\n  {command} " in done.stdout


def test_refuses_an_unknown_command() -> None:
    done = run("tset")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "no command 'tset'" in done.stderr
    assert "test --quick" in done.stderr


@pytest.mark.parametrize("command", ["check", "docs"])
def test_refuses_arguments_that_it_does_not_take(command: str) -> None:
    done = run(command, "--fast")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"./run {command} takes no arguments, and got '--fast'\n"


@pytest.mark.parametrize("wrong", ["/nonexistent/python3", "/bin/false"])
def test_refuses_an_unsuitable_python(wrong: str) -> None:
    done = run(PYTHON=wrong)
    assert done.returncode == 1
    assert f"PYTHON={wrong} is not a Python 3.11" in done.stderr


def test_runs_from_a_folder_with_a_package_of_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "__init__.py").write_text("raise SystemExit('the wrong one')", encoding="ascii")
    done = run("--help", folder=tmp_path)
    assert done.returncode == 0
    assert "./run COMMAND" in done.stdout


def test_imports_little() -> None:
    """It starts quickly: about 50 modules more than Python itself."""
    assert run(PYTHONPROFILEIMPORTTIME="1").stderr.count("import time:") < 200


def test_ci_calls_the_tests_and_nothing_else() -> None:
    script = CHECKOUT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="ascii").splitlines()[-1] == "exec ./run test"
