"""Threads for handlers that are plain functions.

Not those of concurrent.futures: the interpreter waits for these when it ends, for as long as a handler
hangs. A handler is interrupted as CPython allows: an exception is raised in its thread before the next
step of Python code, so not within a call that waits in C.
"""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from lonnymq.worker.exceptions import JobStopped

log = logging.getLogger("lonnymq.worker")

GRACE = 1.0  # seconds that an interrupted handler has to end before its thread is given up


class Work:
    """One call of a function, in a thread."""

    def __init__(self, function: Callable[[], Any], answer: asyncio.Future[Any]) -> None:
        self._function = function
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        self._thread: int | None = None
        self.is_begun = False
        self._is_interrupted = False
        self._result: Any = None
        self._error: BaseException | None = None
        self.answer = answer

    def do(self) -> None:
        try:
            self._result = self._run()
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            self._error = error

    def _run(self) -> Any:
        self._begin()
        try:
            return self._context.run(self._function)
        finally:
            self._end()

    def _begin(self) -> None:
        with self._lock:
            if self._is_interrupted:
                raise JobStopped
            self.is_begun = True
            self._thread = threading.get_ident()

    def _end(self) -> None:
        """What has not been raised by now must not hit what the thread does next."""
        with self._lock:
            self._thread = None
            if self._is_interrupted:
                _raise_in(threading.get_ident(), None)

    def interrupt(self) -> bool:
        """Whether it is under way, and has to be waited for."""
        with self._lock:
            if self._is_interrupted:
                return True
            self._is_interrupted = True
            if self._thread is not None:
                _raise_in(self._thread, JobStopped)
            return self.is_begun

    def tell(self) -> None:
        """In the loop."""
        if self.answer.done():
            return
        if self._error is None:
            self.answer.set_result(self._result)
        elif isinstance(self._error, StopIteration):
            self.answer.set_exception(RuntimeError("the handler raised StopIteration"))
        else:
            self.answer.set_exception(self._error)


class Threads:
    """Up to `size` of them, made when they are needed."""

    def __init__(self, size: int, on_exhausted: Callable[[], object]) -> None:
        self._size = size
        self._on_exhausted = on_exhausted
        self._loop = asyncio.get_running_loop()
        self._waiting: SimpleQueue[Work | None] = SimpleQueue()
        self._done: deque[Work] = deque()
        self._is_telling = False
        self._started = 0
        self._busy = 0
        self._stuck: set[Work] = set()
        self._replaced: set[Work] = set()

    def interrupt(self, work: Work) -> None:
        if work.interrupt():
            self._loop.call_later(GRACE, self._give_up, work)
        elif not work.answer.done():
            work.answer.set_exception(JobStopped())

    def _give_up(self, work: Work) -> None:
        """The handler is beyond reach. Its thread is replaced, unless so many are stuck that others
        would be, too: then it is time for another process.
        """
        if work.answer.done():
            return
        self._stuck.add(work)
        log.error("a handler does not end, and keeps its thread: %d do", len(self._stuck))
        work.answer.set_exception(JobStopped())
        if len(self._stuck) <= self._size:
            self._replaced.add(work)
            self._busy -= 1
            self._start_thread()
        else:
            self._on_exhausted()

    def start(self, function: Callable[[], Any]) -> Work:
        work = Work(function, self._loop.create_future())
        self._busy += 1
        if self._busy > self._started and self._started < self._size:
            self._start_thread()
        self._waiting.put(work)
        return work

    def _start_thread(self) -> None:
        self._started += 1
        threading.Thread(target=self._serve, name=f"lonnymq-{self._started}", daemon=True).start()

    def close(self) -> None:
        """Idle threads end; a busy one ends when its handler does, or with the process."""
        for _ in range(self._started):
            self._waiting.put(None)

    def _serve(self) -> None:
        while (work := self._waiting.get()) is not None:
            work.do()
            self._done.append(work)
            if not self._is_telling:
                self._is_telling = True
                try:
                    self._loop.call_soon_threadsafe(self._tell)
                except RuntimeError:  # the loop has ended, nobody asks any more
                    return

    def _tell(self) -> None:
        """One call for all that is done by now: each would cost the loop a wake-up."""
        self._is_telling = False
        while self._done:
            work = self._done.popleft()
            if work in self._replaced:  # a thread more than there were
                self._replaced.discard(work)
            else:
                self._busy -= 1
            self._stuck.discard(work)
            work.tell()


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    exception = ctypes.py_object(kind) if kind is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), exception)
