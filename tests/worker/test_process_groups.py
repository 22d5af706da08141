"""`lonnymq worker --processes` and `--reload`: a parent and its children."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

import pytest

from lonnymq import Queue
from lonnymq.worker.processes import send
from lonnymq.worker.reload import SourceFiles
from tests.worker.processes import TIMEOUT_S, until

pytestmark = pytest.mark.slow

MODULE = """
import os, time
from pathlib import Path
from lonnymq import App, Queue

app = App(Queue(os.environ["SHOP_DSN"], timeout=5))
folder = Path(__file__).parent

@app.task()
def version() -> None:
    (folder / "ran").write_text("VERSION")

@app.task()
def wait() -> None:
    (folder / "waiting").touch()
    while not (folder / "open").exists():
        time.sleep(0.01)
"""


class Group:
    """A parent process, and what it and its children log."""

    def __init__(self, folder: Path, dsn: str, *arguments: str) -> None:
        self.folder = folder
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._parent = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "lonnymq", "worker", "shop", *arguments],
                cwd=folder,
                env=os.environ | {"SHOP_DSN": dsn},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def started(self) -> list[int]:
        """The pids of all children, in the order in which they were started."""
        return [
            int(line.rsplit(" ", 1)[1])
            for line in self.log.splitlines()
            if " started worker process " in line
        ]

    @property
    def children(self) -> list[int]:
        """The pids of the children that live."""
        return [pid for pid in self.started if is_alive(pid)]

    def wait_until_serving(self, times: int) -> Self:
        until(
            lambda: self.log.count(" serves ") >= times or self._parent.poll() is not None,
            f"{times} children to serve",
        )
        assert self._parent.poll() is None, self.log
        return self

    def send(self, number: signal.Signals) -> None:
        self._parent.send_signal(number)

    def wait_for_exit(self) -> int:
        return self._parent.wait(TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._parent.kill()
        self._parent.wait(TIMEOUT_S)
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Whether the process runs: not gone, and not a zombie that its parent has to reap."""
    with suppress(OSError):
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        return status.rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(MODULE.replace("VERSION", "1"))
    return tmp_path


@pytest.fixture
def queue(dsn: str) -> Iterator[Queue]:
    with Queue(dsn) as made:
        yield made


def has_noticed(group: Group, changes: int) -> bool:
    return group.log.count("has changed") == changes


def call(queue: Queue, task: str) -> None:
    queue.enqueue({}, headers={"task": task})


def test_several_processes(queue: Queue, dsn: str, folder: Path) -> None:
    health = folder / "health.json"
    options = ["--processes", "3", "--name", "mail", "--health-file", str(health)]
    with Group(folder, dsn, *options) as group:
        group.wait_until_serving(3)
        until(lambda: len(queue.workers()) == 3, "all to report")
        assert [worker.name for worker in queue.workers()] == ["mail-1", "mail-2", "mail-3"]
        assert sorted(worker.pid for worker in queue.workers()) == sorted(group.children)
        assert {path.name for path in folder.glob("health*")} <= {f"health-{n}.json" for n in (1, 2, 3)}
        call(queue, "version")
        until((folder / "ran").exists, "the task to run")

        victim, *others = group.children
        os.kill(victim, signal.SIGKILL)
        group.wait_until_serving(4)
        assert set(others) < set(group.children)
        assert len(group.started) == 4
        assert f"the worker process with pid {victim} was ended by SIGKILL; starting another" in group.log

        queue.drain_worker("mail-2")
        until(lambda: len(group.children) == 2, "it to drain")
        queue.drain_worker("mail-*")
        assert group.wait_for_exit() == 0, "when all are drained"
        assert len(group.started) == 4, "a child that was drained is not started again"
        assert group.children == []
        assert "mail-2" not in [worker.name for worker in queue.workers()]
        assert "Traceback" not in group.log


def test_the_second_signal_is_passed_on_too(queue: Queue, dsn: str, folder: Path) -> None:
    with Group(folder, dsn, "--processes", "2", "--shutdown-timeout", "600") as group:
        group.wait_until_serving(2)
        call(queue, "wait")
        until((folder / "waiting").exists, "the task to run")
        group.send(signal.SIGINT)
        until(lambda: len(group.children) == 1, "the idle child to exit")
        group.send(signal.SIGINT)
        assert group.wait_for_exit() == 130, "the highest exit code"
        assert queue.stats().leased == 0


