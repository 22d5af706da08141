"""./run as a user calls it."""

import os
import subprocess
import time
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


@pytest.mark.parametrize("arguments", [[], ["--help"], ["help"]])
def test_says_what_it_can_do(arguments: list[str]) -> None:
    said = run(*arguments)
    assert said.returncode == 0
    for command in ("test", "test --quick", "check", "demo", "bench", "docs", "lonnymq", "lock"):
        assert f"\n  {command} " in said.stdout


def test_refuses_a_command_it_does_not_know() -> None:
    said = run("tset")
    assert said.returncode == 2
    assert said.stdout == ""
    assert "no command 'tset'" in said.stderr
    assert "test --quick" in said.stderr


@pytest.mark.parametrize("wrong", ["/nonexistent/python3", "/bin/false"])
def test_refuses_an_unfit_python(wrong: str) -> None:
    said = run(PYTHON=wrong)
    assert said.returncode == 1
    assert f"PYTHON={wrong} is not a Python 3.11" in said.stderr


def test_runs_from_any_folder_and_past_a_package_named_like_ours(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "__init__.py").write_text("raise SystemExit('the wrong one')", encoding="ascii")
    said = run("--help", folder=tmp_path)
    assert said.returncode == 0
    assert "./run COMMAND" in said.stdout


def test_adds_well_under_a_second() -> None:
    assert min(seconds_of_help() for _ in range(5)) < 0.5


def seconds_of_help() -> float:
    started = time.monotonic()
    run()
    return time.monotonic() - started


def test_ci_calls_the_tests_and_nothing_else() -> None:
    script = CHECKOUT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="ascii").splitlines()[-1] == "exec ./run test"
