"""The demo: twenty tenants, one of them noisy, and two workers on a temporary PostgreSQL server."""

from __future__ import annotations

import dataclasses
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from lonnymq.client.queue import Queue
from lonnymq.commands import ChannelStatistics
from lonnymq.demo.result import DemoResult, TenantResult, read_history, summarize
from lonnymq.demo.tenants import NOISY, TENANTS, DemoTenant
from lonnymq.demo.traffic import enqueue_backlogs, keep_enqueueing, keep_noisy
from lonnymq.demo.workers import Processes, check_workers, start_workers
from lonnymq.embedded import Server

__all__ = ["NOISY", "TENANTS", "DemoResult", "DemoTenant", "TenantResult", "live", "run", "temporary_server"]

WORKERS = 2
UPDATE_INTERVAL_S = 0.25
LIVE_HISTORY_S = 3600
LIVE_FAILING_RATE = 0.3

Traffic = TypeVar("Traffic")
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
            with _in_thread(keep_enqueueing, queue, tenants):
                _wait_until(lambda: not _has_largest_backlog(queue, tenants), queue, on_progress, workers)
            _wait_until(lambda: not _is_busy(queue), queue, on_progress, workers)
    return summarize(tenants, read_history(dsn))


@contextmanager
def live(dsn: str, tenants: Sequence[DemoTenant] = TENANTS) -> Iterator[Queue]:
    """While the block runs, the tenants go on enqueueing, one of them far too much, and workers serve
    them.
    """
    failing = [
        dataclasses.replace(tenant, failing_rate=LIVE_FAILING_RATE) if tenant.failing else tenant
        for tenant in tenants
    ]
    noisy = max(tenants, key=lambda tenant: tenant.backlog)
    with Queue(dsn) as queue:
        queue.install()
        queue.set(history=True, history_content=True, history_keep=LIVE_HISTORY_S)
        enqueue_backlogs(queue, tenants)
        with (
            start_workers(dsn, WORKERS, is_live=True),
            _in_thread(keep_enqueueing, queue, failing),
            _in_thread(keep_noisy, queue, noisy),
        ):
            yield queue


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
def _in_thread(
    work: Callable[[Queue, Traffic, threading.Event], None], queue: Queue, traffic: Traffic
) -> Iterator[None]:
    """While the block runs, a thread enqueues more messages of the tenants."""
    stop = threading.Event()
    producer = threading.Thread(target=work, args=(queue, traffic, stop))
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
