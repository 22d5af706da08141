"""The command `lonnymq worker`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from lonnymq import Queue
from lonnymq.install import uninstall

MODULE = """
import asyncio, os, time
from lonnymq import App, AsyncQueue, Queue

app = App(Queue(os.environ["SHOP_DSN"], timeout=2))
other = App(AsyncQueue(os.environ["SHOP_DSN"], timeout=2))
number = 7

@app.task()
def send(invoice: int) -> None:
    print("sent", invoice)

@app.task()
async def hang() -> None:
    thread = asyncio.create_task(asyncio.to_thread(time.sleep, 60))
    await asyncio.sleep(0.1)
    thread.cancel()
    print("left a thread behind")

@other.task(name="send")
async def send_later(invoice: int) -> None:
    print("sent later", invoice)
    if invoice:
        await send_later.enqueue(invoice - 1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "tasks.py").write_text(MODULE)
    (package / "needs.py").write_text("import not_installed_anywhere\n")
    (package / "nothing.py").touch()
    (package / "unset.py").write_text("import os\n\naddress = os.environ['NOT_SET']\n")
    (package / "through.py").write_text("import shop.unset\n")
    (package / "wrong.py").write_text("number = int('seven')\n")
    (package / "typo.py").write_text("def f(:\n")
    (package / "address.py").write_text("from lonnymq import Queue\nqueue = Queue('nowhere')\n")
    return tmp_path


def run(folder: Path, dsn: str, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "lonnymq", "worker", *arguments],
        cwd=folder,
        env={**os.environ, "SHOP_DSN": dsn, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


@pytest.mark.parametrize(
    ("target", "sent"),
    [
        ("shop.tasks", ["sent 2"]),
        ("shop.tasks:app", ["sent 2"]),
        ("shop.tasks:other", ["sent later 2", "sent later 1", "sent later 0"]),
    ],
)
def test_until_empty_runs_an_app_until_nothing_is_due(
    folder: Path, dsn: str, target: str, sent: list[str]
) -> None:
    with Queue(dsn) as queue:
        queue.enqueue({"invoice": 2}, headers={"task": "send"})
        health = folder / "health.json"
        done = run(folder, dsn, target, "--until-empty", "--name", "me", "--health-file", str(health))
        assert (done.returncode, done.stdout.splitlines()) == (0, sent), done.stderr
        assert "me serves schema 'lonnymq' with concurrency 10 and leases of 30 s; tasks: " in done.stderr
        assert f"me stopped: {len(sent)} completed" in done.stderr
        assert queue.stats().waiting == 0
    state = json.loads(health.read_text())
    assert (state["status"], state["name"], state["outcomes"]) == ("stopped", "me", {"completed": len(sent)})
    assert sorted(folder.glob("*health*")) == [health], "no other file is left"


def test_until_empty_waits_for_messages_that_a_rate_limit_holds_back(folder: Path, dsn: str) -> None:
    with Queue(dsn) as queue:
        queue.channel("acme").set(release_interval=0.2)
        for invoice in range(3):
            queue.enqueue({"invoice": invoice}, channel="acme", headers={"task": "send"})
        done = run(folder, dsn, "shop.tasks", "--until-empty")
        assert (done.returncode, done.stdout.splitlines()) == (0, ["sent 0", "sent 1", "sent 2"]), done.stderr
        assert queue.stats().waiting == 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["shop.missing:app"], 2, "no module named 'shop.missing'"),
        (["missing"], 2, "no module named 'missing'"),
        (["shop.tasks:number"], 2, "shop.tasks:number is not an App (did you mean shop.tasks:app?)"),
        (["shop.tasks:nothing.there"], 2, "shop.tasks:nothing.there is not an App"),
        (["shop.nothing"], 2, "define one there: app = App(queue)"),
        ([":app"], 2, "does not name an app"),
        ([".app"], 2, "does not name an app"),
        (["shop.needs"], 1, "shop.needs cannot be imported: ModuleNotFoundError: No module named 'not"),
        (["shop.unset"], 1, "shop.unset cannot be imported: KeyError: 'NOT_SET' (see line 3 of "),
        (["shop.through"], 1, "shop/unset.py; --debug shows the traceback)"),
        (["shop.wrong"], 1, "shop.wrong cannot be imported: ValueError: invalid literal"),
        (["shop.typo"], 1, "SyntaxError: invalid syntax (typo.py, line 1) (--debug"),
        (["shop.address"], 1, "lonnymq: the address is not a valid PostgreSQL address"),
        ([], 2, "Missing argument"),
        (["shop.tasks", "--concurrency", "0"], 2, "--concurrency"),
        (["shop.tasks", "--lease", "0"], 2, "--lease"),
        (["shop.tasks", "--log-level", "loud"], 2, "'loud' is not one of debug, info"),
    ],
)
def test_wrong_use(folder: Path, dsn: str, arguments: list[str], code: int, says: str) -> None:
    done = run(folder, dsn, *arguments)
    assert done.returncode == code, done.stderr
    assert says in " ".join(done.stderr.split()), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("target", ["shop.tasks:app", "shop.tasks:other"])
def test_no_database(folder: Path, target: str) -> None:
    done = run(folder, "postgresql://someone:s3cret@127.0.0.1:1/db", target)
    assert done.returncode == 3, done.stderr
    assert "s3cret" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("target", ["shop.tasks:app", "shop.tasks:other"])
def test_no_schema(folder: Path, conn: psycopg.Connection, dsn: str, target: str) -> None:
    uninstall(conn, "lonnymq")
    done = run(folder, dsn, target)
    assert done.returncode == 4, done.stderr
    assert "lonnymq install" in done.stderr


def test_a_stuck_thread_does_not_keep_the_process_alive(folder: Path, dsn: str) -> None:
    with Queue(dsn) as queue:
        queue.enqueue({}, headers={"task": "hang"})
        done = run(folder, dsn, "shop.tasks", "--until-empty", timeout=30)
        assert (done.returncode, done.stdout) == (0, "left a thread behind\n"), done.stderr
        assert "1 completed" in done.stderr
        assert queue.stats().leased == 0


def test_help_has_an_example(folder: Path, dsn: str) -> None:
    done = run(folder, dsn, "--help")
    assert done.returncode == 0
    assert "lonnymq worker shop.tasks:app" in " ".join(done.stdout.split())
