"""lonnymq top, on a terminal and without one."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import psycopg
import pytest
from psycopg import sql

from lonnymq import NewMessage, Queue
from lonnymq.cli.top.screen import PollThread
from lonnymq.monitor.poll import PAGE, Focus, Poller
from tests.cli.conftest import Login, Run
from tests.cli.running import NOWHERE, environment
from tests.cli.terminal import TIMEOUT_S, Terminal
from tests.database import AnyServer

OFTEN = ("--interval", "0.1")
DOWN, PAGE_DOWN, END, ESCAPE = "\x1b[B", "\x1b[6~", "\x1b[F", "\x1b"


@contextmanager
def consuming(queue: Queue, wanted: Callable[[str], bool] = lambda _: True) -> Iterator[None]:
    """A consumer that runs during the block."""
    is_over = threading.Event()

    def consume() -> None:
        while not is_over.wait(0.01):
            for message in queue.dequeue(4):
                if wanted(message.channel):
                    queue.complete(message)

    thread = threading.Thread(target=consume)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def fill(queue: Queue, channels: int, each: int = 1) -> None:
    queue.enqueue_many(NewMessage(n, channel=f"tenant-{n % channels:04}") for n in range(channels * each))


def last_query_at(conn: psycopg.Connection) -> datetime:
    """When the last query of a program began."""
    found = conn.execute(
        "SELECT max(query_start) FROM pg_stat_activity"
        " WHERE application_name = 'lonnymq' AND datname = current_database()"
    ).fetchone()
    assert found is not None
    at: datetime = found[0]
    return at


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def row(terminal: Terminal, name: str) -> list[str]:
    return next((line.split() for line in terminal.shown if line.startswith(name)), [])


def test_a_noisy_tenant_gets_its_share_and_no_more(queue: Queue, dsn: str) -> None:
    queue.enqueue_many(range(4000), channel="noisy")
    for n in range(3):
        queue.enqueue_many(range(900), channel=f"quiet-{n}")
    queue.enqueue("paused", channel="paused")
    queue.channel("paused").set(paused=True)
    with consuming(queue), Terminal("top", *OFTEN, dsn=dsn, columns=120) as terminal:
        terminal.until_shown("4 compete", "noisy", "1.0x")
        terminal.until(lambda: "25.0%" in terminal.shown[2])
        assert row(terminal, "noisy")[-1] == "noisy"
        assert row(terminal, "quiet-0")[-1] == "ready"
        assert row(terminal, "paused")[-1] == "paused"
        assert terminal.shown[4].startswith("noisy")
        terminal.press("q")
        assert terminal.end() == 0


def test_keys(queue: Queue, dsn: str, conn: psycopg.Connection) -> None:
    fill(queue, 60)
    queue.enqueue_many(range(3), channel="acme")
    with Terminal("top", *OFTEN, dsn=dsn) as terminal:
        terminal.until_shown("sorted by waiting", "1-19 of 61")
        assert terminal.shown[4].startswith("acme")
        terminal.press("n")
        terminal.until_shown("sorted by name")
        terminal.press(DOWN)
        terminal.until(lambda: terminal.shown[4].startswith("tenant-0000"))
        terminal.press(PAGE_DOWN)
        terminal.until(lambda: terminal.shown[4].startswith("tenant-0019"))
        terminal.press(END)
        terminal.until_shown("43-61 of 61", "tenant-0059")
        terminal.press("s")
        terminal.until_shown("sorted by waiting", "1-19 of 61")
        terminal.press("/tenant-003\r")
        terminal.until_shown('1-10 of 10 starting with "tenant-003"')
        assert "acme" not in terminal.text
        terminal.press(ESCAPE)
        terminal.until_shown("1-19 of 61")
        terminal.press("?")
        terminal.until_shown("arrows, PgUp, PgDn", "sort by: w waiting")
        terminal.press("?")
        terminal.press("p")
        terminal.until_shown("DISPLAY PAUSED")
        queue.enqueue("new", channel="brand-new")
        enqueued_at = last_query_at(conn)
        terminal.until(lambda: last_query_at(conn) > enqueued_at + timedelta(seconds=0.5))
        terminal.press("n")
        terminal.until_shown("sorted by name")
        assert "brand-new" not in terminal.text
        terminal.press("p")
        terminal.until_shown("brand-new")
        terminal.press("q")
        assert terminal.end() == 0


def test_ten_thousand_channels(queue: Queue, dsn: str) -> None:
    """The important channels are shown at once, and so are those that a filter selects."""
    fill(queue, 10_000)
    queue.enqueue_many(range(500), channel="zz-noisy")
    with consuming(queue), Terminal("top", dsn=dsn) as terminal:
        terminal.until_shown("zz-noisy", "so far")
        assert terminal.shown[4].startswith("zz-noisy")
        terminal.press("/tenant-987\r")
        terminal.until_shown("tenant-9870", "1-10 of 10")
        terminal.press(ESCAPE)
        terminal.until_shown("zz-noisy")
        terminal.press(PAGE_DOWN)
        terminal.until_shown("20-38 of ")
        terminal.press("q")
        assert terminal.end() == 0


def test_the_window_grows(queue: Queue, dsn: str) -> None:
    fill(queue, 60)
    with Terminal("top", *OFTEN, dsn=dsn) as terminal:
        terminal.until_shown("1-19 of 60")
        assert "share" not in terminal.text
        terminal.resize(130, 40)
        terminal.until_shown("1-35 of 60", "share")
        terminal.resize(60, 10)
        terminal.until_shown("1-5 of 60")
        terminal.press("q")
        assert terminal.end() == 0


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), pytest.param(signal.SIGHUP, 129, marks=pytest.mark.long), (None, 130)],
    ids=str,
)
def test_the_terminal_is_restored(dsn: str, number: signal.Signals | None, code: int) -> None:
    with Terminal("top", *OFTEN, dsn=dsn) as terminal:
        terminal.until_shown("no channels")
        assert terminal.modes() != terminal.before
        if number is None:
            terminal.press("\x03")
        else:
            terminal.signal(number)
        assert terminal.end() == code
        assert "Traceback" not in terminal.raw


def test_the_terminal_is_restored_after_a_failure(conn: psycopg.Connection, dsn: str) -> None:
    with Terminal("top", *OFTEN, dsn=dsn) as terminal:
        terminal.until_shown("no channels")
        conn.execute("DROP SCHEMA lonnymq CASCADE")
        assert terminal.end() in {1, 4}
        last = terminal.raw.rpartition("\x1b[?1049l")[2]
        assert "lonnymq: " in last
        assert "Traceback" not in last


@contextmanager
def unreachable(dsn: str, server: AnyServer) -> Iterator[None]:
    """All connections to the database are closed, and new ones refused."""
    name = str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"])
    allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as admin:
        admin.execute(allow.format(sql.Identifier(name), sql.Literal("false")))
        try:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            yield
        finally:
            admin.execute(allow.format(sql.Identifier(name), sql.Literal("true")))


@pytest.mark.slow
def test_an_outage_of_the_database(queue: Queue, dsn: str, server: AnyServer) -> None:
    queue.enqueue("first", channel="acme")
    with (
        Terminal("top", *OFTEN, dsn=dsn) as terminal,
        Terminal("top", *OFTEN, dsn=dsn) as impatient,
        printing_json(dsn) as process,
    ):
        terminal.until_shown("acme")
        impatient.until_shown("acme")
        lines(process, 1)
        with unreachable(dsn, server):
            terminal.until(lambda: terminal.shown[2].startswith("The database "))
            assert row(terminal, "acme")
            impatient.press("q")
            assert impatient.end() == 0
        back_at = time.time() * 1000
        terminal.until(lambda: terminal.shown[2].startswith("1 channel"))
        terminal.press("q")
        assert terminal.end() == 0
        while lines(process, 1)[0]["at"] < back_at:
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143
        assert process.stderr is not None
        noted = process.stderr.read().decode().splitlines()
        assert all(line.startswith("The database is unreachable, retrying: ") for line in noted), noted


def test_the_screen_reports_an_outage(dsn: str, server: AnyServer) -> None:
    with Queue(dsn, listen=False, timeout=0.5) as queue:
        polling = PollThread(Poller(queue, 0.1), 0.1)
        with polling.running():
            wait_until(lambda: polling.snapshot is not None)
            assert polling.trouble() == ""
            with unreachable(dsn, server):
                wait_until(lambda: polling.trouble().startswith("The database has been unreachable for "))
                assert "retrying: " in polling.trouble()
                assert polling.failure is None
            wait_until(lambda: polling.trouble() == "")


def test_a_database_that_does_not_answer(
    queue: Queue, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lonnymq.cli.top.screen.SLOW_ANSWER_S", 0.1)
    polling = PollThread(Poller(queue, 0.1), 0.1)
    with polling.running():
        wait_until(lambda: polling.snapshot is not None)
        with conn.transaction():
            conn.execute("LOCK TABLE queue")
            wait_until(lambda: polling.trouble().startswith("The database has not answered for "))
        wait_until(lambda: polling.trouble() == "")


def test_no_database_to_begin_with() -> None:
    with Terminal("top", dsn=NOWHERE) as terminal:
        assert terminal.end() == 3
        assert "\x1b[?1049h" not in terminal.raw
        assert "cret" not in terminal.raw


def test_no_schema_to_begin_with(dsn: str) -> None:
    with Terminal("top", "--schema", "nowhere", dsn=dsn) as terminal:
        assert terminal.end() == 4
        assert "LonnyMQ is not installed in schema" in " ".join(terminal.raw.split())


def test_once(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue_many(range(40), channel="acme")
    queue.enqueue("one", channel="bluebird")
    with consuming(queue):
        done = lonnymq("top", "--once", *OFTEN)
    whole, fair, head, *rows = done.stdout.splitlines()
    assert done.code == 0
    assert whole.startswith("waiting ")
    assert fair.startswith("2 channels")
    assert head.split() == [
        "channel", "served/s", "share", "entitled", "fair", "waiting", "due", "leased", "dead", "oldest",
        "state",
    ]  # fmt: skip
    assert [line.split()[0] for line in rows] == ["acme", "bluebird"]
    without_terminal = lonnymq("top", *OFTEN, "--sort", "name", "--limit", "1", "--channel", "b")
    assert without_terminal.stdout.splitlines()[3].startswith("bluebird")
    limited = lonnymq("top", *OFTEN, "--limit", "1")
    assert (len(limited.stdout.splitlines()), limited.stderr) == (4, "1 of 2 channels; --limit shows more.\n")


def test_once_on_a_terminal(queue: Queue, dsn: str) -> None:
    queue.enqueue("one", channel="acme")
    with Terminal("top", "--once", *OFTEN, dsn=dsn) as terminal:
        assert terminal.end() == 0
        assert "acme" in terminal.raw
        assert "\x1b[?1049h" not in terminal.raw


def test_an_empty_queue(lonnymq: Run) -> None:
    done = lonnymq("top", "--once", *OFTEN)
    assert (done.code, done.stderr) == (0, "There are no channels.\n")


def test_json(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue_many(range(1200), channel="acme")
    queue.enqueue("one", channel="bluebird")
    with consuming(queue):
        record = lonnymq("top", "--json", "--once", "--interval", "0.3").record
    assert (record["channels_known"], record["is_complete"]) == (2, True)
    acme, bluebird = record["channels"]
    assert (acme["channel"], bluebird["channel"]) == ("acme", "bluebird")
    assert acme["rate"] > 0
    assert 0 < acme["share"] <= 1
    assert record["fair_rate"] > 0
    assert record["queue"]["waiting"] > 0
    assert (record["jain"], record["noisy"], acme["is_noisy"]) == (1, [], False)  # nobody else waits any more


@contextmanager
def printing_json(dsn: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-W", "error", "-m", "lonnymq", "top", "--json", *OFTEN]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=environment(dsn),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(process: subprocess.Popen[bytes], number: int) -> list[dict[str, Any]]:
    assert process.stdout is not None
    return [json.loads(process.stdout.readline()) for _ in range(number)]


def test_json_continues_until_a_signal(queue: Queue, dsn: str) -> None:
    queue.enqueue("one", channel="acme")
    with printing_json(dsn) as process:
        records = lines(process, 3)
        assert [record["channels"][0]["channel"] for record in records] == ["acme"] * 3
        assert records[0]["rate"] is None
        assert records[2]["at"] > records[0]["at"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_wrong_use(lonnymq: Run) -> None:
    for arguments in (["--interval", "0"], ["--interval", "1e15"], ["--sort", "size"], ["--limit", "0"]):
        done = lonnymq("top", "--once", *arguments)
        assert (done.code, done.stdout, arguments[0] in done.said) == (2, "", True)


def test_each_poll_reads_a_page_and_the_next_continues(queue: Queue) -> None:
    """With a clock by which each poll takes too long to read a second page."""
    size = PAGE * 2 + 100
    fill(queue, size, each=2)
    queue.enqueue_many(range(50), channel="zz-noisy")
    poller = Poller(queue, 1.0, clock=count(1.0).__next__)
    first = poller.poll()
    assert "zz-noisy" in first.channels
    assert not first.is_complete
    assert len(first.channels) < size
    assert f"tenant-{size - 1:04}" not in first.channels
    found = poller.poll(Focus(prefix=f"tenant-{size - 50:04}"[:-1]))
    assert f"tenant-{size - 50:04}" in found.channels
    third = poller.poll()
    assert (third.is_complete, third.polls_per_pass, len(third.channels)) == (True, 3, size + 1)
    shown = [f"tenant-{n:04}" for n in range(PAGE * 2, PAGE * 2 + 3)]
    fourth = poller.poll(Focus(shown))
    assert {fourth.channels[name].history.samples[-1].poll for name in shown} == {4}
    quick = Poller(queue, 1.0, clock=lambda: 0.0).poll()
    assert (quick.is_complete, quick.polls_per_pass, len(quick.channels)) == (True, 1, size + 1)


def test_a_deleted_channel_goes(queue: Queue) -> None:
    fill(queue, 3)
    poller = Poller(queue, 1.0)
    assert len(poller.poll().channels) == 3
    queue.channel("tenant-0001").delete(with_messages=True)
    assert list(poller.poll().channels) == ["tenant-0000", "tenant-0002"]


def test_a_login_that_is_bound_to_channels_sees_only_these(
    login: Login, schema: str, conn: psycopg.Connection, lonnymq: Run
) -> None:
    address = login(f"{schema}_observer", f"{schema}_producer")
    conn.execute(f'SET search_path TO "{schema}"'.encode())
    name = psycopg.conninfo.conninfo_to_dict(address)["user"]
    conn.execute("SELECT credential_bind(%s, ARRAY['mine'])", [name])
    conn.execute("SELECT message_create('theirs', 'x')")
    record = lonnymq("top", "--once", "--json", *OFTEN, "--schema", schema, "--dsn", address).record
    assert (record["queue"], [one["channel"] for one in record["channels"]]) == (None, ["mine"])
    assert lonnymq("top", "--once", *OFTEN, "--schema", schema, "--dsn", address).code == 0
