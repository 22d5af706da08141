"""Observers see the calls of a queue and the handlers of its workers: traces and metrics are made this way. A
queue has none unless the user adds one, and then a call costs the check of an empty tuple.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from lonnymq.commands import Delivery

log = logging.getLogger("lonnymq")

is_prefetching: ContextVar[bool] = ContextVar("lonnymq prefetching", default=False)
"""Set while a worker dequeues: its messages reach the user's code later, when their handlers start."""


class Operation(Protocol):
    """One step of a call that an observer follows. `step` is what is run, perhaps changed by the observer."""

    step: Any

    def succeed(self, answer: Any) -> None: ...
    def fail(self, error: BaseException) -> None: ...


class Observer:
    """Follows nothing. A subclass overrides what it is interested in."""

    def begin(self, schema: str, step: Any, messages: Sequence[Delivery]) -> Operation | None:  # noqa: ARG002
        """A step (a Command, a Pair or a Sleep) is about to be run; None: do not follow it. `messages` are
        those that the call finishes, as far as they are known.
        """
        return None

    def handler_starts(
        self,
        schema: str,  # noqa: ARG002
        message: Delivery,  # noqa: ARG002
        task: str,  # noqa: ARG002
    ) -> Callable[[BaseException | None], object]:
        """A worker starts a handler, in a context of its own. The returned function is called when the
        handler has ended, with the error if the attempt has failed.
        """
        return lambda _: None


def handler_starts(
    observers: Sequence[Observer], schema: str, message: Delivery, task: str
) -> list[Callable[[BaseException | None], object]]:
    """Tell the observers that a handler starts. Returns what to call when it has ended, last first."""
    ends = []
    for observer in observers:
        try:
            ends.append(observer.handler_starts(schema, message, task))
        except Exception:
            log.exception("an observer failed")
    return ends[::-1]


def observed(
    observers: Sequence[Observer], schema: str, steps: Generator[Any, Any, Any], messages: Sequence[Delivery]
) -> Generator[Any, Any, Any]:
    """The steps of a call, which the observers follow."""
    for observer in observers:
        steps = _observed_by(observer, schema, steps, messages)
    return steps


def _observed_by(
    observer: Observer, schema: str, steps: Generator[Any, Any, Any], messages: Sequence[Delivery]
) -> Generator[Any, Any, Any]:
    proceed: Callable[[Any], Any] = steps.send
    answer: Any = None
    while True:
        try:
            step = proceed(answer)
        except StopIteration as end:
            return end.value
        operation = _begin(observer, schema, step, messages)
        try:
            answer = yield step if operation is None else operation.step
        except Exception as error:  # noqa: BLE001 - raised in the steps, which may catch it
            if operation is not None:
                safely(operation.fail, error)
            proceed, answer = steps.throw, error
        except BaseException as error:  # the call was cancelled
            if operation is not None:
                safely(operation.fail, error)
            steps.close()
            raise
        else:
            if operation is not None:
                safely(operation.succeed, answer)
            proceed = steps.send


def _begin(observer: Observer, schema: str, step: Any, messages: Sequence[Delivery]) -> Operation | None:
    try:
        return observer.begin(schema, step, messages)
    except Exception:
        log.exception("an observer failed")
        return None


def safely(call: Callable[[Any], object], argument: Any) -> None:
    """Call an observer. If that fails, it is logged: the call that it follows goes on."""
    try:
        call(argument)
    except Exception:
        log.exception("an observer failed")
