"""Stops the servers of this process when it exits.

Usually atexit does it. A program that handles signals itself (a worker that drains on SIGTERM, Python's
KeyboardInterrupt) needs its database until it exits. But the default action of a signal ends the process
without atexit. So only while a signal has its default action, it is handled here: we stop the servers, and
then let the signal end the process.
"""

import atexit
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)

_stops: dict[Callable[[], None], int] = {}
_uninterrupted = 0
_postponed: list[int] = []


def at_exit(stop: Callable[[], None]) -> None:
    """Call `stop` when this process exits, but not when a forked child does."""
    if not _stops:
        atexit.register(_stop_all)
    _stops[stop] = os.getpid()
    if threading.current_thread() is threading.main_thread():
        for number in EXIT_SIGNALS:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _stop_and_exit)


def forget(stop: Callable[[], None]) -> None:
    _stops.pop(stop, None)
    if not _stops:
        atexit.unregister(_stop_all)
        if threading.current_thread() is threading.main_thread():
            for number in EXIT_SIGNALS:
                if signal.getsignal(number) is _stop_and_exit:
                    signal.signal(number, signal.SIG_DFL)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay signals: their handler would wait for a lock that the interrupted code has."""
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
            _stop_and_exit(_postponed.pop(), None)


def _stop_and_exit(number: int, _frame: FrameType | None) -> None:
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
