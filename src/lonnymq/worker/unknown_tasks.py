"""Messages for which this worker has no handler. They are rejected, so that a newer worker gets them.

A message comes back after a quarter of a second, then more and more slowly: `message_reject_many` decides
when, and when it becomes a dead letter. What is met here is logged once per task and minute, and reported to
the database with the worker's other news (`registry`), which answers whether any other worker knows the task.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from lonnymq.client.produce import TASK_HEADER
from lonnymq.commands import Delivery
from lonnymq.errors import LonnyMQError
from lonnymq.formatting import duration, plural
from lonnymq.worker.execute import Rejected, storable
from lonnymq.worker.handler_policy import HandlerPolicy

log = logging.getLogger("lonnymq.worker")

LOG_PERIOD_S = 60.0
ALARM_PERIOD_S = 600.0  # between two errors about the same task that no worker knows
FORGET_S = 300.0  # a task that was not met for this long is no longer reported
MESSAGES_MAX = 10_000  # how many ids to remember, to count each message once
TASKS_MAX = 100  # how many tasks the database accepts in a report
NAME_MAX_BYTES = 255
NO_TASK = ""  # what reports call messages without a task


class UnknownTask(LonnyMQError):
    """The app has no task for the message."""

    @classmethod
    def of(cls, message: Delivery) -> UnknownTask:
        return cls(
            f"message {message.id} {kind_of(task_of(message))} has no handler here",
            "add the task to the app, or an @app.consume handler for messages without a task",
        )


def task_of(message: Delivery) -> str:
    """The name in the message's header, whatever JSON value that is; NO_TASK if there is none."""
    name = (message.headers or {}).get(TASK_HEADER)
    if name is None:
        return NO_TASK
    text = name if isinstance(name, str) else json.dumps(name)
    return text.encode()[:NAME_MAX_BYTES].decode(errors="ignore")


def kind_of(task: str) -> str:
    return "without a task" if task == NO_TASK else f"of the task {task!r}"


@dataclass(frozen=True)
class UnknownHandler:
    """Takes the place of the missing handler."""

    name: str
    policy: HandlerPolicy = field(default_factory=HandlerPolicy)
    is_async: bool = False
    calling_packages: tuple[str, ...] = ()

    def call_for(self, message: Delivery) -> Callable[[], Any]:
        raise UnknownTask.of(message)


@dataclass
class _Met:
    """How many messages of a task were met, since when, and how many were rejected since the last log line.
    Times are those of time.monotonic().
    """

    first_at: float
    last_at: float
    messages: int = 0
    released: int = 0
    log_at: float = 0.0
    alarm_at: float = 0.0


class UnknownTasks:
    """`known` are the names of the tasks here. After `timeout_s`, a message that nobody handled is dead."""

    def __init__(self, known: Collection[str], timeout_s: float | None) -> None:
        self._known = known
        self._timeout_s = timeout_s
        self._met: dict[str, _Met] = {}
        self._ids: dict[int, None] = {}

    def meet(self, message: Delivery) -> tuple[UnknownHandler, Rejected, bool]:
        """What to do with a message. Also returns whether it was met for the first time."""
        task, now = task_of(message), time.monotonic()
        met = self._met.setdefault(task, _Met(now, now))
        met.last_at = now
        met.released += 1
        is_new = message.id not in self._ids
        if is_new:
            met.messages += 1
            self._ids[message.id] = None
            if len(self._ids) > MESSAGES_MAX:
                del self._ids[next(iter(self._ids))]
        return UnknownHandler(_handler_name(task)), self._rejected(task), is_new

    def _rejected(self, task: str) -> Rejected:
        if self._timeout_s is None:
            return Rejected("", None)
        what = "handled messages without a task" if task == NO_TASK else f"knew the task {task!r}"
        since = f" for {self._timeout}" if self._timeout_s else ""
        return Rejected(storable(f"no worker {what}{since}"), round(self._timeout_s * 1000))

    @property
    def _timeout(self) -> str:
        return duration((self._timeout_s or 0) * 1000)

    def log(self) -> None:
        """Log what was rejected, once per task and minute."""
        now = time.monotonic()
        for task, met in self._met.items():
            if met.released and met.log_at <= now:
                log.warning(
                    "rejected %s %s: this worker has no handler for it; its tasks: %s",
                    *(plural(met.released, "message"), kind_of(task)),
                    ", ".join(sorted(self._known)) or "none",
                )
                met.released, met.log_at = 0, now + LOG_PERIOD_S

    def log_unknown_to_all(self, tasks: Iterable[str]) -> None:
        """Log that no worker knows these tasks."""
        now = time.monotonic()
        for task in tasks:
            met = self._met.get(task)
            if met is not None and met.alarm_at <= now:
                log.error(
                    "no running worker has a handler for messages %s: they %s",
                    kind_of(task),
                    "wait until one has"
                    if self._timeout_s is None
                    else f"become dead letters if that lasts for {self._timeout}",
                )
                met.alarm_at = now + ALARM_PERIOD_S

    def recent(self) -> tuple[list[str], list[int], list[int]]:
        """For the report to the database: the tasks that were met in the last minutes; how many messages of
        each, and for how many milliseconds.
        """
        now = time.monotonic()
        self._met = {task: met for task, met in self._met.items() if met.last_at > now - FORGET_S}
        latest = sorted(self._met.items(), key=lambda item: item[1].last_at, reverse=True)[:TASKS_MAX]
        return (
            [task for task, _ in latest],
            [met.messages for _, met in latest],
            [round((now - met.first_at) * 1000) for _, met in latest],
        )


def _handler_name(task: str) -> str:
    return "no handler" if task == NO_TASK else task
