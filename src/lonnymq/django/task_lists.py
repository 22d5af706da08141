"""Pages of tasks with a status, for the admin. Messages that are not calls of Django's tasks are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from lonnymq.commands import DeadMessage, FinishedMessage, ListedMessage
from lonnymq.django.backend import LonnyMQBackend
from lonnymq.django.error_text import exception_line
from lonnymq.django.task_framework import TaskResultStatus
from lonnymq.django.task_message import as_time, path_of

NO_HISTORY = "The queue keeps no history, so these are not listed. `lonnymq queue set --history` starts one."


@dataclass(frozen=True)
class ListedTask:
    id: int
    path: str
    queue_name: str
    channel: str
    priority: int
    attempts: int
    enqueued_at: datetime | None
    at: datetime | None
    """When it is due, when its lease ends, or when it finished."""
    worker: str | None
    error: str | None
    """The line that names the exception."""


@dataclass(frozen=True)
class TaskPage:
    """The next page starts after `next_after`; None if there is none."""

    tasks: Sequence[ListedTask]
    next_after: str | None = None
    note: str | None = None


def page_of(backend: LonnyMQBackend, status: str, after: str | None, limit: int) -> TaskPage:
    queue = backend.queue
    if status == TaskResultStatus.FAILED:
        dead = queue.dead.list(after=int(after or 0), limit=limit)
        tasks = [_listed(each, each.dead_at) for each in dead]
        return _page(tasks, str(dead[-1].id) if len(dead) == limit else None)
    if status == TaskResultStatus.SUCCESSFUL:
        finished = queue.history(limit=limit, with_content=False)
        tasks = [_listed(each, each.finished_at) for each in finished if each.outcome == "completed"]
        return _page(tasks, None, None if queue.settings().history else NO_HISTORY)
    is_running = status == TaskResultStatus.RUNNING
    found = queue.messages(status="leased" if is_running else "waiting", after=after, limit=limit)
    tasks = [_listed(each, each.lease_end_at if is_running else each.dequeue_at) for each in found]
    return _page(tasks, found[-1].cursor if len(found) == limit else None)


def _page(tasks: Sequence[ListedTask | None], next_after: str | None, note: str | None = None) -> TaskPage:
    return TaskPage([task for task in tasks if task is not None], next_after, note)


def _listed(message: ListedMessage | DeadMessage | FinishedMessage, at: int | None) -> ListedTask | None:
    if (path := path_of(message.headers)) is None:
        return None
    return ListedTask(
        message.id,
        path,
        message.lane,
        message.channel,
        message.priority,
        message.attempts,
        as_time(message.created_at),
        as_time(at),
        message.consumer,
        exception_line(message.error or "") or None,
    )
