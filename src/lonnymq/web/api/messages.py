"""Messages: list them, and look at one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from lonnymq.client.produce import TASK_HEADER
from lonnymq.commands import FinishedMessage, ListedMessage, Message, Status
from lonnymq.monitor.server import server_time
from lonnymq.web.access import Right
from lonnymq.web.api.channel import ABOUT_OTHERS
from lonnymq.web.api.parameters import LIMIT_MAX, PAGE_SIZE, Cursor, Limit, Name, PathId
from lonnymq.web.content import Shown, shown, shown_json
from lonnymq.web.errors import NotFound
from lonnymq.web.message_story import (
    Event,
    finished_story,
    finished_text,
    known_story,
    place_text,
    status_text,
    story_of,
)
from lonnymq.web.view import CurrentView, View
from lonnymq.worker.job_log import trace_id_of

router = APIRouter(prefix="/messages", tags=["messages"])

WaitingStatus = Literal["waiting", "due", "scheduled", "leased"]
PAST_MAX = 10
"""How often a message that died and was retried is read from the history."""


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message of a list."""

    id: int
    channel: str
    status: str
    task: str | None
    lane: str
    priority: int
    created_at: int
    dequeue_at: int
    lease_end_at: int | None
    attempts: int
    max_attempts: int | None
    consumer: str | None
    error: str | None
    is_cancelled: bool
    content_bytes: int


@dataclass(frozen=True, slots=True)
class MessagePage:
    """`next` is `after` of the next page; None after the last one. A page with a lane may have fewer messages
    than were asked for, or none, and still have a next one: `searched` messages were looked at.
    """

    channel: str | None
    messages: list[MessageRow]
    searched: int
    next: str | None


@dataclass(frozen=True, slots=True)
class MessageDetails:
    """All about a message. `payload`, `headers` and `state` are None without the right to see them, and
    their secrets are hidden. `can` names the actions that are possible.
    """

    id: int
    channel: str
    status: str
    text: str
    """The status as a sentence."""
    place: int | None
    """How many messages of its channel and lane are served before it, if it is due; counted up to 1,000."""
    place_text: str | None
    task: str | None
    lane: str | None
    priority: int | None
    cost: int | None
    created_at: int | None
    dequeue_at: int | None
    finished_at: int | None
    attempts: int | None
    max_attempts: int | None
    consumer: str | None
    error: str | None
    dedupe_key: str | None
    batch_id: int | None
    content_bytes: int | None
    progress: float | None
    progress_note: str | None
    trace_id: str | None
    trace_url: str | None
    events: list[Event]
    can: list[str]
    payload: Shown | None
    headers: str | None
    state: Shown | None


@router.get("")
def list_messages(
    view: CurrentView,
    channel: Name | None = None,
    status: Annotated[WaitingStatus, Query()] = "waiting",
    lane: Name | None = None,
    after: Cursor | None = None,
    limit: Limit = PAGE_SIZE,
) -> MessagePage:
    """Messages that wait (due or scheduled) or are leased, without their content, page by page."""
    channel = view.scope(channel)
    # To find the messages of a lane, the database may have to visit all channels, or all that a channel has
    # scheduled. Then a page has what is found among so many messages.
    is_searched_here = lane is not None and status != "leased" and (status != "due" or channel is None)
    size = LIMIT_MAX if is_searched_here else limit
    found = view.queue.messages(
        channel=channel, status=status, lane=None if is_searched_here else lane, after=after, limit=size
    )
    has_more = len(found) == size
    if is_searched_here:
        places = [place for place, one in enumerate(found) if one.lane == lane]
        if len(places) > limit:
            has_more = True
            found = found[: places[limit]]
    rows = [_row(view, one) for one in found if lane is None or one.lane == lane]
    return MessagePage(channel, rows, len(found), found[-1].cursor if has_more else None)


@router.get("/{message_id}")
def get_message(view: CurrentView, message_id: PathId) -> MessageDetails:
    """One message. A finished one is shown from the history, if it is there."""
    found = find_message(view, message_id)
    now = server_time(view.queue)
    if isinstance(found, Message):
        return _of_message(view, found, now)
    if isinstance(found, Status):
        return _of_status(view, found, now)
    return _of_finished(view, found, now)


def find_message(view: View, message_id: int) -> Message | list[FinishedMessage] | Status:
    """The message, or what the history has about it, newest first, or what is known with its result. One of
    another tenant is not found, exactly like one that does not exist.
    """
    view.access.check_any(Right.READ)
    message = view.queue.get(message_id)
    if message is not None and view.access.may(Right.READ, message.channel):
        return message
    if message is None:
        past = view.queue.history(message_id=message_id, limit=PAST_MAX)
        if past and view.access.may(Right.READ, past[0].channel):
            return past
        status = view.queue.status(message_id)
        if not past and status.channel is not None and view.access.may(Right.READ, status.channel):
            return status
    raise NotFound(
        f"there is no message {message_id}: it never existed, or it finished and is not in the history",
        "check the id; queue.set(history=True) keeps a history of finished messages from now on",
    )


def task_of(headers: Any) -> str | None:
    task = headers.get(TASK_HEADER) if isinstance(headers, dict) else None
    return task if isinstance(task, str) else None


