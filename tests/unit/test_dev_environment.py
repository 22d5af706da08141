"""How ./run creates .venv, with its commands replaced by fakes."""

import fcntl
import sys
import threading
from pathlib import Path

import pytest

from dev import environment
from dev.environment import SetupFailed, make_ready
from dev.progress import Steps


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A temporary checkout in which commands are only recorded, and `.venv` is created."""
    (tmp_path / "dev.txt").write_text("pytest==9.2.0 --hash=sha256:00\n", encoding="ascii")
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(environment, "CHECKOUT", tmp_path)
    monkeypatch.setattr(environment, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(environment, "BIN", tmp_path / ".venv" / "bin")
    monkeypatch.setattr(environment, "STAMP", tmp_path / ".venv" / "made-from")
    monkeypatch.setattr(environment, "REQUIREMENTS", tmp_path / "dev.txt")
    monkeypatch.setattr(environment, "MADE_FROM", (tmp_path / "dev.txt", tmp_path / "pyproject.toml"))
    recorded: list[str] = []

    def pretend(_steps: object, _lock: int, command: list[str | Path], count_to: int | None = None) -> None:
        recorded.append(" ".join(map(str, command[1:4])) + (f" x {count_to}" if count_to else ""))
        (tmp_path / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
        (tmp_path / ".venv" / "bin" / "python").touch()

    monkeypatch.setattr(environment, "_run", pretend)
    return recorded


def test_it_is_created_once(commands: list[str], tmp_path: Path) -> None:
    make_ready()
    assert commands == [f"-m venv {tmp_path / '.venv'}", "-m pip install x 1", "-m pip install"]
    make_ready()
    assert len(commands) == 3


def test_it_is_updated_when_requirements_change(commands: list[str], tmp_path: Path) -> None:
    make_ready()
    commands.clear()
    (tmp_path / "dev.txt").write_text("pytest==9.3.0\nruff==1.0\n", encoding="ascii")
    make_ready()
    assert commands == ["-m pip install x 2", "-m pip install"]


def test_it_is_created_again_after_a_failure(
    commands: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend = environment._run

    def fail_at_packages(
        steps: Steps, lock: int, command: list[str | Path], count_to: int | None = None
    ) -> None:
        pretend(steps, lock, command, count_to)
        if count_to:
            raise SetupFailed

    make_ready()
    (tmp_path / "dev.txt").write_text("pytest==9.3.0\n", encoding="ascii")
    with monkeypatch.context() as broken:
        broken.setattr(environment, "_run", fail_at_packages)
        with pytest.raises(SetupFailed):
            make_ready()
    commands.clear()
    make_ready()
    assert len(commands) == 3


def test_two_processes_create_it_once(
    commands: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = threading.Thread(target=make_ready)
    with (tmp_path / ".venv.lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        second.start()
        second.join(timeout=0.3)
        assert second.is_alive()
        assert commands == []
    second.join(timeout=10)
    assert len(commands) == 3
    assert "another ./run is setting up" in capsys.readouterr().err


def test_a_failing_command_is_shown(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock, pytest.raises(SetupFailed, match="no such luck"):
        environment._run(Steps(1), lock.fileno(), [sys.executable, "-c", "print('no such luck'); exit(1)"])
