"""Three tenants, one of them loud, on a PostgreSQL that is made for the demo and removed after it."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from lonnymq.demo.outcome import Outcome, Served, outcome
from lonnymq.demo.service import Record, consume
from lonnymq.demo.tenants import TENANTS, Tenant, send
from lonnymq.embedded import Server
from lonnymq.install import install

__all__ = ["TENANTS", "Outcome", "Served", "Tenant", "run", "temporary_server"]

CONSUMERS = 2
SCHEMA = "lonnymq"
TICK_S = 0.1


def run(
    dsn: str, tenants: Sequence[Tenant] = TENANTS, watch: Callable[[Record], None] | None = None
) -> Outcome:
    """Install, send, serve; `watch` is called every tenth of a second with what was served so far."""
    record = Record(total=sum(tenant.messages for tenant in tenants))
    with _connect(dsn) as conn:
        install(conn, SCHEMA)
        conn.execute("SELECT queue_set(p_history => TRUE)")
        send(conn, tenants)
        began = time.monotonic()
        _serve_all(dsn, record, watch or (lambda _: None))
        return outcome(tenants, record, time.monotonic() - began)


def _serve_all(dsn: str, record: Record, watch: Callable[[Record], None]) -> None:
    def serve(name: str) -> None:
        try:
            with _connect(dsn) as conn:
                consume(conn, name, record)
        except BaseException:
            record.stop.set()
            raise

    with ThreadPoolExecutor(CONSUMERS) as pool:
        try:
            running = [pool.submit(serve, f"consumer {number + 1}") for number in range(CONSUMERS)]
            while wait(running, TICK_S).not_done:
                watch(record)
            for consumer in running:
                consumer.result()
            watch(record)
        finally:
            record.stop.set()


def _connect(dsn: str) -> psycopg.Connection[Any]:
    return psycopg.connect(dsn, autocommit=True, options=f"-c search_path={SCHEMA}")


@contextmanager
def temporary_server() -> Iterator[Server]:
    """A PostgreSQL in a temporary folder. Nothing of it is left, also when the process is told to end."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    folder = Path(tempfile.mkdtemp(prefix="lonnymq-demo-"))
    server = Server(folder, settings={"fsync": "off"})
    try:
        with server:
            yield server
    finally:
        server.erase()
        shutil.rmtree(folder, ignore_errors=True)
        signal.signal(signal.SIGTERM, before)
