"""Leases messages when the consumer has room, and sleeps when there are none.

The steps of a waiting dequeue are those of the client. Here they are taken one by one: when the next step is
to sleep, control goes back to kombu, which waits in its own way, in a blocking call or in an event loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

from lonnymq.client.calls import Request
from lonnymq.client.consume import QUIET_MS, DequeueRequest
from lonnymq.client.queue import Queue
from lonnymq.client.wait import Sleep, take_or_wait
from lonnymq.commands import Delivery

RETRY_S = 1.0


class Intake:
    """For one channel of kombu."""

    def __init__(self, queue: Queue, lease: float, consumer: str, discard: Callable[[], object]) -> None:
        """`discard` reads the notifications that have arrived."""
        self._queue = queue
        self._lease = lease
        self._consumer = consumer
        self._discard = discard
        self._steps: Generator[Any, Any, list[Delivery]] | None = None
        self._lanes: Sequence[str] = ()
        self._limit = 0
        self._must_restart = False
        self._dequeued_at = float("-inf")
        self.until = float("-inf")
        """When to look again, by the monotonic clock, unless it is notified."""

    def restart(self) -> None:
        """Begin anew with the next look, and look at once. It may be called while steps are taken."""
        self._must_restart = True
        self.until = float("-inf")

    def _drop_steps(self) -> None:
        """Nothing is leased while they sleep."""
        self._must_restart = False
        if self._steps is not None:
            self._steps.close()
            self._steps = None

    def look(
        self, lanes: Sequence[str], limit: int, *, is_notified: bool, is_listening: bool
    ) -> list[Delivery]:
        """Lease up to `limit` messages of these lanes, without waiting."""
        if not lanes or limit < 1:
            self._drop_steps()
            self.until = float("inf")
            return []
        if self._must_restart or list(lanes) != self._lanes or limit < self._limit:
            self._drop_steps()
        answer: Any = None
        if self._steps is None:
            if time.monotonic() < self.until < float("inf"):
                return []  # after an error
            self._lanes, self._limit = list(lanes), limit
            is_busy = time.monotonic() - self._dequeued_at < QUIET_MS / 1000
            request = DequeueRequest(limit, self._lease, self._consumer, self._lanes, True, is_busy)  # noqa: FBT003
            self._steps = take_or_wait(request, None, is_listening=is_listening)
        elif is_notified or time.monotonic() >= self.until:
            answer = is_notified
        else:
            return []
        return self._walk(self._steps, answer)

    def _walk(self, steps: Generator[Any, Any, list[Delivery]], answer: Any) -> list[Delivery]:
        proceed: Callable[[Any], Any] = steps.send
        try:
            while True:
                step = proceed(answer)
                if isinstance(step, Sleep) and step.milliseconds > 0:
                    self.until = time.monotonic() + step.milliseconds / 1000
                    return []
                try:
                    proceed, answer = steps.send, self._take_step(step)
                except Exception as error:  # noqa: BLE001 - raised in the steps, which may catch it
                    proceed, answer = steps.throw, error
        except StopIteration as end:
            self._steps = None
            self._dequeued_at = time.monotonic()
            self.until = float("-inf")
            taken: list[Delivery] = end.value
            return taken
        except Exception:
            self._steps = None
            self.until = time.monotonic() + RETRY_S
            raise

    def _take_step(self, step: Any) -> Any:
        if isinstance(step, Sleep):
            self._discard()
            return False
        return self._queue.perform(Request(_one(step)))


def _one(step: Any) -> Generator[Any, Any, Any]:
    answer = yield step
    return answer
