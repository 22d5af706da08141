"""The history: what finished last, and how long it took."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query

from lonnymq.commands import FinishedMessage, TaskSummary
from lonnymq.web.api.messages import task_of
from lonnymq.web.api.parameters import PAGE_SIZE, Limit, Name
from lonnymq.web.view import CurrentView, View

router = APIRouter(prefix="/history", tags=["history"])

SUMMARIZED = 5_000
"""How many of the newest rows the percentiles are computed from."""
MINUTES_MAX = 100_000


@dataclass(frozen=True, slots=True)
class FinishedRow:
    """A finished message. `waited_ms` is the time from when it was due to its first attempt, `worked_ms` that
    of its last attempt.
    """

    id: int
    channel: str
    task: str | None
    lane: str
    outcome: str
    finished_at: int
    waited_ms: int | None
    worked_ms: int | None
    attempts: int
    consumer: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """The newest first. Without a history (`is_kept`), there is nothing to list."""

    channel: str | None
    is_kept: bool
    messages: list[FinishedRow]


@router.get("")
def list_history(view: CurrentView, channel: Name | None = None, limit: Limit = PAGE_SIZE) -> HistoryPage:
    """The messages that finished last, without their content."""
    channel = view.scope(channel)
    found = view.queue.history(channel=channel, limit=limit, with_content=False)
    return HistoryPage(channel, view.queue.settings().history, [_row(view, one) for one in found])


@router.get("/summary")
def summarize_history(
    view: CurrentView,
    channel: Name | None = None,
    minutes: Annotated[int | None, Query(ge=1, le=MINUTES_MAX)] = None,
) -> list[TaskSummary]:
    """Percentiles by task, from the newest rows, of the last minutes if given."""
    channel = view.scope(channel)
    since = None if minutes is None else datetime.now(UTC) - timedelta(minutes=minutes)
    return view.queue.history_summary(channel=channel, since=since, rows=SUMMARIZED)


def _row(view: View, one: FinishedMessage) -> FinishedRow:
    return FinishedRow(
        one.id,
        one.channel,
        task_of(one.headers),
        one.lane,
        one.outcome,
        one.finished_at,
        one.waited_ms,
        one.worked_ms,
        one.attempts,
        one.consumer,
        view.without_secrets(one.error),
    )
