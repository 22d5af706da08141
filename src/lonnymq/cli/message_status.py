"""What `messages show` prints about a message that runs or has finished."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from lonnymq.cli.printing import SHOWN_CHARACTERS
from lonnymq.errors import PayloadError
from lonnymq.formatting import exactly, printable, when
from lonnymq.payload import decode

if TYPE_CHECKING:
    from lonnymq.commands import Status

PROGRESS = ("progress", "progress_note", "progress_at")
FINISHED = (
    *("id", "channel", "status", "created_at", "dequeue_at", "dequeued_at", "finished_at", "attempts"),
    *("consumer", "error", "result_until_at"),
)


def progress_text(status: Status, now: int) -> str:
    """How far the work is, for people; empty if it was not reported."""
    if status.progress is None or status.progress_at is None:
        return ""
    note = f"{printable(status.progress_note)}, " if status.progress_note else ""
    return f"{status.progress:.0%}: {note}{when(status.progress_at, now)}"


def finished_fields(status: Status, now: int) -> list[tuple[str, str]]:
    """The fields to show of a message that has finished."""
    result = _result(status)
    text = json.dumps(result["result"], ensure_ascii=False) if "result" in result else ""
    if "result_base64" in result:
        text = repr(status.result_content)
    if len(text) > SHOWN_CHARACTERS:
        text = f"{text[:SHOWN_CHARACTERS]} ... (--json prints all of it)"
    error = "\n".join(printable(line) for line in (status.error or "").splitlines())
    return [
        ("id", str(status.id)),
        ("channel", printable(status.channel or "")),
        ("status", status.status),
        ("created", exactly(status.created_at, now)),
        ("last taken", exactly(status.dequeued_at, now)),
        ("finished", exactly(status.finished_at, now)),
        ("attempts", "" if status.attempts is None else str(status.attempts)),
        ("consumer", printable(status.consumer or "")),
        ("error", error),
        ("result kept until", exactly(status.result_until_at, now)),
        ("result", printable(text)),
    ]


def finished_json(status: Status) -> dict[str, object]:
    """The fields of a message that has finished, as JSON values."""
    return {name: getattr(status, name) for name in FINISHED} | _result(status)


def progress_json(status: Status) -> dict[str, object]:
    return {name: getattr(status, name) for name in PROGRESS}


def _result(status: Status) -> dict[str, object]:
    """The decoded result where JSON can hold it, other bytes as base64."""
    if status.result_content is None:
        return {}
    try:
        value = decode(status.result_content, status.result_type)
        json.dumps(value, allow_nan=False)
    except (PayloadError, TypeError, ValueError, RecursionError):
        return {"result_base64": base64.b64encode(status.result_content).decode()}
    return {"result": value}
