"""Messages: run one now, cancel it, retry it, copy it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, NoReturn

from fastapi import APIRouter, Body
from pydantic import Field

from lonnymq.commands import FinishedMessage, Message, Result, Status
from lonnymq.web.access import Right
from lonnymq.web.api.messages import find_message
from lonnymq.web.api.parameters import PathId, exact
from lonnymq.web.errors import Conflict, NotFound
from lonnymq.web.view import CurrentView, View

router = APIRouter(prefix="/messages/{message_id}", tags=["messages"])

MS_PER_S = 1000


@exact
@dataclass(frozen=True, slots=True)
class RunNow:
    """With `first`, it is served before the other messages of its channel and priority."""

    first: Annotated[bool, Field(strict=True)] = False


@dataclass(frozen=True, slots=True)
class ChangedMessage:
    """What was done. A leased message that is cancelled is `marked`: its consumer learns of it when it next
    extends or finishes it. For a copy, `id` is that of the new message.
    """

    id: int
    result: Literal["rescheduled", "cancelled", "marked", "retried", "created"]
    text: str = field(default="")


@router.post("/run-now")
def run_message_now(
    view: CurrentView, message_id: PathId, wanted: Annotated[RunNow | None, Body()] = None
) -> ChangedMessage:
    """Make a scheduled message due now, or move it to the front."""
    message = _waiting(view, message_id)
    first = wanted is not None and wanted.first
    name = "message.first" if first else "message.run_now"
    with view.action(name, Right.MESSAGES, channel=message.channel, target=str(message_id)):
        if message.status == "due" and not first:
            raise Conflict(f"message {message_id} is due already", "move it to the front instead")
        result = view.queue.reschedule(message_id, first=first)
        if result is not Result.RESCHEDULED:
            _refuse(message_id, result)
    text = "It is now the first of its tenant." if first else "It is due now."
    return ChangedMessage(message_id, "rescheduled", text)


@router.post("/cancel")
def cancel_message(view: CurrentView, message_id: PathId) -> ChangedMessage:
    """Cancel a message that waits or is leased."""
    message = _waiting(view, message_id)
    with view.action(
        "message.cancel", Right.MESSAGES, channel=message.channel, target=str(message_id)
    ) as action:
        result = view.queue.cancel(message_id)
        action.outcome = str(result)
        if result is Result.MARKED:
            text = "It is marked as cancelled: its consumer learns of it when it next extends or finishes it."
            return ChangedMessage(message_id, "marked", text)
        if result is not Result.CANCELLED:
            _refuse(message_id, result)
    return ChangedMessage(message_id, "cancelled", "It is cancelled.")


@router.post("/retry")
def retry_message(view: CurrentView, message_id: PathId) -> ChangedMessage:
    """Put a dead letter back into its channel, due now, with a fresh count of attempts."""
    message = _present(view, message_id)
    with view.action("message.retry", Right.MESSAGES, channel=message.channel, target=str(message_id)):
        if message.status != "dead":
            raise Conflict(f"message {message_id} is not a dead letter", "only dead letters can be retried")
        (outcome,) = view.queue.dead.retry([message_id])
        if outcome.result is not Result.RETRIED:
            _refuse(message_id, outcome.result)
    return ChangedMessage(message_id, "retried", "It is due again.")


@router.post("/copy")
def copy_message(view: CurrentView, message_id: PathId) -> ChangedMessage:
    """Enqueue the same content, headers and options as a new message, without the dedupe key and the batch.
    A finished message can be copied if the history has its content.
    """
    found = find_message(view, message_id)
    source = found[0] if isinstance(found, list) else found
    with view.action(
        "message.copy", Right.MESSAGES, channel=source.channel, target=str(message_id)
    ) as action:
        if isinstance(source, Status) or source.content is None:
            raise Conflict(
                f"message {message_id} has finished, and its content was not kept",
                "queue.set(history_content=True) keeps it from now on",
            )
        new_id = _enqueue_again(view, source, source.content)
        action.outcome = f"created {new_id}"
    return ChangedMessage(new_id, "created", f"The copy is message {new_id}.")


def _enqueue_again(view: View, source: Message | FinishedMessage, content: bytes) -> int:
    kept = source.keep_result_ms if isinstance(source, Message) else None
    created = view.queue.enqueue(
        content,
        channel=source.channel,
        headers=source.headers,
        lane=source.lane,
        priority=source.priority,
        cost=source.cost,
        max_attempts=source.max_attempts if isinstance(source, Message) else None,
        keep_result=None if kept is None else kept / MS_PER_S,
    )
    if created.id is None:  # it raises if the channel is full
        raise Conflict("the copy was not created", "try again")
    return created.id


def _present(view: View, message_id: int) -> Message:
    """A message that has not finished, or is dead."""
    found = find_message(view, message_id)
    if isinstance(found, Message):
        return found
    raise Conflict(f"message {message_id} has finished", "copy it, if the history has its content")


def _waiting(view: View, message_id: int) -> Message:
    message = _present(view, message_id)
    if message.status == "dead":
        view.check(Right.MESSAGES, message.channel)
        _refuse(message_id, Result.DEAD)
    return message


def _refuse(message_id: int, result: Result) -> NoReturn:
    if result is Result.LEASED:
        raise Conflict(f"a consumer has message {message_id}", "wait for it, or cancel the message")
    if result is Result.DEAD:
        raise Conflict(f"message {message_id} is a dead letter", "retry it, or discard it")
    if result is Result.DUPLICATE:
        raise Conflict(
            f"another message has the dedupe key of message {message_id}", "wait for it, or cancel it"
        )
    if result is Result.FULL:
        raise Conflict(f"the tenant of message {message_id} is full", "wait, or raise its max_size")
    raise NotFound(f"message {message_id} has finished meanwhile", "reload the page")
