"""The messages that a connection holds, and the thread that extends their leases.

A message is held from its delivery until it is acknowledged or rejected, for as long as its task runs. If the
process is killed, nobody extends the lease, and the message comes back. The thread also does the queue's
maintenance, about once per minute.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterable

from psycopg.errors import lookup

from lonnymq.client.queue import Queue
from lonnymq.commands import Delivery, Result
from lonnymq.errors import (
    ConnectionDropped,
    DatabaseUnreachable,
    LonnyMQError,
    OutcomeUnknown,
    ReadOnlyDatabase,
    RetryTransaction,
)

log = logging.getLogger("lonnymq.kombu")

OUTAGES: tuple[type[Exception], ...] = (
    *(ConnectionDropped, DatabaseUnreachable, OutcomeUnknown, ReadOnlyDatabase, RetryTransaction),
    # Insufficient resources, lock not available, statement timeout or cancel, system error.
    *map(lookup, ("53000", "53100", "53200", "53300", "55P03", "57014", "58000", "58030")),
)
"""The same call may succeed later."""
RETRY_S = 1.0
MAINTENANCE_S = 60.0
MAINTENANCE_ROWS = 10_000

Finish = Callable[[Delivery], Result]


class Leases:
    """Any thread may acknowledge."""

    def __init__(self, queue: Queue, lease: float) -> None:
        self._queue = queue
        self.lease = lease
        self._held: dict[str, Delivery] = {}
        self._late: list[tuple[Delivery, Finish]] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    def start(self) -> None:
        """Start the thread, unless it runs."""
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="lonnymq kombu leases", daemon=True)
                self._thread.start()

    def hold(self, deliveries: dict[str, Delivery]) -> None:
        if deliveries:
            with self._lock:
                self._held.update(deliveries)
            self.start()

    def has(self, tag: str) -> bool:
        """Whether the message is held. A forked process holds nothing: the messages are the parent's, and a
        thread of the parent may have had the lock.
        """
        return os.getpid() == self._pid and tag in self._held

    def complete(self, tag: str) -> None:
        self._finish(tag, self._queue.complete)

    def release(self, tags: Iterable[str]) -> None:
        """Give messages back unharmed. After an outage they come back by themselves."""
        own = [tag for tag in tags if self.has(tag)]
        if not own:
            return
        with self._lock:
            found = [held for tag in own if (held := self._held.pop(tag, None)) is not None]
        if not found:
            return
        try:
            self._queue.retry_many(found)
        except OUTAGES as error:
            log.warning("could not give back %d messages, which come back later: %s", len(found), error)

    def requeue(self, tag: str) -> None:
        """The consumer gives the message back: that uses up an attempt, so that it cannot go on for ever."""
        self._finish(tag, lambda delivery: self._queue.retry(delivery, error="requeued by its consumer"))

    def fail(self, tag: str, error: str = "rejected by its consumer") -> None:
        """The message becomes a dead letter."""
        self._finish(tag, lambda delivery: self._queue.fail(delivery, error))

    def discard(self, tag: str, reason: str) -> None:
        self._finish(tag, lambda delivery: self._queue.discard(delivery, reason))

    def close(self) -> None:
        """Give back everything, and stop."""
        self._stop.set()
        self.release(list(self._held))
        try:
            self._finish_late()
        except OUTAGES as error:
            log.warning("could not finish %d messages, which come back later: %s", len(self._late), error)

    def forget(self) -> None:
        """In a forked process: the messages are the parent's."""
        self._stop.set()
        self._held, self._late = {}, []

    def _finish(self, tag: str, finish: Finish) -> None:
        """Finish the message. If the database is away, the thread does it later."""
        if not self.has(tag):
            return
        with self._lock:
            delivery = self._held.pop(tag, None)
        if delivery is None:
            return
        try:
            self._report(delivery, finish(delivery))
        except OUTAGES as error:
            log.warning("could not finish message %d, trying again: %s", delivery.id, error)
            with self._lock:
                self._late.append((delivery, finish))

    def _report(self, delivery: Delivery, result: Result) -> None:
        if result in {Result.LOST, Result.NOT_FOUND}:
            log.warning(
                "the lease of message %d had run out before it was finished: it may run twice", delivery.id
            )
        elif result == Result.DEAD:
            log.warning("message %d is a dead letter now", delivery.id)

    def _run(self) -> None:
        pause = extend_s = self.lease / 3
        extend_at = time.monotonic() + extend_s
        maintain_at = _next_maintenance()
        while not self._stop.wait(pause):
            pause = min(extend_s, MAINTENANCE_S)
            try:
                self._finish_late()
                if time.monotonic() >= extend_at:
                    self._extend()
                    extend_at = time.monotonic() + extend_s
                if time.monotonic() >= maintain_at:
                    maintain_at = _next_maintenance()
                    self._maintain()
            except OUTAGES as error:
                log.warning("could not extend leases, trying again: %s", error)
                pause = min(RETRY_S, extend_s)
            except Exception:
                log.exception("could not extend leases, trying again")
                pause = min(RETRY_S, extend_s)
            if self._late:
                pause = min(RETRY_S, extend_s)
            if extend_at > time.monotonic():
                pause = min(pause, extend_at - time.monotonic())

    def _maintain(self) -> None:
        """Celery's workers do what those of the queue do."""
        try:
            self._queue.maintain(MAINTENANCE_ROWS)
        except OUTAGES:
            raise
        except LonnyMQError as error:
            log.info("this process does no maintenance: %s", error)

    def _extend(self) -> None:
        with self._lock:
            held = dict(self._held)
            late = [delivery for delivery, _ in self._late]
        if not held and not late:
            return
        tags = [*held, *[None] * len(late)]
        results = self._queue.extend_many([*held.values(), *late], self.lease)
        for tag, delivery, extended in zip(tags, [*held.values(), *late], results, strict=True):
            if extended.result == Result.EXTENDED or tag is None:
                continue
            with self._lock:
                was_held = self._held.pop(tag, None) is not None
            if was_held and extended.result in {Result.LOST, Result.NOT_FOUND}:
                log.warning("the lease of message %d ran out: it may run twice", delivery.id)

    def _finish_late(self) -> None:
        while True:
            with self._lock:
                if not self._late:
                    return
                delivery, finish = self._late[0]
            self._report(delivery, finish(delivery))
            with self._lock:
                if self._late:
                    self._late.pop(0)


def _next_maintenance() -> float:
    """Not all processes at the same time."""
    return time.monotonic() + MAINTENANCE_S * random.uniform(0.5, 1.5)  # noqa: S311
