"""Only what is surely a server of the cluster is taken for one: what we take for one may get a signal."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lonnymq.embedded import processes


@pytest.fixture(params=["proc", "ps"])
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "ps":
        monkeypatch.setattr(processes, "PROC", Path("/nonexistent"))


@pytest.mark.parametrize(("pid", "taken"), [(2, True), (1, False), (0, False), (-1, False), (-2, False)])
def test_numbers_that_mean_many_processes_are_never_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: int, taken: bool
) -> None:
    for name in ("self", str(pid)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cwd").symlink_to(tmp_path)
        (tmp_path / name / "exe").symlink_to("/usr/bin/postgres")
    monkeypatch.setattr(processes, "PROC", tmp_path)
    assert processes.belongs(pid, tmp_path) is taken


def test_a_stranger_is_not_taken(source: None, tmp_path: Path) -> None:
    assert not processes.belongs(os.getpid(), tmp_path)


def test_somebody_who_stands_in_the_folder_is_not_taken(source: None, tmp_path: Path) -> None:
    shell = subprocess.Popen(
        [sys.executable, "-c", "input()"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    with shell:
        assert not processes.belongs(shell.pid, tmp_path)
        assert list(processes.of_cluster(tmp_path)) == [] if processes.can_tell_all() else True
        shell.communicate(b"\n")


def test_a_number_that_no_one_has_is_not_taken(source: None, tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""], cwd=tmp_path)
    gone.wait()
    assert not processes.belongs(gone.pid, tmp_path)


def test_a_zombie_is_not_taken(source: None, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""], cwd=tmp_path) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        assert not processes.belongs(zombie.pid, tmp_path)
