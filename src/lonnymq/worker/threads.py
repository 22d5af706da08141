"""The threads that handlers run in if they are plain functions.

concurrent.futures would not do: the interpreter waits for its threads on exit, however long a handler is
stuck. A handler is interrupted in the way that CPython allows: an exception is raised in its thread before
the next Python instruction, so not inside a call that waits in C.
"""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from lonnymq.worker.exceptions import JobStopped

log = logging.getLogger("lonnymq.worker")

THREAD_START_S = 0.001  # how long a handler usually takes to start a thread,
THREAD_START_CHECKS = 100  # and how many times to check whether it has
INTERRUPT_TIMEOUT_S = 1.0  # how long an interrupted handler may take to return before it counts as stuck


class ThreadCall:
    """One call of a function, in a thread. The loop awaits its `answer`."""

    def __init__(self, function: Callable[[], Any], answer: asyncio.Future[Any]) -> None:
        self._function = function
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        self._thread: int | None = None
        self.is_started = False
        self._is_interrupted = False
        self._result: Any = None
        self._error: BaseException | None = None
        self.answer = answer

    def run(self) -> None:
        """Called in the thread."""
        try:
            self._result = self._call()
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            self._error = error

    def _call(self) -> Any:
        self._start()
        try:
            return self._context.run(self._function)
        finally:
            self._finish()

    def _start(self) -> None:
        with self._lock:
            if self._is_interrupted:
                raise JobStopped
            self.is_started = True
            self._thread = threading.get_ident()

    def _finish(self) -> None:
        """Withdraw an exception that was not raised yet: it must not hit the thread's next call."""
        with self._lock:
            self._thread = None
            if self._is_interrupted:
                _raise_in(threading.get_ident(), None)

    def is_starting_thread(self) -> bool:
        """Whether the handler is just starting a thread. CPython then has that thread under its creator's
        number, too, and would raise the exception in the new thread.
        """
        thread = self._thread
        frame = None if thread is None else sys._current_frames().get(thread)  # noqa: SLF001
        while frame is not None and frame.f_code is not threading.Thread.start.__code__:
            frame = frame.f_back
        return frame is not None

    def interrupt(self) -> bool:
        """Returns whether the call has started, so that the loop must wait for it."""
        with self._lock:
            if self._is_interrupted:
                return True
            self._is_interrupted = True
            if self._thread is not None:
                _raise_in(self._thread, JobStopped)
            return self.is_started

    def set_answer(self) -> None:
        """Called in the loop."""
        if self.answer.done():
            return
        if self._error is None:
            self.answer.set_result(self._result)
        elif isinstance(self._error, StopIteration):
            self.answer.set_exception(RuntimeError("the handler raised StopIteration"))
        else:
            self.answer.set_exception(self._error)


class Threads:
    """Up to `size` threads, started when they are needed. A stuck thread is replaced, until as many are stuck
    as there should be threads; with the next one, `on_exhausted` is called.
    """

    def __init__(self, size: int, on_exhausted: Callable[[], object]) -> None:
        self._size = size
        self._on_exhausted = on_exhausted
        self._loop = asyncio.get_running_loop()
        self._waiting: SimpleQueue[ThreadCall | None] = SimpleQueue()
        self._done: deque[ThreadCall] = deque()
        self._is_wakeup_scheduled = False
        self._started = 0
        self._busy = 0
        self._stuck: set[ThreadCall] = set()
        self._replaced: set[ThreadCall] = set()

    def interrupt(self, call: ThreadCall, checks: int = THREAD_START_CHECKS) -> None:
        if checks and call.is_starting_thread():
            self._loop.call_later(THREAD_START_S, self.interrupt, call, checks - 1)
        elif call.interrupt():
            self._loop.call_later(INTERRUPT_TIMEOUT_S, self._abandon_if_stuck, call)
        elif not call.answer.done():
            call.answer.set_exception(JobStopped())

    def _abandon_if_stuck(self, call: ThreadCall) -> None:
        """Stop waiting for a handler that ignores its interruption, and replace its thread. If too many are
        stuck, new threads would probably get stuck too, and only another process helps.
        """
        if call.answer.done():
            return
        self._stuck.add(call)
        count = len(self._stuck)
        log.error("%d handler thread%s stuck", count, " is" if count == 1 else "s are")
        call.answer.set_exception(JobStopped())
        if len(self._stuck) <= self._size:
            self._replaced.add(call)
            self._busy -= 1
            self._start_thread()
        else:
            self._on_exhausted()

    def start(self, function: Callable[[], Any]) -> ThreadCall:
        call = ThreadCall(function, self._loop.create_future())
        self._busy += 1
        if self._busy > self._started and self._started < self._size:
            self._start_thread()
        self._waiting.put(call)
        return call

    def _start_thread(self) -> None:
        self._started += 1
        threading.Thread(target=self._run_calls, name=f"lonnymq-{self._started}", daemon=True).start()

    def close(self) -> None:
        """Idle threads exit now, a busy one when its handler returns or the process exits."""
        for _ in range(self._started):
            self._waiting.put(None)

    def _run_calls(self) -> None:
        while (call := self._waiting.get()) is not None:
            call.run()
            self._done.append(call)
            if not self._is_wakeup_scheduled:
                self._is_wakeup_scheduled = True
                try:
                    self._loop.call_soon_threadsafe(self._set_answers)
                except RuntimeError:  # the loop is closed, so nobody awaits the answer
                    return

    def _set_answers(self) -> None:
        """One wake-up of the loop for all calls that are done by now."""
        self._is_wakeup_scheduled = False
        while self._done:
            call = self._done.popleft()
            if call in self._replaced:  # its thread was no longer counted as busy
                self._replaced.discard(call)
            else:
                self._busy -= 1
            self._stuck.discard(call)
            call.set_answer()


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    exception = ctypes.py_object(kind) if kind is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), exception)
