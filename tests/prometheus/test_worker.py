"""The metrics that a worker exports over HTTP."""

import asyncio
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from prometheus_client import CollectorRegistry
from psycopg.conninfo import make_conninfo

from lonnymq import App, AsyncQueue, NewMessage, Queue, Worker
from lonnymq.errors import InvalidArgument, MetricsPortUnavailable
from lonnymq.install import install, uninstall
from lonnymq.prometheus import instrument
from tests.database import unique_name
from tests.prometheus.scrape import Samples, collected, names, scrape, value
from tests.worker.processes import TIMEOUT_S
from tests.worker.processes import until as wait_until
from tests.worker.serving import serving, until

MODULE = """
import os
from lonnymq import App, Queue

app = App(Queue(os.environ["SHOP_DSN"], timeout=5))

@app.task()
def work() -> None: ...
"""


def port_of(worker: Worker) -> int:
    assert worker._metrics is not None
    return worker._metrics.port


async def scraped(worker: Worker) -> Samples:
    return await asyncio.to_thread(scrape, port_of(worker))


def test_what_became_of_messages(dsn: str) -> None:
    async def main() -> Samples:
        async with AsyncQueue(dsn) as queue:
            app = App(queue)

            @app.task(lane="mail")
            async def good() -> None:
                await more.enqueue_async()

            @app.task(max_attempts=2, backoff=0)
            def bad() -> None:
                raise ValueError

            @app.task
            def more() -> None: ...

            @app.consume
            def raw(_: object) -> None: ...

            async with serving(app, metrics_port=0, concurrency=7) as worker:
                await until(lambda: worker._metrics)
                await good.enqueue_async()
                await bad.enqueue_async()
                await queue.enqueue_many([NewMessage(n, lane="raw") for n in range(3)])
                await queue.enqueue(1, headers={"task": "nobody's"})
                while True:
                    found = await scraped(worker)
                    if value(found, "lonnymq_dead_total", task="bad", lane="default") and (
                        sum(each for (name, _), each in found.items() if name == "lonnymq_completed_total")
                        == 5
                    ):
                        return found
            raise AssertionError

    found = asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))

    def total(name: str, task: str, lane: str = "default") -> float | None:
        return value(found, f"lonnymq_{name}_total", task=task, lane=lane)

    for name in ("created", "completed"):
        assert [total(name, "good", "mail"), total(name, "more"), total(name, "", "raw")] == [1, 1, 3]
    assert [total("retried", "bad"), total("dead", "bad"), total("completed", "bad")] == [1, 1, None]
    process = "lonnymq_process_seconds_count"
    assert value(found, process, task="good", outcome="completed") == 1
    assert value(found, process, task="bad", outcome="dead") == 1
    assert value(found, process, task="unknown", outcome="rejected") is None  # no handler started
    assert value(found, "lonnymq_wait_seconds_count", lane="raw") == 3
    assert value(found, "lonnymq_wait_seconds_count", lane="default") == 3
    assert (value(found, "lonnymq_dispatch_seconds_count") or 0) > 0
    assert value(found, "lonnymq_worker_capacity") == 7
    assert value(found, "lonnymq_worker_up") == 1
    assert value(found, "lonnymq_queue_readable") == 1
    assert not any(name.endswith("_created") or "channel_" in name for name in names(found))


def test_slots_and_waits(dsn: str) -> None:
    async def main() -> None:
        async with AsyncQueue(dsn) as queue:
            app = App(queue)
            go_on = threading.Event()

            @app.task
            def wait() -> None:
                go_on.wait(TIMEOUT_S)

            await wait.enqueue_async()
            await asyncio.sleep(0.06)  # it waits for a worker
            async with serving(app, metrics_port=0, concurrency=2) as worker:
                await until(lambda: worker._session and worker._session._messages._running)
                found = await scraped(worker)
                assert value(found, "lonnymq_worker_running") == 1
                assert (value(found, "lonnymq_wait_seconds_sum", lane="default") or 0) >= 0.06
                assert value(found, "lonnymq_process_seconds_count", task="wait", outcome="completed") is None
                worker.stop()
                assert value(await scraped(worker), "lonnymq_worker_up") == 0
                go_on.set()
            assert worker._metrics is None
            assert queue.observers == ()

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))


