"""The demo: twenty tenants, one of them noisy, and two workers on a temporary PostgreSQL server."""

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
from lonnymq.demo.result import DemoResult, TenantResult, read_history, summarize
from lonnymq.demo.tenants import NOISY, TENANTS, DemoTenant
from lonnymq.demo.traffic import enqueue_backlogs, keep_enqueueing
from lonnymq.demo.workers import Processes, check_workers, start_workers
from lonnymq.embedded import Server

__all__ = ["NOISY", "TENANTS", "DemoResult", "DemoTenant", "TenantResult", "run", "temporary_server"]

WORKERS = 2
UPDATE_INTERVAL_S = 0.25

OnProgress = Callable[[list[ChannelStatistics]], object]


def run(dsn: str, tenants: Sequence[DemoTenant] = TENANTS, on_progress: OnProgress = len) -> DemoResult:
    """Install a queue, enqueue the tenants' messages, and let workers handle them all.

    Calls `on_progress` four times per second with the statistics of the channels.
    """
    with Queue(dsn) as queue:
        queue.install()
        queue.set(history=True)
        with start_workers(dsn, WORKERS) as workers:
            enqueue_backlogs(queue, tenants)
            with _enqueueing(queue, tenants):
                _wait_until(lambda: not _has_largest_backlog(queue, tenants), queue, on_progress, workers)
            _wait_until(lambda: not _is_busy(queue), queue, on_progress, workers)
    return summarize(tenants, read_history(dsn))


def _has_largest_backlog(queue: Queue, tenants: Sequence[DemoTenant]) -> bool:
    """Whether the largest backlog is not worked off yet. Before the first dispatch nothing of it is
    counted.
    """
    largest = max(tenants, key=lambda tenant: tenant.backlog)
    stats = queue.channel(largest.channel).stats()
    return stats.served == 0 or stats.waiting > 0


def _is_busy(queue: Queue) -> bool:
    stats = queue.stats()
    return bool(stats.waiting or stats.leased or queue.messages(limit=1))


@contextmanager
def _enqueueing(queue: Queue, tenants: Sequence[DemoTenant]) -> Iterator[None]:
    """While the block runs, a thread enqueues more messages of the tenants."""
    stop = threading.Event()
    producer = threading.Thread(target=keep_enqueueing, args=(queue, tenants, stop))
    producer.start()
    try:
        yield
    finally:
        stop.set()
        producer.join()


def _wait_until(
    is_done: Callable[[], bool], queue: Queue, on_progress: OnProgress, workers: Processes
) -> None:
    while not is_done():
        check_workers(workers)
        on_progress(queue.channels(limit=100))
        time.sleep(UPDATE_INTERVAL_S)
    on_progress(queue.channels(limit=100))


@contextmanager
def temporary_server() -> Iterator[Server]:
    """A PostgreSQL server in a temporary folder. Removed completely, also after SIGTERM."""
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
