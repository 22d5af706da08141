"""Twenty tenants, one of them loud, served by real workers on a PostgreSQL made for it and removed after."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lonnymq.client.queue import Queue
from lonnymq.commands import ChannelStatistics
from lonnymq.demo.outcome import Outcome, Served, outcome, read
from lonnymq.demo.tenants import NOISY, TENANTS, Tenant
from lonnymq.demo.traffic import go_on, prepare
from lonnymq.demo.workers import Processes, check, workers
from lonnymq.embedded import Server

__all__ = ["NOISY", "TENANTS", "Outcome", "Served", "Tenant", "run", "temporary_server"]

WORKERS = 2
LOOK_S = 0.25

Watch = Callable[[list[ChannelStatistics]], object]


def run(dsn: str, tenants: Sequence[Tenant] = TENANTS, watch: Watch = len) -> Outcome:
    """Install, send, and have it served; `watch` is told four times a second how the channels stand."""
    with Queue(dsn) as queue:
        queue.install()
        queue.set(history=True)
        with workers(dsn, WORKERS) as running:
            prepare(queue, tenants)
            with _more(queue, tenants):
                _look_on(queue, watch, lambda: not _is_loud(queue, tenants), running)
            _look_on(queue, watch, lambda: not _is_busy(queue), running)
    return outcome(tenants, read(dsn))


def _is_loud(queue: Queue, tenants: Sequence[Tenant]) -> bool:
    """Whether the largest backlog is still there. Messages count from the first dispatch on."""
    largest = max(tenants, key=lambda tenant: tenant.backlog)
    stats = queue.channel(largest.channel).stats()
    return stats.served == 0 or stats.waiting > 0


def _is_busy(queue: Queue) -> bool:
    stats = queue.stats()
    return bool(stats.waiting or stats.leased or queue.messages(limit=1))


@contextmanager
def _more(queue: Queue, tenants: Sequence[Tenant]) -> Iterator[None]:
    """Beside the block, tenants go on sending."""
    over = threading.Event()
    sending = threading.Thread(target=go_on, args=(queue, tenants, over))
    sending.start()
    try:
        yield
    finally:
        over.set()
        sending.join()


def _look_on(queue: Queue, watch: Watch, is_over: Callable[[], bool], running: Processes) -> None:
    while not is_over():
        check(running)
        watch(queue.channels(limit=100))
        time.sleep(LOOK_S)
    watch(queue.channels(limit=100))


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
