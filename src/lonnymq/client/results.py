"""What became of a message, and its result."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from lonnymq.client.calls import Request, Steps, ask
from lonnymq.commands import Status, StatusGet
from lonnymq.errors import InvalidArgument, MessageCancelled, MessageDead, NotFinished, ResultUnknown
from lonnymq.payload import decode
from lonnymq.statement import Command

CHECK_MS = 10_000  # how often to look while listening, in case a notification is lost
POLL_FIRST_MS = 50  # how often to look where listening is not possible: at first,
POLL_MS = 1000  # and later


@dataclass(frozen=True)
class Listen:
    """A step: listen for notifications with a key. The answer says whether that is possible."""

    channel: str
    key: str


@dataclass(frozen=True)
class Pause:
    """A step: wait for a notification, or for this long. The answer says whether the listener still
    listens.
    """

    milliseconds: int


WaitSteps = Generator[Command[Any] | Listen | Pause, Any, Any]


def status(message_id: int | None, *, conn: object | None = None) -> Request[Status]:
    """What became of a message: whether it waits, is leased, or has finished, and how far the work on it is.

    A message that finished is known if its result is kept, or if the queue keeps a history; a dead one
    always is.

        if queue.status(created.id).is_finished: ...
    """
    return ask(StatusGet(check_id(message_id)), conn)


def result(message_id: int | None, *, conn: object | None = None) -> Request[Any]:
    """The result of a message that has finished; None if its consumer gave none.

    Raises NotFinished if it waits or is leased, MessageDead or MessageCancelled if that is how it ended, and
    ResultUnknown if its result is not kept, not kept any more, or there never was such a message.
    """
    checked = check_id(message_id)

    def steps() -> Steps[Any]:
        found: Status = yield StatusGet(checked, with_result=True)
        return value_of(found)

    return Request(steps(), conn)


def wait_for_result(message_id: int, wait_ms: int | None) -> WaitSteps:
    """Wait until the message has finished, at most `wait_ms`, and return its result as `result` does.

    Listening comes before the look that decides whether to sleep, so that no notification is missed.
    """
    begun_at = time.monotonic()
    is_listening = False
    pause_ms = POLL_FIRST_MS
    found: Status = yield StatusGet(message_id, with_result=True)
    while _is_awaited(found):
        left_ms = None if wait_ms is None else wait_ms - int((time.monotonic() - begun_at) * 1000)
        if left_ms is not None and left_ms <= 0:
            break
        if not is_listening and found.notify_channel is not None and found.notify_key is not None:
            is_listening = yield Listen(found.notify_channel, found.notify_key)
            if is_listening:
                found = yield StatusGet(message_id, with_result=True)
                continue
        longest_ms = CHECK_MS if is_listening else pause_ms
        pause_ms = min(2 * pause_ms, POLL_MS)
        is_listening = yield Pause(longest_ms if left_ms is None else min(left_ms, longest_ms))
        found = yield StatusGet(message_id, with_result=True)
    return value_of(found, None if wait_ms is None else wait_ms / 1000)


def _is_awaited(found: Status) -> bool:
    return (found.is_waiting or found.is_running) and found.keep_result_ms is not None


def value_of(found: Status, waited_s: float | None = None) -> Any:
    """The result in a status. Raises the errors of `result`."""
    if found.status == "dead":
        raise MessageDead(_ended("is dead", found), "see `lonnymq messages show`", found.id, found.error)
    if found.status == "cancelled":
        raise MessageCancelled(_ended("was cancelled", found), None, found.id, found.error)
    if found.result_until_at is not None:
        return None if found.result_content is None else decode(found.result_content, found.result_type)
    if found.status == "completed" or found.keep_result_ms is None:
        is_unknown = found.status == "unknown"
        raise ResultUnknown(
            f"there is no message {found.id}, or its result is not kept any more"
            if is_unknown
            else f"the result of message {found.id} is not kept",
            "commit the transaction that enqueued it before you wait, and enqueue it with keep_result="
            if is_unknown
            else "enqueue the message with keep_result=, for long enough",
        )
    within = "" if waited_s is None else f" within {waited_s:g} s"
    raise NotFinished(
        f"message {found.id} is {found.status}, and did not finish{within}", "call it again later"
    )


def check_id(message_id: int | None) -> int:
    """Raise InvalidArgument unless it is the id of a message: a Created has none if the channel was full."""
    if type(message_id) is not int:
        hint = "the channel was full, so no message was created" if message_id is None else "give an int"
        raise InvalidArgument(f"{message_id!r} is not the id of a message", hint)
    return message_id


def _ended(how: str, found: Status) -> str:
    error = (found.error or "").strip()
    return f"message {found.id} {how}" + (f": {error.splitlines()[-1]}" if error else "")
