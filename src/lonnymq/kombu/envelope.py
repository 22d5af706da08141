"""A message of kombu as one of the queue, and back."""

from __future__ import annotations

import time
from base64 import b64decode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kombu.utils.json import dumps, loads

from lonnymq.client.produce import TASK_HEADER
from lonnymq.commands import Delivery
from lonnymq.errors import BrokenContent
from lonnymq.kombu.options import Options
from lonnymq.kombu.tenant import channel_of
from lonnymq.message_options import DEFAULT_CHANNEL, OPTIONS, NewMessage
from lonnymq.payload import HEADER, JSON

EXPIRES_AT = "expires_at"
"""In the content: the Unix time after which the message is not delivered."""


def sealed(message: Mapping[str, Any], lane: str, options: Options) -> NewMessage:
    """The message of the queue. Its content is kombu's message as JSON; its headers are for people."""
    channel = channel_of(message, options)
    headers = dict(message.get("headers") or {})
    run_at = due_time(headers.get("eta"))
    shown: dict[str, Any] = {HEADER: JSON}
    if isinstance(task := headers.get("task"), str):
        shown[TASK_HEADER] = task
    if isinstance(task_id := headers.get("id"), str):
        shown["task_id"] = task_id
    if run_at is not None:
        shown["eta"] = str(headers["eta"])
    if channel != DEFAULT_CHANNEL:
        headers[options.channel_header] = channel
    return NewMessage(
        content_of({**message, "headers": headers}),
        channel,
        run_at=run_at,
        priority=priority_of(message["properties"]),
        headers=shown,
        max_attempts=options.max_attempts,
        lane=lane,
    )


def content_of(message: Mapping[str, Any]) -> bytes:
    expires_at = _expires_at(message["properties"])
    if expires_at is not None:
        message = {EXPIRES_AT: expires_at, **message}  # one that it has already stays
    return str(dumps(message)).encode()


def opened(delivery: Delivery, tag: str) -> dict[str, Any]:
    """kombu's message, with the tag that acknowledges this delivery."""
    message = message_of(delivery.content, tag)
    message["properties"]["delivery_info"]["redelivered"] = delivery.attempts > 1
    eta = due_time(message["headers"].get("eta"))
    if eta is not None and eta > (now := datetime.now(UTC)):
        # It is due by the database's clock, or someone made it due. A worker would wait for the time.
        message["headers"]["eta"] = now.isoformat()
    return message


def message_of(content: bytes, tag: str) -> dict[str, Any]:
    """Raises BrokenContent if it is not a message of kombu: other programs can write into the lane."""
    try:
        message: dict[str, Any] = loads(content.decode())
        properties = dict(message["properties"])
        info = dict(properties.get("delivery_info") or {})
        headers = dict(message.get("headers") or {})
        if properties.get("body_encoding") == "base64":
            b64decode(message["body"])
        elif properties.get("body_encoding") or not isinstance(message["body"], str):
            raise TypeError("the body is not text")  # noqa: TRY301
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise BrokenContent(f"it is not a message of kombu: {error!r}") from error
    return {
        **message,
        "headers": headers,
        "properties": {**properties, "delivery_tag": tag, "delivery_info": info},
    }


def is_expired(message: Mapping[str, Any]) -> bool:
    """Whether the message was published with an `expiration` that is over."""
    expires_at = message.get(EXPIRES_AT)
    return isinstance(expires_at, int | float) and time.time() > expires_at


def due_time(eta: object) -> datetime | None:
    """The time in Celery's header `eta`. If it has no time zone, or is not a time, the consumer decides."""
    if isinstance(eta, str):
        try:
            eta = datetime.fromisoformat(eta)
        except ValueError:
            return None
    return eta if isinstance(eta, datetime) and eta.tzinfo is not None else None


def _expires_at(properties: Mapping[str, Any]) -> float | None:
    """kombu writes the expiration as a string of milliseconds."""
    try:
        return time.time() + int(properties["expiration"]) / 1000
    except (KeyError, TypeError, ValueError):
        return None


def priority_of(properties: Mapping[str, Any]) -> int | None:
    """A higher priority is served first. None for the usual one."""
    given = properties.get("priority")
    if type(given) is not int or given == 0:
        return None
    limits = OPTIONS["priority"]
    return max(limits.least or 0, min(given, limits.most or 0))