def test_a_child_that_exits_while_signals_are_sent_keeps_its_exit_code() -> None:
    async def exit_code() -> int:
        child = await asyncio.create_subprocess_exec("sh", "-c", "trap '' INT; exit 3")
        until = time.monotonic() + 0.02
        while time.monotonic() < until:  # it exits meanwhile
            send(child, signal.SIGINT)
        return await child.wait()

    async def main() -> set[int]:
        return {await exit_code() for _ in range(30)}

    assert asyncio.run(main()) - {-signal.SIGINT} == {3}


def test_children_drain_when_their_parent_is_killed(queue: Queue, dsn: str, folder: Path) -> None:
    with Group(folder, dsn, "--processes", "2") as group:
        group.wait_until_serving(2)
        until(lambda: len(queue.workers()) == 2, "both to report")
        group.send(signal.SIGKILL)
        until(lambda: group.children == [], "the children to exit")
        assert queue.workers() == [], "they drained"


@pytest.mark.parametrize(
    ("code", "says", "exit_code"),
    [
        ("def f(:\n", "shop cannot be imported", 1),
        ("number = 7\n", "shop:app is not an App", 2),
    ],
)
def test_children_that_cannot_start(dsn: str, folder: Path, code: str, says: str, exit_code: int) -> None:
    (folder / "shop.py").write_text(code)
    with Group(folder, dsn, "--processes", "2") as group:
        assert group.wait_for_exit() == exit_code
        assert says in group.log
        assert len(group.started) == 2


def test_until_empty(queue: Queue, dsn: str, folder: Path) -> None:
    call(queue, "version")
    with Group(folder, dsn, "--processes", "2", "--until-empty") as group:
        assert group.wait_for_exit() == 0
        assert (folder / "ran").read_text() == "1"


def test_reload(queue: Queue, dsn: str, folder: Path) -> None:
    ran = folder / "ran"
    with Group(folder, dsn, "--reload") as group:
        group.wait_until_serving(1)
        call(queue, "version")
        until(lambda: ran.exists() and ran.read_text() == "1", "the first version to run")
        (folder / "shop.py").write_text(MODULE.replace("VERSION", "2"))
        group.wait_until_serving(2)
        call(queue, "version")
        until(lambda: ran.read_text() == "2", "the second version to run")
        (folder / "shop.py").write_text("def f(:\n")
        until(lambda: "waiting for a change of the code" in group.log, "the third version to fail")
        assert "shop cannot be imported: SyntaxError" in group.log
        (folder / "shop.py").write_text(MODULE.replace("VERSION", "4"))
        group.wait_until_serving(3)
        call(queue, "version")
        until(lambda: ran.read_text() == "4", "the fourth version to run")
        assert len(group.children) == 1
        group.send(signal.SIGTERM)
        assert group.wait_for_exit() == 0
        assert "passing SIGTERM on to 1 worker process\n" in group.log
        assert queue.stats().leased == 0


def test_a_reload_lets_running_tasks_finish(queue: Queue, dsn: str, folder: Path) -> None:
    with Group(folder, dsn, "--reload") as group:
        group.wait_until_serving(1)
        call(queue, "wait")
        until((folder / "waiting").exists, "the task to run")
        for version in "23":
            (folder / "shop.py").write_text(MODULE.replace("VERSION", version))
            until(partial(has_noticed, group, int(version) - 1), "the change to be noticed")
        (folder / "open").touch()
        group.wait_until_serving(2)
        assert "stopped: 1 completed" in group.log
        group.send(signal.SIGTERM)
        assert group.wait_for_exit() == 0


def test_which_files_are_watched(tmp_path: Path) -> None:
    def write(name: str, text: str = "") -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    for name in ("shop.py", "lib/deep/money.py", ".git/hook.py", "venv/lib/x.py", "node_modules/x.py"):
        write(name)
    write("venv/pyvenv.cfg")
    files = SourceFiles([tmp_path])
    assert files.changed() is None
    for name in (".git/hook.py", "venv/lib/x.py", "node_modules/x.py", "readme.txt"):
        write(name, "changed")
    assert files.changed() is None
    for name in ("shop.py", "lib/deep/money.py", "lib/new.py"):
        write(name, "changed")
        assert files.changed() == tmp_path / name
        assert files.changed() is None
    (tmp_path / "lib/new.py").unlink()
    assert files.changed() == tmp_path / "lib/new.py"
    one = SourceFiles([tmp_path / "shop.py"])
    write("lib/new.py")
    assert one.changed() is None
    write("shop.py", "changed again")
    assert one.changed() == tmp_path / "shop.py"