def _row(view: View, one: ListedMessage) -> MessageRow:
    return MessageRow(
        one.id,
        one.channel,
        one.status,
        task_of(one.headers),
        one.lane,
        one.priority,
        one.created_at,
        one.dequeue_at,
        one.lease_end_at,
        one.attempts,
        one.max_attempts,
        one.consumer,
        view.without_secrets(one.error),
        one.is_cancelled,
        one.content_bytes,
    )


def _of_message(view: View, message: Message, now: int) -> MessageDetails:
    status = view.queue.status(message.id) if message.status == "leased" else None
    place = view.queue.place(message.id) if message.status == "due" else None
    if place is not None and view.access.channels is not None:
        # What is ahead counts messages of other tenants.
        place = replace(place, ahead=None, reason="turn" if place.reason in ABOUT_OTHERS else place.reason)
    trace_id, trace_url = _trace(view, message.headers)
    payload, headers = _content(view, message)
    can_see = view.access.may(Right.PAYLOADS, message.channel)
    return MessageDetails(
        id=message.id,
        channel=message.channel,
        status=message.status,
        text=status_text(message, now),
        place=None if place is None else place.place,
        place_text=None if place is None else place_text(place),
        task=task_of(message.headers),
        lane=message.lane,
        priority=message.priority,
        cost=message.cost,
        created_at=message.created_at,
        dequeue_at=message.dequeue_at,
        finished_at=message.dead_at,
        attempts=message.attempts,
        max_attempts=message.max_attempts,
        consumer=message.consumer,
        error=view.without_secrets(message.error),
        dedupe_key=message.dedupe_key,
        batch_id=message.batch_id if view.access.channels is None else None,
        content_bytes=len(message.content),
        progress=None if status is None else status.progress,
        progress_note=None if status is None else status.progress_note,
        trace_id=trace_id,
        trace_url=trace_url,
        events=_without_secrets(view, story_of(message)),
        can=_possible(message),
        payload=payload,
        headers=headers,
        state=shown(message.state, None, view.options.redaction) if message.state and can_see else None,
    )


def _of_finished(view: View, found: list[FinishedMessage], now: int) -> MessageDetails:
    last = found[0]
    trace_id, trace_url = _trace(view, last.headers)
    payload, headers = _content(view, last)
    return MessageDetails(
        id=last.id,
        channel=last.channel,
        status=last.outcome,
        text=finished_text(last.outcome, last.attempts, last.finished_at, now),
        place=None,
        place_text=None,
        task=task_of(last.headers),
        lane=last.lane,
        priority=last.priority,
        cost=last.cost,
        created_at=last.created_at,
        dequeue_at=last.dequeue_at,
        finished_at=last.finished_at,
        attempts=last.attempts,
        max_attempts=None,
        consumer=last.consumer,
        error=view.without_secrets(last.error),
        dedupe_key=last.dedupe_key,
        batch_id=None,
        content_bytes=last.content_bytes,
        progress=None,
        progress_note=None,
        trace_id=trace_id,
        trace_url=trace_url,
        events=_without_secrets(view, finished_story(found)),
        can=[] if last.content is None else ["copy"],
        payload=payload,
        headers=headers,
        state=None,
    )


def _of_status(view: View, status: Status, now: int) -> MessageDetails:
    return MessageDetails(
        id=status.id,
        channel=status.channel or "",
        status=status.status,
        text=finished_text(status.status, status.attempts, status.finished_at, now),
        place=None,
        place_text=None,
        task=None,
        lane=None,
        priority=None,
        cost=None,
        created_at=status.created_at,
        dequeue_at=status.dequeue_at,
        finished_at=status.finished_at,
        attempts=status.attempts,
        max_attempts=None,
        consumer=status.consumer,
        error=view.without_secrets(status.error),
        dedupe_key=None,
        batch_id=None,
        content_bytes=None,
        progress=None,
        progress_note=None,
        trace_id=None,
        trace_url=None,
        events=_without_secrets(view, known_story(status)),
        can=[],
        payload=None,
        headers=None,
        state=None,
    )


def _without_secrets(view: View, events: list[Event]) -> list[Event]:
    return [replace(event, error=view.without_secrets(event.error)) for event in events]


def _possible(message: Message) -> list[str]:
    by_status = {
        "due": ["move to the front", "cancel"],
        "scheduled": ["run now", "cancel"],
        "leased": [] if message.is_cancelled else ["cancel"],
        "dead": ["retry", "discard"],
    }
    return [*by_status.get(message.status, []), "copy"]


def _content(view: View, message: Message | FinishedMessage) -> tuple[Shown | None, str | None]:
    if not view.access.may(Right.PAYLOADS, message.channel):
        return None, None
    redaction = view.options.redaction
    headers = None if message.headers is None else shown_json(message.headers, redaction)
    if message.content is None:
        return None, headers
    return shown(message.content, message.content_type, redaction), headers


def _trace(view: View, headers: Any) -> tuple[str | None, str | None]:
    trace_id = trace_id_of(headers if isinstance(headers, dict) else None)
    if trace_id is None or view.options.trace_url is None:
        return trace_id, None
    return trace_id, view.options.trace_url.replace("{trace_id}", trace_id)
