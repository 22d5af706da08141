"""The command `lonnymq worker`."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from lonnymq import Queue
from lonnymq.install import uninstall
from tests.cli.running import NOWHERE
from tests.cli.running import run as run_here

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
        await send_later.enqueue_async(invoice - 1)
"""


EMPTY = """
import os
from lonnymq import App, Queue

app = App(Queue(os.environ["SHOP_DSN"], timeout=2), include=os.environ.get("SHOP_INCLUDE", "").split())
"""
MAILS = """
from shop.empty import app

@app.task(lane="mail")
def send(invoice: int) -> None:
    print("mailed", invoice)
"""

LOGS = """
import logging, os
from lonnymq import App, Queue

app = App(Queue(os.environ["SHOP_DSN"], timeout=2))

@app.task(max_attempts=1)
def send(invoice: int) -> None:
    logging.getLogger("shop").info("sending %d", invoice, extra={"customer": "zoe"})
    if invoice == 0:
        raise ValueError("no such invoice")
"""
OWN_LOGS = """
import logging
logging.basicConfig(level=logging.INFO, format="MINE %(levelname)s %(message)s")
from shop.logs import app
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "tasks.py").write_text(MODULE)
    (package / "logs.py").write_text(LOGS)
    (package / "own_logs.py").write_text(OWN_LOGS)
    (package / "needs.py").write_text("import not_installed_anywhere\n")
    (package / "nothing.py").touch()
    (package / "unset.py").write_text("import os\n\naddress = os.environ['NOT_SET']\n")
    (package / "through.py").write_text("import shop.unset\n")
    (package / "wrong.py").write_text("number = int('seven')\n")
    (package / "typo.py").write_text("def f(:\n")
    (package / "empty.py").write_text(EMPTY)
    (package / "mails.py").write_text(MAILS)
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
        assert (
            "me serves all lanes of schema 'lonnymq' with concurrency 10 and leases of 30 s; tasks: "
            in done.stderr
        )
        assert f"me stopped: {len(sent)} completed" in done.stderr
        assert queue.stats().waiting == 0
    state = json.loads(health.read_text())
    assert (state["status"], state["name"], state["outcomes"]) == ("stopped", "me", {"completed": len(sent)})
    assert sorted(folder.glob("*health*")) == [health], "no other file is left"


@pytest.mark.slow
def test_until_empty_waits_for_messages_that_a_rate_limit_holds_back(folder: Path, dsn: str) -> None:
    with Queue(dsn) as queue:
        queue.channel("acme").set(rate="5/s")
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
        (["shop.tasks", "--lanes", "mail,,reports"], 2, "--lanes: 'mail,,reports' has an empty name"),
        (["shop.tasks", "--channel-share", "1.5"], 2, "--channel-share"),
        (["shop.empty"], 2, "the app has no tasks, so a worker would have nothing to run (name the modules"),
        (["shop.empty", "--include", "shop.male"], 2, "include: there is no module 'shop.male'"),
        (["shop.empty", "--include", "shop/mails"], 2, "include: 'shop/mails' does not name a module"),
        (["shop.empty", "--include", "shop.unset"], 1, "the app includes cannot be imported: KeyError: 'NOT"),
        (["shop.empty", "--include", "shop.typo"], 1, "invalid syntax (typo.py, line 1) (--debug"),
        (["shop.tasks", "--lease", "inf"], 2, "inf is not a duration"),
        (["shop.tasks", "--lanes", "x" * 300], 2, "lane: 'xxx"),
        (["shop.tasks", "--name", "x" * 300], 2, "is not a name (give a str of at most 255 bytes"),
        (["shop.tasks", "--metrics-port", "70000"], 2, "--metrics-port"),
        (["shop.tasks", "--metrics-port", "1", "--metrics-channels", "a,,b"], 2, "has an empty name"),
        (["shop.tasks", "--metrics-port", "1", "--metrics-host", "192.0.2.1"], 1, "could not open port 1 on"),
        (["shop.tasks", "--log-level", "loud"], 2, "'--log-level': 'loud' is not one of debug, info"),
        (["shop.tasks", "--log-format", "xml"], 2, "'--log-format': 'xml' is not one of text, json"),
    ],
)
def test_wrong_use(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, says: str
) -> None:
    """In this process, which then forgets the modules of the shop: starting 28 would take long."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.root, "level", logging.root.level)
    done = run_here("worker", *arguments, env={"SHOP_DSN": NOWHERE})
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]
    assert done.code == code, done.stderr
    assert says in done.said, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("target", "code"), [("shop.missing:app", 2), ("shop.unset", 1)])
def test_wrong_use_of_a_process(folder: Path, target: str, code: int) -> None:
    done = run(folder, NOWHERE, target)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", ["shop.tasks:app", pytest.param("shop.tasks:other", marks=pytest.mark.long)]
)
def test_no_database(folder: Path, target: str) -> None:
    done = run(folder, NOWHERE, target)
    assert done.returncode == 3, done.stderr
    assert "s3cret" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", [pytest.param("shop.tasks:app", marks=pytest.mark.long), "shop.tasks:other"]
)
def test_no_schema(folder: Path, conn: psycopg.Connection, dsn: str, target: str) -> None:
    uninstall(conn, "lonnymq")
    done = run(folder, dsn, target)
    assert done.returncode == 4, done.stderr
    assert "lonnymq install" in done.stderr


