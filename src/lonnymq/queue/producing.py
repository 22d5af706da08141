"""What producers ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lonnymq.commands import Created, MessageCreate, MessageCreateMany, Result
from lonnymq.payload import HEADER, JSON, encode
from lonnymq.queue.calls import Request, Steps
from lonnymq.queue.times import Duration, ServerClock, dequeue_at

DEFAULT_CHANNEL = "default"


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be: for enqueue_many, where messages differ in more than their value."""

    value: Any
    channel: str = DEFAULT_CHANNEL
    run_at: datetime | None = None
    delay: Duration | None = None
    priority: int | None = None
    dedupe_key: str | None = None
    headers: Mapping[str, Any] | None = None
    max_attempts: int | None = None
    content_type: str = JSON


def enqueue(
    value: Any,
    *,
    channel: str = DEFAULT_CHANNEL,
    run_at: datetime | None = None,
    delay: Duration | None = None,
    priority: int | None = None,
    dedupe_key: str | None = None,
    headers: Mapping[str, Any] | None = None,
    max_attempts: int | None = None,
    content_type: str = JSON,
    conn: object | None = None,
) -> Request[Created]:
    """Queue one message.

    `value` is written as JSON, or as MessagePack with `content_type="application/msgpack"`: plain values,
    msgspec Structs, dataclasses and pydantic models. Bytes are taken as they are.

    It is served at once, in the order of arrival within its `channel`; or not before `run_at` (an aware
    datetime) or a `delay` (a timedelta, or seconds by the database's clock); or with a `priority`, 1 and up,
    before all that has none, the higher first.

    While a message with the same `dedupe_key` lives in the channel, and some time after, no second one is
    made: the answer's result is then `duplicate` and its id that message's. In a channel that is full, it is
    `full`, and the id None.

    With `conn`, the message is part of the caller's transaction: it is there when that commits. Take a
    connection or cursor of psycopg, a connection of asyncpg, a connection or session of SQLAlchemy, or
    Django's connection; it is never committed, rolled back or changed.

        queue.enqueue({"invoice": 7}, channel="acme", delay=60)
    """
    message = NewMessage(
        value, channel, run_at, delay, priority, dedupe_key, headers, max_attempts, content_type
    )
    return Request(_create(message), conn)


def _create(message: NewMessage) -> Steps[Created]:
    content, headers = _written(message)
    now = (yield ServerClock()) if message.delay is not None else None
    created: Created = yield MessageCreate(
        message.channel,
        content,
        dequeue_at(message.run_at, message.delay, message.priority, now),
        headers,
        message.max_attempts,
        message.dedupe_key,
    )
    return created


def _written(message: NewMessage) -> tuple[bytes, dict[str, Any] | None]:
    """The content, and the headers with its type; a type among the headers counts."""
    given = dict(message.headers or {})
    content, content_type = encode(message.value, given.get(HEADER, message.content_type))
    if content_type is not None:
        given[HEADER] = content_type
    return content, given or None


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What has come of enqueue_many so far. `latest`: of the last chunk, in the order given."""

    created: int = 0
    duplicates: int = 0
    full: int = 0
    latest: Sequence[Created] = field(default=(), repr=False)

    @property
    def total(self) -> int:
        return self.created + self.duplicates + self.full


class Batch:
    """Messages on their way to one call, up to a number and a size."""

    max_messages = 5_000
    max_bytes = 4_000_000

    def __init__(self, channel: str) -> None:
        self.channel = channel
        self.so_far = Enqueued()
        self._clear()

    def _clear(self) -> None:
        self._messages: list[NewMessage] = []
        self._contents: list[bytes] = []
        self._headers: list[dict[str, Any] | None] = []
        self._bytes = 0

    def add(self, item: Any) -> bool:
        """Whether the batch is full now."""
        message = item if isinstance(item, NewMessage) else NewMessage(item, self.channel)
        content, headers = _written(message)
        self._messages.append(message)
        self._contents.append(content)
        self._headers.append(headers)
        self._bytes += len(content)
        return len(self._messages) >= self.max_messages or self._bytes >= self.max_bytes

    def __bool__(self) -> bool:
        return bool(self._messages)

    def steps(self) -> Steps[Enqueued]:
        """Creates what the batch holds, and empties it."""
        messages = self._messages
        now = (yield ServerClock()) if any(m.delay is not None for m in messages) else None
        ats = [dequeue_at(m.run_at, m.delay, m.priority, now) for m in messages]
        created: list[Created] = yield MessageCreateMany(
            [m.channel for m in messages],
            self._contents,
            _unless_empty(ats),
            _unless_empty(self._headers),
            _unless_empty([m.max_attempts for m in messages]),
            _unless_empty([m.dedupe_key for m in messages]),
        )
        self._clear()
        results = [one.result for one in created]
        self.so_far = Enqueued(
            self.so_far.created + results.count(Result.CREATED),
            self.so_far.duplicates + results.count(Result.DUPLICATE),
            self.so_far.full + results.count(Result.FULL),
            created,
        )
        return self.so_far


def _unless_empty(values: list[Any]) -> list[Any] | None:
    return values if any(value is not None for value in values) else None
