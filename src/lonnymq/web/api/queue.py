"""The settings of the queue, and pausing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Body
from pydantic import Field

from lonnymq.commands import QueueSettings
from lonnymq.web.access import Right
from lonnymq.web.view import CurrentView

router = APIRouter(prefix="/queue", tags=["queue"])


@dataclass(frozen=True, slots=True)
class QueueChange:
    """While it is `paused`, nothing is served. Messages that run are finished."""

    paused: Annotated[bool, Field(strict=True)]


@router.get("")
def get_queue(view: CurrentView) -> QueueSettings:
    """The settings of the queue."""
    view.check()
    return view.queue.settings()


@router.patch("")
def change_queue(view: CurrentView, change: Annotated[QueueChange, Body()]) -> QueueSettings:
    """Pause or resume the whole queue."""
    with view.action("queue.pause" if change.paused else "queue.resume", Right.QUEUE):
        return view.queue.set(paused=change.paused)