@pytest.mark.slow
def test_a_stuck_thread_does_not_keep_the_process_alive(folder: Path, dsn: str) -> None:
    with Queue(dsn) as queue:
        queue.enqueue({}, headers={"task": "hang"})
        done = run(folder, dsn, "shop.tasks", "--until-empty", timeout=30)
        assert (done.returncode, done.stdout) == (0, "left a thread behind\n"), done.stderr
        assert "1 completed" in done.stderr
        assert queue.stats().leased == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "variables"),
    [(["--include", "shop.nothing,shop.mails"], {}), ([], {"SHOP_INCLUDE": "shop.mails"})],
)
def test_modules_with_tasks_that_import_the_app(
    folder: Path, dsn: str, arguments: list[str], variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with Queue(dsn) as queue:
        queue.enqueue({"invoice": 2}, headers={"task": "send"})
    done = run(folder, dsn, "shop.empty", "--until-empty", *arguments)
    assert (done.returncode, done.stdout) == (0, "mailed 2\n"), done.stderr


@pytest.mark.slow
def test_lanes_and_a_share_of_the_slots(folder: Path, dsn: str) -> None:
    with Queue(dsn) as queue:
        for invoice, lane in enumerate(["default", "mail", "reports"]):
            queue.enqueue({"invoice": invoice}, headers={"task": "send"}, lane=lane)
        done = run(
            *(folder, dsn, "shop.tasks", "--until-empty"),
            *("--lanes", "mail, reports", "--channel-share", "0.5", "--concurrency", "1"),
        )
        assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["sent 1", "sent 2"]), done.stderr
        assert "serves the lanes mail, reports of schema 'lonnymq'" in done.stderr
        assert [message.lane for message in queue.messages()] == ["default"]


TRACE_ID = "0af7651916cd43dd8448eb211c80319c"


def enqueue_for_the_log(dsn: str) -> tuple[int, int]:
    with Queue(dsn) as queue:
        headers = {"task": "send", "traceparent": f"00-{TRACE_ID}-b7ad6b7169203331-01"}
        first = queue.enqueue({"invoice": 7}, channel="acme", headers=headers)
        second = queue.enqueue({"invoice": 0}, headers={"task": "send"}, max_attempts=1)
    assert first.id is not None
    assert second.id is not None
    return first.id, second.id


def test_the_log_as_json(folder: Path, dsn: str) -> None:
    """One object per line, with the fields of the message, also in what the handler itself logs."""
    first, second = enqueue_for_the_log(dsn)
    done = run(folder, dsn, "shop.logs", "--until-empty", "--log-format", "json", "--log-level", "debug")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    for line in lines:
        assert abs(datetime.fromisoformat(line["time"]) - datetime.now(UTC)) < timedelta(minutes=10)
    about_first = [line for line in lines if line.get("message_id") == first]
    fields = {"queue": "lonnymq", "lane": "default", "channel": "acme", "task": "send", "attempt": 1}
    for line in about_first:
        assert line.items() >= (fields | {"trace_id": TRACE_ID}).items()
    levels = [(line["level"], line["logger"], line.get("outcome")) for line in about_first]
    assert levels == [
        ("DEBUG", "lonnymq.worker.job", "started"),
        ("INFO", "shop", None),
        ("INFO", "lonnymq.worker.job", "completed"),
    ]
    assert about_first[1]["message"] == "sending 7"
    assert about_first[1]["customer"] == "zoe"
    assert about_first[2]["duration_ms"] >= 0
    [dead] = [line for line in lines if line["level"] == "ERROR"]
    assert (dead["message_id"], dead["outcome"], dead["trace_id"]) == (second, "dead", None)
    assert dead["exception"].splitlines()[-1] == "ValueError: no such invoice"
    assert "no such invoice" not in dead["message"]


@pytest.mark.slow
def test_the_log_as_text(folder: Path, dsn: str) -> None:
    first, second = enqueue_for_the_log(dsn)
    done = run(folder, dsn, "shop.logs", "--until-empty")
    assert done.returncode == 0, done.stderr
    assert f" INFO shop: sending 7 [send, message {first}, channel acme]\n" in done.stderr
    log, name = done.stderr, "lonnymq.worker.job"
    assert f" INFO {name}: send (message {first}, channel acme, attempt 1) completed in " in log
    assert f" ERROR {name}: send (message {second}, channel default, attempt 1) failed after " in log
    assert done.stderr.count("ValueError: no such invoice") == 1
    assert "started" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [pytest.param([], marks=pytest.mark.long), ["--log-format", "json", "--log-level", "debug"]],
)
def test_an_app_that_configures_logging_is_left_alone(folder: Path, dsn: str, arguments: list[str]) -> None:
    """Each record is written once, as the app wants it."""
    enqueue_for_the_log(dsn)
    done = run(folder, dsn, "shop.own_logs", "--until-empty", *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("MINE INFO sending 7\n") == done.stderr.count("sending 7") == 1
    assert done.stderr.count(" completed in ") == 1
    assert " started" not in done.stderr
    warned = "MINE WARNING --log-level and --log-format have no effect: the app configures logging\n"
    assert (warned in done.stderr) is bool(arguments)
