"""The worker: it leases messages, has their handlers run, and finishes them, until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.times import milliseconds, waiting
from lonnymq.errors import InvalidArgument
from lonnymq.message_options import Duration
from lonnymq.worker.app import App
from lonnymq.worker.session import Session
from lonnymq.worker.threads import GRACE
from lonnymq.worker.worker_settings import OnResult, Settings, own_name

CONNECTION_MAX = 5  # seconds to wait for a connection, before the worker says that the database is away
FORCED = 130  # the exit code of a worker that was told twice to stop


class Worker:
    """Runs the tasks of an app, up to `concurrency` at a time.

    A message is held under a `lease` (the queue's own, unless given), extended while its handler runs;
    if this process dies, others have the message when it ends. `prefetch` is for how many seconds' work
    may lie ready beyond what runs. When it is told to stop it takes no more, and gives what runs
    `shutdown_timeout` to end; what does not is interrupted and its message handed back, which costs no
    attempt. `name` is what people see as the consumer. The `health_file`, if any, is rewritten every two
    seconds. `on_result` is called after each attempt with the message and what it raised, or None.

        Worker(app, concurrency=20).run()
    """

    def __init__(
        self,
        app: App[Any],
        *,
        concurrency: int = 10,
        lease: Duration | None = None,
        prefetch: Duration = 0.1,
        shutdown_timeout: Duration = 30,
        name: str | None = None,
        health_file: str | os.PathLike[str] | None = None,
        on_result: OnResult | None = None,
    ) -> None:
        if not isinstance(app, App):
            raise InvalidArgument(f"a {type(app).__name__} is not an App", "give the App with your tasks")
        if type(concurrency) is not int or concurrency < 1:
            raise InvalidArgument(
                f"concurrency: {concurrency!r} is not a whole number of 1 or more", "give an int, such as 10"
            )
        if lease is not None and milliseconds(lease) <= 0:
            raise InvalidArgument(f"a lease of {lease!r} leaves no time", "give more than 0 seconds")
        self._settings = Settings(
            app,
            concurrency,
            None if lease is None else milliseconds(lease) / 1000,
            waiting(prefetch) / 1000,
            waiting(shutdown_timeout) / 1000,
            None if health_file is None else Path(health_file),
            on_result,
            name or own_name(),
        )
        self._session: Session | None = None
        self._told = 0

    def run(self, *, until_empty: bool = False) -> int:
        """In this thread, until a SIGTERM or Ctrl-C; a second one does not wait for what runs.

        With `until_empty`, until no message is due and nothing runs. It waits for due messages that a rate or
        concurrency limit holds back, but not for paused channels, nor for messages that are scheduled for
        later, such as retries with a backoff. Returns an exit code.
        """
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(self._run(until_empty=until_empty))
        finally:
            _close(loop)

    async def serve(self, *, until_empty: bool = False) -> None:
        """In a loop of yours, until `stop` is called. Signals are left as they are."""
        queue = self._settings.app.queue
        if isinstance(queue, AsyncQueue):
            await self._serve(queue, until_empty=until_empty)
            return
        async with AsyncQueue.beside(queue, timeout=CONNECTION_MAX) as own:
            await self._serve(own, until_empty=until_empty)

    def stop(self, *, force: bool = False) -> None:
        """Take no more, and end when what runs has ended; a second time, or with `force`, hand it back
        at once.

        From the loop that it serves in.
        """
        self._told += 2 if force else 1
        if self._session is not None:
            self._session.stop(force=self._told > 1)

    async def _run(self, *, until_empty: bool) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        try:
            await self.serve(until_empty=until_empty)
        finally:
            if isinstance(self._settings.app.queue, AsyncQueue):
                await self._settings.app.queue.close()
        return FORCED if self._told > 1 else 0

    async def _serve(self, queue: AsyncQueue, *, until_empty: bool) -> None:
        found = await queue.settings()
        lease = self._settings.lease_of(found.lease_ms / 1000, found.lease_max_ms / 1000)
        session = Session(self._settings, queue, lease)
        self._session = session
        if self._told:
            session.stop(force=self._told > 1)
        try:
            await session.serve(until_empty=until_empty)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            self._session = None


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """As asyncio.run does, but it does not wait for ever: neither for a handler that is deaf to being
    cancelled, nor for a thread that one has started.
    """
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=GRACE))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