@pytest.fixture
def consumer(dsn: str, conn: psycopg.Connection) -> Iterator[Queue]:
    """A queue, with a login that may consume and nothing else."""
    schema, login = unique_name("q"), unique_name("login")
    install(conn, schema, roles=True)
    conn.execute(f"CREATE ROLE {login} LOGIN PASSWORD '{login}'".encode())
    conn.execute(f"GRANT {schema}_consumer TO {login}".encode())
    with Queue(make_conninfo(dsn, user=login, password=login), schema) as queue:
        yield queue
    uninstall(conn, schema)
    conn.execute(f"DROP ROLE {login}".encode())


def test_a_login_that_may_not_read_the_queue(consumer: Queue, caplog: pytest.LogCaptureFixture) -> None:
    app = App(consumer)

    @app.task
    def work() -> None: ...

    async def main() -> Samples:
        async with serving(app, metrics_port=0) as worker:
            await until(lambda: worker._session)
            await scraped(worker)
            return await scraped(worker)

    with caplog.at_level(logging.WARNING, "lonnymq.metrics"):
        found = asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))
    assert value(found, "lonnymq_queue_readable") == 0
    assert value(found, "lonnymq_worker_up") == 1
    assert "lonnymq_messages" not in names(found)
    (record,) = [each for each in caplog.records if each.name == "lonnymq.metrics"]
    assert f'GRANT "{consumer.schema}_observer"' in record.getMessage()


def test_what_cannot_be_exported(dsn: str) -> None:
    with Queue(dsn) as queue, socket.socket() as taken:
        app = App(queue)

        @app.task
        def work() -> None: ...

        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(MetricsPortUnavailable, match=f"could not open port {port} on ") as raised:
            asyncio.run(Worker(app, metrics_port=port).serve(until_empty=True))
        assert raised.value.hint == "choose another port, or stop the program that uses it"
        with pytest.raises(InvalidArgument, match="metrics_port: 70000 is not a port"):
            Worker(app, metrics_port=70_000)
        with pytest.raises(InvalidArgument, match="metrics_channels: 0 is not"):
            Worker(app, metrics_port=1, metrics_channels=0)


def test_without_the_library() -> None:
    code = (
        "import sys\nsys.modules['prometheus_client'] = None\n"
        "from lonnymq import App, Queue, Worker\n"
        "app = App(Queue('postgresql://'))\nWorker(app)\n"
        "try:\n    Worker(app, metrics_port=1)\n"
        "except ImportError as error:\n    print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "MissingExtra metrics need prometheus-client (pip install 'lonnymq[prometheus]')\n"


def test_a_program_that_only_enqueues(dsn: str) -> None:
    registry = CollectorRegistry()
    with Queue(dsn) as queue:
        instrument(queue, registry)
        queue.enqueue(1, lane="slow", dedupe_key="a")
        queue.enqueue(1, lane="slow", dedupe_key="a")  # a duplicate is not created
        queue.dispatch()
    found = collected(registry)
    assert value(found, "lonnymq_created_total", task="", lane="slow") == 1
    assert (value(found, "lonnymq_dispatch_seconds_count") or 0) > 0


def free_ports() -> int:
    """The first of two ports that are free now."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


def test_worker_processes(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(MODULE)
    port = free_ports()
    arguments = ["--processes", "2", "--metrics-port", str(port), "--metrics-channels", "1"]
    log = tmp_path / "log"
    with Queue(dsn) as queue, log.open("wb") as output:
        queue.enqueue_many(range(5), channel="acme")
        queue.dispatch()
        queue.channel("acme").set(paused=True)
        parent = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "lonnymq", "worker", "shop", *arguments],
            cwd=tmp_path,
            env=os.environ | {"SHOP_DSN": dsn},
            stdout=output,
            stderr=output,
        )
        try:
            wait_until(lambda: log.read_text().count(" serves ") == 2, "two workers to serve")
            first, second = scrape(port), scrape(port + 1)
        finally:
            parent.terminate()
            assert parent.wait(TIMEOUT_S) == 0, log.read_text()
    assert value(first, "lonnymq_worker_up") == value(second, "lonnymq_worker_up") == 1
    assert value(first, "lonnymq_messages", state="due", lane="default") == 5
    assert value(first, "lonnymq_channel_messages", channel="acme", state="due") == 5
    assert "lonnymq_messages" not in names(second)
    assert f"metrics are at http://127.0.0.1:{port + 1}/metrics" in log.read_text()
