"""Followers of the history, such as the job that archives it in a lake: how far behind, forget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Body
from pydantic import Field

from lonnymq.client.calls import ask
from lonnymq.commands import HistoryUnread
from lonnymq.web.access import Right
from lonnymq.web.errors import NotFound
from lonnymq.web.view import CurrentView

router = APIRouter(prefix="/followers", tags=["lake"])

UNREAD_MAX = 10_000


@dataclass(frozen=True, slots=True)
class ListedFollower:
    """A reader of the history. `read_at` is when it last said how far it has read. `unread` messages have
    finished since then; 10,000 if there are more.
    """

    name: str
    read_at: int
    unread: int


@dataclass(frozen=True, slots=True)
class FollowerToForget:
    name: Annotated[str, Field(min_length=1, max_length=1000)]


@router.get("")
def list_followers(view: CurrentView) -> list[ListedFollower]:
    """The readers for which the history is kept, and how far behind they are."""
    view.check()
    return [
        ListedFollower(
            follower.name, follower.at, view.queue.perform(ask(HistoryUnread(follower.snapshot, UNREAD_MAX)))
        )
        for follower in view.queue.followers()
    ]


@router.post("/forget")
def forget_follower(view: CurrentView, forget: Annotated[FollowerToForget, Body()]) -> FollowerToForget:
    """Forget a follower that will not come back, so that the history is no longer kept for it."""
    with view.action("follower.forget", Right.QUEUE, target=forget.name):
        if not view.queue.forget_follower(forget.name):
            raise NotFound(f"there is no follower {forget.name!r}", "reload the page")
    return forget
