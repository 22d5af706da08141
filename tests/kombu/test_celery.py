"""Celery on the transport: real workers, one of them killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lonnymq import Queue
from tests.kombu.test_transport import eventually

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def shop(dsn: str, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module with the app, as a web process has it."""
    conn.execute("CREATE TABLE public.started (id SERIAL, number INT)")
    conn.execute("CREATE TABLE public.finished (id SERIAL, number INT, tenant TEXT)")
    monkeypatch.setenv("SHOP_DSN", dsn)
    sys.modules.pop("tests.kombu.shop", None)
    import tests.kombu.shop

    yield tests.kombu.shop
    tests.kombu.shop.app.close()
    tests.kombu.shop.app.backend.close()


@contextmanager
def worker(folder: Path, name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {
        **os.environ,
        "PYTHONPATH": f"{CHECKOUT / 'src'}{os.pathsep}{CHECKOUT}",
        "C_FORCE_ROOT": "1",
    }
    command = [sys.executable, "-m", "celery", "-A", "tests.kombu.shop", "worker", "-n", name, "-c", "2"]
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            [*command, "-l", "info", *arguments],
            env=environment,
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.slow
def test_a_killed_worker_loses_nothing_and_tenants_share_fairly(
    shop: Any, conn: psycopg.Connection, dsn: str, tmp_path: Path
) -> None:
    def count(table: str) -> int:
        row = conn.execute(f"SELECT COUNT(*) FROM public.{table}").fetchone()
        return int(row[0]) if row else 0

    for number in range(40):
        shop.work.apply_async((number, 0.05), headers={"channel": "noisy"})
    for number in range(100, 103):
        shop.work.apply_async((number, 0.05), headers={"channel": "quiet"})
    with worker(tmp_path, "first") as process:
        eventually(lambda: count("finished") >= 8, 60)
        assert shop.app.control.inspect(timeout=5, limit=1).ping() == {"celery@first": {"ok": "pong"}}
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    # The quiet tenant came last, and did not wait for the noisy one.
    order = [row[0] for row in conn.execute("SELECT tenant FROM public.finished ORDER BY id").fetchall()]
    assert order[:8].count("quiet") == 3
    with worker(tmp_path, "second") as process, Queue(dsn) as queue:
        eventually(lambda: not queue.stats().waiting and not queue.stats().leased, 60)
        numbers = {row[0] for row in conn.execute("SELECT DISTINCT number FROM public.finished").fetchall()}
        assert numbers == {*range(40), *range(100, 103)}
        # Replies of remote control, results, a chord, subtasks of the same tenant, a countdown.
        assert shop.app.control.inspect(timeout=5, limit=1).ping() == {"celery@second": {"ok": "pong"}}
        begun_at = time.time()
        later = shop.double.apply_async((21,), countdown=1)
        assert shop.chord([shop.double.s(n) for n in range(3)])(shop.total.s()).get(timeout=30) == 6
        assert later.get(timeout=30) == 42
        assert time.time() - begun_at >= 1
        shop.spread.apply_async(([200, 201],), headers={"channel": "acme"})
        eventually(lambda: count("finished WHERE tenant = 'acme'") == 2, 30)
        # A warm shutdown gives back at once what has not started.
        for number in range(300, 308):
            shop.work.delay(number, 0.5)
        eventually(lambda: count("started WHERE number >= 300") >= 2, 30)
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        assert queue.stats().leased == 0
        assert count("started WHERE number >= 300") == count("finished WHERE number >= 300")
