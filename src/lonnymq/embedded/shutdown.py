"""Stopping our servers when the process ends.

A process that returns, raises, or handles its signals runs atexit in its own good time; with a handler of its
own (a worker that drains on SIGTERM, Python's KeyboardInterrupt) it needs its database until then. So a
signal is handled here only while its action is the default one, which ends the process and skips atexit: we
stop the servers, then let the signal do its default work.
"""

import atexit
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)

_stops: dict[Callable[[], None], int] = {}
_uninterrupted = 0
_postponed: list[int] = []


def at_end(stop: Callable[[], None]) -> None:
    """Call `stop` when this process ends, but not when a child forked from it does."""
    if not _stops:
        atexit.register(_stop_all)
    _stops[stop] = os.getpid()
    if threading.current_thread() is threading.main_thread():
        for number in ENDING_SIGNALS:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _stop_and_die)


def forget(stop: Callable[[], None]) -> None:
    _stops.pop(stop, None)
    if not _stops:
        atexit.unregister(_stop_all)
        if threading.current_thread() is threading.main_thread():
            for number in ENDING_SIGNALS:
                if signal.getsignal(number) is _stop_and_die:
                    signal.signal(number, signal.SIG_DFL)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold a signal back meanwhile: its handler would wait for the lock that the interrupted code holds."""
    global _uninterrupted  # noqa: PLW0603
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _uninterrupted += 1
    try:
        yield
    finally:
        _uninterrupted -= 1
        if _uninterrupted == 0 and _postponed:
            _stop_and_die(_postponed.pop(), None)


def _stop_and_die(number: int, _frame: FrameType | None) -> None:
    if _uninterrupted:
        _postponed.append(number)
        return
    _stop_all()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _stop_all() -> None:
    for stop, owner in list(_stops.items()):
        if owner == os.getpid():
            stop()
