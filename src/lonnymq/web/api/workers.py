"""Workers: list, what they have leased, which tasks none of them knows; pause, resume, drain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Query
from pydantic import Field

from lonnymq.client.produce import TASK_HEADER
from lonnymq.commands import ListedMessage, ListedWorker, RequestedWorker, UnknownTaskSummary
from lonnymq.formatting import plural
from lonnymq.web.access import Right
from lonnymq.web.api.parameters import Cursor
from lonnymq.web.errors import NotFound
from lonnymq.web.view import CurrentView

router = APIRouter(prefix="/workers", tags=["workers"])

LEASES = 100
Name = Annotated[str, Field(min_length=1, max_length=1000)]
Wanted = Literal["pause", "resume", "drain"]


@dataclass(frozen=True, slots=True)
class WorkerChange:
    """`worker` is a name or a host, in which `*` stands for any characters."""

    worker: Name
    wanted: Wanted


@dataclass(frozen=True, slots=True)
class Lease:
    """A message that a worker has leased. `task` is None for a message without a task."""

    id: int
    channel: str
    lane: str
    task: str | None
    attempts: int
    max_attempts: int | None
    lease_end_at: int | None
    is_cancelled: bool
    cursor: str


@router.get("")
def list_workers(view: CurrentView) -> list[ListedWorker]:
    """The worker processes, and how much each runs."""
    view.check()
    return view.queue.workers()


@router.get("/leases")
def list_leases(
    view: CurrentView,
    name: Annotated[str, Query(min_length=1, max_length=1000)],
    after: Cursor | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = LEASES,
) -> list[Lease]:
    """What the worker with this name has leased, in the order in which the leases end. The next page is
    `after` the last cursor.
    """
    view.check()
    found = view.queue.messages(status="leased", consumer=name, after=after, limit=limit)
    return [_lease(message) for message in found]


@router.get("/unknown-tasks")
def list_unknown_tasks(view: CurrentView) -> list[UnknownTaskSummary]:
    """The tasks that workers have met recently and do not know."""
    view.check()
    return view.queue.unknown_tasks()


@router.post("")
def change_worker(view: CurrentView, change: Annotated[WorkerChange, Body()]) -> list[RequestedWorker]:
    """Pause, resume or drain workers."""
    calls = {
        "pause": view.queue.pause_worker,
        "resume": view.queue.resume_worker,
        "drain": view.queue.drain_worker,
    }
    with view.action(f"worker.{change.wanted}", Right.WORKERS, target=change.worker) as action:
        asked = calls[change.wanted](change.worker)
        if not asked:
            raise NotFound(f"there is no worker {change.worker!r}", "reload the page")
        action.outcome = f"{plural(len(asked), 'worker')} asked"
    return asked


def _lease(message: ListedMessage) -> Lease:
    task = (message.headers or {}).get(TASK_HEADER)
    return Lease(
        message.id,
        message.channel,
        message.lane,
        None if task is None else str(task),
        message.attempts,
        message.max_attempts,
        message.lease_end_at,
        message.is_cancelled,
        message.cursor,
    )
