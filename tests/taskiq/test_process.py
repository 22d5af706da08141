"""A real `taskiq worker`, killed with SIGKILL in the middle of tasks."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from taskiq import AsyncTaskiqTask

from lonnymq import AsyncQueue, Queue
from lonnymq.install import install, uninstall
from lonnymq.taskiq import LonnyMQBroker, LonnyMQResultBackend
from tests.taskiq.serving import result_of
from tests.worker.processes import CHECKOUT, TIMEOUT_S, until

SHOP = "tests.taskiq.shop"
QUIET, NOISY = 10, 60


@contextmanager
def taskiq_worker(dsn: str, log: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "taskiq", "worker", f"{SHOP}:broker", "-w", "1", *options],
            cwd=CHECKOUT,
            env=os.environ | {"SHOP_DSN": dsn},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(TIMEOUT_S)


@pytest.mark.slow
def test_a_worker_waits_for_a_missing_schema(dsn: str, conn: psycopg.Connection, tmp_path: Path) -> None:
    async def send() -> None:
        async with AsyncQueue(dsn) as queue:
            work = LonnyMQBroker(queue).register_task(lambda n: n, f"{SHOP}:work")
            await work.kicker().with_labels(channel="acme").kiq(1)

    conn.execute("CREATE TABLE public.run (id SERIAL, channel TEXT, n INT)")
    uninstall(conn)
    log = tmp_path / "log"
    with taskiq_worker(dsn, log) as process:
        until(lambda: "run `lonnymq install`" in log.read_text(), "the worker to say what is missing")
        install(conn)
        asyncio.run(send())
        until(lambda: conn.execute("SELECT n FROM public.run").fetchone(), "the task to run")
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0
    text = log.read_text()
    assert text.count("run `lonnymq install`") == 1
    assert "Traceback" not in text
    assert "is dead" not in text, "taskiq says so before it starts a process again"


@pytest.mark.slow
def test_nothing_is_lost_and_tenants_take_turns(dsn: str, conn: psycopg.Connection, tmp_path: Path) -> None:
    conn.execute("CREATE TABLE public.run (id SERIAL, channel TEXT, n INT)")

    def ran(channel: str) -> list[int]:
        found = conn.execute("SELECT n FROM public.run WHERE channel = %s ORDER BY id", (channel,))
        return [n for (n,) in found]

    async def send() -> list[Any]:
        async with AsyncQueue(dsn) as queue:
            broker = LonnyMQBroker(queue)
            work = broker.register_task(lambda n: n, f"{SHOP}:work")
            hang = broker.register_task(lambda n: n, f"{SHOP}:hang_once")
            hanging = [await hang.kicker().with_labels(channel="hangs").kiq(n) for n in range(2)]
            for n in range(NOISY):
                await work.kicker().with_labels(channel="noisy").kiq(n)
            for n in range(QUIET):
                await work.kicker().with_labels(channel="quiet").kiq(n)
            return [each.task_id for each in hanging]

    async def results(task_ids: list[str]) -> list[Any]:
        async with AsyncQueue(dsn) as queue:
            backend: LonnyMQResultBackend[Any] = LonnyMQResultBackend(queue)
            found = [await result_of(AsyncTaskiqTask(task_id, backend)) for task_id in task_ids]
            return [each.return_value for each in found]

    task_ids = asyncio.run(send())
    with Queue(dsn) as queue:
        queue.channel("noisy").set(paused=True)
        queue.channel("quiet").set(paused=True)
        with taskiq_worker(dsn, tmp_path / "first", "--max-async-tasks", "2"):
            until(lambda: len(ran("hangs")) == 2, "both to hang")
        assert sorted(ran("hangs")) == [0, 1]
        queue.channel("noisy").set(paused=False)
        queue.channel("quiet").set(paused=False)
        with taskiq_worker(dsn, tmp_path / "second", "--max-async-tasks", "1") as second:
            assert asyncio.run(results(task_ids)) == [0, 1]
            until(lambda: not queue.stats().waiting and not queue.stats().leased, "all to be done")
            second.send_signal(signal.SIGTERM)
            assert second.wait(TIMEOUT_S) == 0
        assert sorted(ran("hangs")) == [0, 0, 1, 1], "each of them again, and once"
        assert sorted(ran("noisy")) == list(range(NOISY))
        assert ran("quiet") == list(range(QUIET))
        assert queue.dead.list() == []
        before = conn.execute(
            "SELECT COUNT(*) FROM public.run WHERE channel = 'noisy' AND id < ("
            " SELECT MAX(id) FROM public.run WHERE channel = 'quiet')"
        ).fetchone()
        assert before is not None
        assert before[0] <= QUIET + 5, "a tenant with a backlog is served once for each time of the other"
