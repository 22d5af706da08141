"""The worker: leases messages, runs their handlers and finishes them, until it is stopped."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.times import milliseconds, waiting
from lonnymq.errors import InvalidArgument
from lonnymq.message_options import Duration
from lonnymq.worker.app import App
from lonnymq.worker.session import WorkerSession
from lonnymq.worker.threads import INTERRUPT_TIMEOUT_S
from lonnymq.worker.worker_settings import (
    UNKNOWN_TASK_TIMEOUT_S,
    OnResult,
    WorkerSettings,
    consumer_name,
    lanes_to_serve,
    metrics_settings,
)

if TYPE_CHECKING:
    from lonnymq.prometheus.server import MetricsServer

CONNECT_TIMEOUT_S = 5  # then the worker reports that the database is unavailable
EXIT_CODE_FORCED = 130  # of a worker that was stopped at once, by a second signal or by force


class Worker:
    """Runs the tasks of an app, up to `concurrency` at a time.

    Each message is under a `lease` (by default the queue's setting), which is extended while its handler
    runs. If this process dies, other workers get the message when the lease ends. `prefetch` says how many
    seconds' worth of messages may be leased beyond what runs. It serves all lanes, or only the given
    `lanes`. With a `channel_share` of 0.5, messages of one channel occupy at most half of the `concurrency`,
    and at least one. A worker that is stopped leases no more messages, and gives running handlers
    `shutdown_timeout` to finish; `job.should_stop` tells them. Those that do not are interrupted, and their
    messages are released, which uses up no attempt. `name` is shown as the consumer. The `health_file`, if
    given, is rewritten every two seconds. `on_result` is called after each attempt with the message and the
    exception that the handler raised, or None.

    A message of a task that the app does not have goes back for other workers, again and again. When nobody
    has handled it for `unknown_task_timeout`, it becomes a dead letter; None: never.

    With a `metrics_port`, it serves metrics for Prometheus at that port of `metrics_host`; 0 chooses a free
    port, which the log names. With `metrics_channels`, the channels of these names have metrics of their own,
    or this many of the loudest ones. Without `queue_metrics`, the numbers of the whole queue are left out:
    one worker that exports them is enough.

        Worker(app, concurrency=20).run()
    """

    def __init__(
        self,
        app: App,
        *,
        concurrency: int = 10,
        lanes: Iterable[str] | None = None,
        channel_share: float | None = None,
        lease: Duration | None = None,
        prefetch: Duration = 0.1,
        shutdown_timeout: Duration = 25,
        name: str | None = None,
        health_file: str | os.PathLike[str] | None = None,
        on_result: OnResult | None = None,
        unknown_task_timeout: Duration | None = UNKNOWN_TASK_TIMEOUT_S,
        metrics_port: int | None = None,
        metrics_host: str = "127.0.0.1",
        metrics_channels: int | Iterable[str] | None = None,
        queue_metrics: bool = True,
    ) -> None:
        if not isinstance(app, App):
            raise InvalidArgument(f"a {type(app).__name__} is not an App", "give the App with your tasks")
        if type(concurrency) is not int or concurrency < 1:
            raise InvalidArgument(
                f"concurrency: {concurrency!r} is not a whole number of 1 or more", "give an int, such as 10"
            )
        if lease is not None and milliseconds(lease) <= 0:
            raise InvalidArgument(f"lease: {lease!r} is not a positive duration", "give more than 0 seconds")
        if channel_share is not None and (
            type(channel_share) not in {int, float} or not 0 < channel_share <= 1
        ):
            raise InvalidArgument(
                f"channel_share: {channel_share!r} is not a share above 0 and up to 1",
                "give a number, such as 0.5",
            )
        if health_file is not None and Path(health_file).is_dir():
            raise InvalidArgument(f"health_file: {str(health_file)!r} is a folder", "name a file in it")
        self._settings = WorkerSettings(
            app,
            concurrency,
            None if lease is None else milliseconds(lease) / 1000,
            waiting(prefetch) / 1000,
            waiting(shutdown_timeout) / 1000,
            None if health_file is None else Path(health_file),
            on_result,
            consumer_name(name),
            lanes_to_serve(lanes),
            channel_share,
            None if unknown_task_timeout is None else waiting(unknown_task_timeout) / 1000,
            metrics_settings(metrics_port, metrics_host, metrics_channels, is_about_queue=queue_metrics),
        )
        self._metrics: MetricsServer | None = None
        self._session: WorkerSession | None = None
        self._stop_requests = 0

    def run(self, *, until_empty: bool = False) -> int:
        """Run in this thread until SIGTERM or Ctrl-C. The first signal lets running handlers finish, a second
        one stops them at once. Returns an exit code.

        With `until_empty`, stop when nothing runs and no message is due. It waits for due messages that a
        rate or concurrency limit holds back, or that an open transaction has dequeued, for as long as that
        lasts. It does not wait for paused channels, nor for messages that are scheduled for later, such as
        retries with a backoff. Returns an exit code.
        """
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(self._run(until_empty=until_empty))
        finally:
            _close(loop)

    async def serve(self, *, until_empty: bool = False) -> None:
        """Run in your event loop until `stop` is called. Signal handlers are not touched."""
        try:
            await self._serve_app(until_empty=until_empty)
        finally:
            self._stop_requests = 0  # it can be started again

    async def _serve_app(self, *, until_empty: bool) -> None:
        self._settings.app.load_tasks()
        with self._exporting():
            await self._serve_queue(until_empty=until_empty)

    @contextmanager
    def _exporting(self) -> Iterator[None]:
        """Serve the metrics, if the worker has a port for them."""
        if self._settings.metrics is None:
            yield
            return
        from lonnymq.prometheus.server import MetricsServer

        with closing(MetricsServer(self._settings.metrics, self._settings.app.queue)) as self._metrics:
            yield
        self._metrics = None

    async def _serve_queue(self, *, until_empty: bool) -> None:
        queue = self._settings.app.queue
        if isinstance(queue, AsyncQueue):
            await self._serve(queue, until_empty=until_empty)
            return
        async with AsyncQueue.beside(queue, timeout=CONNECT_TIMEOUT_S) as async_queue:
            await self._serve(async_queue, until_empty=until_empty)

    def stop(self, *, force: bool = False) -> None:
        """Lease no more messages, and stop when the running handlers have finished. When called again, or
        with `force`, interrupt them and release their messages.

        Call it in the event loop that the worker runs in.
        """
        self._stop_requests += 2 if force else 1
        if self._session is not None:
            self._session.stop(force=self._stop_requests > 1)

    async def _run(self, *, until_empty: bool) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        try:
            await self._serve_app(until_empty=until_empty)
        finally:
            requests, self._stop_requests = self._stop_requests, 0
            if isinstance(self._settings.app.queue, AsyncQueue):
                await self._settings.app.queue.close()
        return EXIT_CODE_FORCED if requests > 1 else 0

    async def _serve(self, queue: AsyncQueue, *, until_empty: bool) -> None:
        found = await queue.settings()
        lease = self._settings.dequeue_lease(found.lease_ms / 1000, found.lease_max_ms / 1000)
        session = WorkerSession(
            self._settings, queue, lease, None if self._metrics is None else self._metrics.worker
        )
        self._session = session
        if self._stop_requests:
            session.stop(force=self._stop_requests > 1)
        try:
            await session.serve(until_empty=until_empty)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            self._session = None


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Close the loop as asyncio.run does, but without waiting for ever: neither for a handler that ignores
    being cancelled, nor for a thread that a handler started.
    """
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=INTERRUPT_TIMEOUT_S))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
