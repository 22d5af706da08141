"""Several worker processes under one parent, for `lonnymq worker --processes` and `--reload`.

The parent starts its children with its own command line, and does not import the app. It passes signals on,
starts a child again that ends unexpectedly, and, with `--reload`, restarts all of them when a file changes.
A child learns from its environment that it is one, and inherits a pipe that only the parent can write to:
when the parent is gone, however it ended, the pipe ends, and the child drains.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import suppress

from lonnymq.worker.backoff import Backoff
from lonnymq.worker.reload import SourceFiles

log = logging.getLogger("lonnymq.worker")

CHILD_VARIABLE = "LONNYMQ_WORKER_PROCESS"
RESTART_DELAYS = Backoff(first=1, longest=30)
STABLE_S = 10.0  # a child that has run for this long can run: its failures are counted from 1 again
FAILURE = 1
NOT_RESTARTED = {2, 4}  # wrong usage, wrong schema: the next child would end in the same way
POLL_S = 0.5
SIGNAL_BASE = 128
"""A shell reports a process that a signal ended with this plus the signal's number."""


def same_command() -> list[str]:
    """The command line of this process, to run it again."""
    warnings = [f"-W{option}" for option in sys.warnoptions]
    return [sys.executable, *warnings, "-m", "lonnymq", *sys.argv[1:]]


def child_number() -> int | None:
    """The number of this process among the children of a parent, from 1; None if it is not a child. From then
    on, this process drains when its parent is gone.
    """
    if (given := os.environ.pop(CHILD_VARIABLE, None)) is None:
        return None
    number, _, pipe = given.partition(":")
    os.set_inheritable(int(pipe), False)  # noqa: FBT003 - not to what handlers start
    threading.Thread(target=_drain_with_parent, args=(int(pipe),), daemon=True).start()
    return int(number)


def _drain_with_parent(pipe: int) -> None:
    os.read(pipe, 1)  # nothing is written: it returns when the parent is gone
    os.kill(os.getpid(), signal.SIGTERM)


class WorkerProcesses:
    """`count` processes that run `command`. With `files`, they are restarted when one of these changes."""

    def __init__(self, command: Sequence[str], count: int, files: SourceFiles | None = None) -> None:
        self._command = command
        self._count = count
        self._files = files
        self._children: dict[int, Process] = {}
        self._to_restart: set[int] = set()
        self._codes: list[int] = []

    def run(self) -> int:
        """Run until all children have ended. Returns the highest of their exit codes."""
        return asyncio.run(self._run())

    async def _run(self) -> int:
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._started_at = time.monotonic()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop, number)
        self._pipe, pipe_end = os.pipe()
        try:
            async with asyncio.TaskGroup() as group:
                children = [group.create_task(self._keep_running(n + 1)) for n in range(self._count)]
                watching = None if self._files is None else group.create_task(self._watch(self._files))
                await asyncio.wait(children)
                if watching is not None:
                    watching.cancel()
        finally:
            os.close(self._pipe)
            os.close(pipe_end)
        return max(self._codes, default=0)

    def _stop(self, number: signal.Signals) -> None:
        """Pass a signal on. Children that end from now on are not started again."""
        self._stopping.set()
        count = len(self._children)
        log.info("passing %s on to %d worker process%s", number.name, count, "" if count == 1 else "es")
        for child in self._children.values():
            send(child, number)

    async def _keep_running(self, number: int) -> None:
        failures = 0
        while not self._stopping.is_set():
            child = await self._start(number)
            started_at = time.monotonic()
            code = await child.wait()
            del self._children[number]
            code = code if code >= 0 else SIGNAL_BASE - code
            uptime = time.monotonic() - started_at
            failures = 1 if uptime >= STABLE_S else failures + 1
            if number in self._to_restart and not self._stopping.is_set():
                self._to_restart.discard(number)
                failures = 0
            elif self._stopping.is_set() and child.returncode == -signal.SIGTERM:
                return  # the signal came before it began to work
            elif code == 0 or self._stopping.is_set() or await self._is_over(child, code, failures):
                self._codes.append(code)
                return

    async def _start(self, number: int) -> Process:
        """In its own session: Ctrl-C in a terminal reaches the parent alone, which passes it on."""
        child = await asyncio.create_subprocess_exec(
            *self._command,
            env=os.environ | {CHILD_VARIABLE: f"{number}:{self._pipe}"},
            pass_fds=[self._pipe],
            start_new_session=True,
        )
        self._children[number] = child
        log.info("started worker process %d of %d, with pid %d", number, self._count, child.pid)
        if self._stopping.is_set():  # the signal came meanwhile
            send(child, signal.SIGTERM)
        return child

    async def _is_over(self, child: Process, code: int, failures: int) -> bool:
        """Whether to give up a child that has ended. If not, waits until it is time to start it again."""
        cannot_start = code == FAILURE and time.monotonic() - self._started_at < STABLE_S
        if self._files is not None:
            log.error("%s; waiting for a change of the code", _ending(child, code))
            await self._pause(None)
        elif code in NOT_RESTARTED or cannot_start:
            log.error("%s; stopping the others, because it would happen again", _ending(child, code))
            self._stop(signal.SIGTERM)
        else:
            delay = RESTART_DELAYS(failures)
            log.error("%s; starting another one in %.1f s", _ending(child, code), delay)
            await self._pause(delay)
        return self._stopping.is_set()

    async def _pause(self, seconds: float | None) -> None:
        """Wait for `seconds`, or until a file changes or the children are to stop."""
        waiters = [asyncio.ensure_future(event.wait()) for event in (self._stopping, self._changed)]
        await asyncio.wait(waiters, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for waiter in waiters:
            waiter.cancel()

    async def _watch(self, files: SourceFiles) -> None:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(POLL_S)
            if (changed := files.changed()) is not None:
                log.info("%s has changed: restarting the worker", changed)
                self._changed.set()
                self._changed = asyncio.Event()
                for number in self._children.keys() - self._to_restart:
                    self._to_restart.add(number)
                    send(self._children[number], signal.SIGTERM)


def send(child: Process, number: signal.Signals) -> None:
    """Not child.send_signal: it reaps a child that has just exited, and asyncio then reports code 255."""
    with suppress(ProcessLookupError):
        os.kill(child.pid, number)


def _ending(child: Process, code: int) -> str:
    how = f"exited with code {code}"
    if code > SIGNAL_BASE:
        with suppress(ValueError):
            how = f"was ended by {signal.Signals(code - SIGNAL_BASE).name}"
    return f"the worker process with pid {child.pid} {how}"
