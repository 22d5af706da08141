"""Recognising the server processes of a cluster. Others must not be mistaken for one: we send signals to
them.
"""

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


@pytest.mark.parametrize(("pid", "is_server"), [(2, True), (1, False), (0, False), (-1, False), (-2, False)])
def test_process_ids_that_mean_many_processes_are_never_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: int, is_server: bool
) -> None:
    for name in ("self", str(pid)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cwd").symlink_to(tmp_path)
        (tmp_path / name / "exe").symlink_to("/usr/bin/postgres")
    monkeypatch.setattr(processes, "PROC", tmp_path)
    assert processes.is_server(pid, tmp_path) is is_server


def test_another_program_is_not_a_server(source: None, tmp_path: Path) -> None:
    assert not processes.is_server(os.getpid(), tmp_path)


def test_another_program_in_the_clusters_folder_is_not_a_server(source: None, tmp_path: Path) -> None:
    shell = subprocess.Popen(
        [sys.executable, "-c", "input()"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    with shell:
        assert not processes.is_server(shell.pid, tmp_path)
        assert list(processes.of_cluster(tmp_path)) == [] if processes.can_list_all() else True
        shell.communicate(b"\n")


def test_an_unused_process_id_is_not_a_server(source: None, tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""], cwd=tmp_path)
    gone.wait()
    assert not processes.is_server(gone.pid, tmp_path)


def test_a_zombie_is_not_a_server(source: None, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""], cwd=tmp_path) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        assert not processes.is_server(zombie.pid, tmp_path)
