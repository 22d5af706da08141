"""Batches: list them, look at one, cancel one. They have no tenant: they are for people who see the whole
queue.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from lonnymq.client.calls import ask
from lonnymq.commands import BatchCancel, BatchStatus, Result
from lonnymq.formatting import plural
from lonnymq.web.access import Right
from lonnymq.web.api.parameters import PAGE_SIZE, Limit, Name, PathId, QueryId
from lonnymq.web.errors import Conflict, NotFound
from lonnymq.web.view import CurrentView

router = APIRouter(prefix="/batches", tags=["batches"])

BUSY_S = 10.0
"""A request stops after this time, and says that there is more to do."""

StatusOfBatch = Literal["open", "closed", "finished", "cancelled"]


@dataclass(frozen=True, slots=True)
class BatchPage:
    """The newest first. `next` is `after` of the next page; None after the last one."""

    batches: list[BatchStatus]
    next: int | None


@dataclass(frozen=True, slots=True)
class BatchCancelled:
    """`messages` of it were cancelled. With `has_more`, some are left: ask again."""

    id: int
    messages: int
    has_more: bool
    text: str


@router.get("")
def list_batches(
    view: CurrentView,
    name: Name | None = None,
    status: Annotated[StatusOfBatch | None, Query()] = None,
    after: QueryId | None = None,
    limit: Limit = PAGE_SIZE,
) -> BatchPage:
    """Batches and their counts, the newest first."""
    view.check()
    found = view.queue.batches(name=name, status=status, after=after, limit=limit)
    return BatchPage(found, found[-1].id if len(found) == limit else None)


@router.get("/{batch_id}")
def get_batch(view: CurrentView, batch_id: PathId) -> BatchStatus:
    """One batch and its counts."""
    view.check()
    found = view.queue.batch_status(batch_id)
    if found is None:
        raise NotFound(
            f"there is no batch {batch_id}", "check the id; finished batches are kept for a time only"
        )
    return found


@router.post("/{batch_id}/cancel")
def cancel_batch(view: CurrentView, batch_id: PathId) -> BatchCancelled:
    """Close a batch, drop its callbacks, and cancel its messages that are not finished."""
    with view.action("batch.cancel", Right.BATCHES, target=str(batch_id)) as action:
        end = time.monotonic() + BUSY_S
        messages, result = 0, Result.MORE
        while result is Result.MORE and time.monotonic() < end:
            part = view.queue.perform(ask(BatchCancel(batch_id)))
            messages, result = messages + part.messages, part.result
        if result is Result.NOT_FOUND:
            raise NotFound(f"there is no batch {batch_id}", "reload the page")
        if result is Result.FINISHED:
            raise Conflict(f"batch {batch_id} has finished", "there is nothing left to cancel")
        has_more = result is Result.MORE
        text = f"{plural(messages, 'message')} cancelled." + (
            " There are more: press again." if has_more else ""
        )
        action.outcome = text
    return BatchCancelled(batch_id, messages, has_more, text)
