"""What producers ask for."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Literal, get_args

from lonnymq.client.calls import Request, Steps
from lonnymq.client.times import Duration, schedule
from lonnymq.commands import Created, MessageCreate, MessageCreateMany, Result
from lonnymq.errors import ChannelFull, InvalidArgument, InvalidChannel, InvalidField, NotEncodable
from lonnymq.payload import HEADER, encode

DEFAULT_CHANNEL = "default"
DEFAULT_LANE = "default"
TASK_HEADER = "task"
"""The header that names the task which a message is a call of."""

OnFull = Literal["raise", "return"]
"""What to do when a channel is full: raise ChannelFull, or return the result `full`."""


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
    content_type: str | None = None
    cost: int | None = None
    lane: str | None = None


def enqueue(
    value: Any,
    *,
    channel: str = DEFAULT_CHANNEL,
    run_at: datetime | None = None,
    delay: Duration | None = None,
    priority: int | None = None,
    cost: int | None = None,
    lane: str | None = None,
    dedupe_key: str | None = None,
    headers: Mapping[str, Any] | None = None,
    max_attempts: int | None = None,
    content_type: str | None = None,
    on_full: OnFull = "raise",
    conn: object | None = None,
) -> Request[Created]:
    """Queue one message.

    `value` is written as JSON, or as MessagePack with `content_type="application/msgpack"`: plain values,
    msgspec Structs, dataclasses and pydantic models. Bytes are taken as they are, of whatever type you say.

    It is served at once, in the order of arrival within its `channel`, or not before `run_at` (an aware
    datetime) or a `delay` (a timedelta, or seconds by the database's clock). Those of a higher `priority`
    (-100 to 100, 0 unless given) come first, within their channel only, and keep it when they are retried.

    Channels take turns. A message with a `cost` of 5 takes as much of its channel's share as five others
    (1 to 1,000,000, 1 unless given). Its `lane` (`default` unless given) is a class of work: consumers may
    serve some lanes only.

    While a message with the same `dedupe_key` lives in the channel, and some time after, no second one is
    made: the answer's result is then `duplicate` and its id that message's.

    Raises ChannelFull when the channel holds its `max_size`. With `on_full="return"` it does not: the result
    is then `full`, and the id None. Either way nothing is created, and a transaction of yours can go on.

    With `conn`, the message is part of the caller's transaction: it is there when that commits. Take a
    connection or cursor of psycopg, a connection of asyncpg, a connection or session of SQLAlchemy, or
    Django's connection; it is never committed, rolled back or changed.

        queue.enqueue({"invoice": 7}, channel="acme", delay=60)
    """
    if isinstance(value, NewMessage):
        raise InvalidArgument(
            "a NewMessage is for enqueue_many", "give its value, and what else it says by name"
        )
    message = NewMessage(
        value, channel, run_at, delay, priority, dedupe_key, headers, max_attempts, content_type, cost, lane
    )
    return Request(_create(message, raise_full=raises_when_full(on_full)), conn)


def check_many(values: object, what: str) -> None:
    """Raises InvalidField for one where many are meant. Text and dicts would be taken apart."""
    if not isinstance(values, Iterable) or isinstance(values, str | bytes | Mapping):
        raise InvalidField(f"{reprlib.repr(values)} is not a list of {what}", "give a list, even of one")


def raises_when_full(on_full: OnFull) -> bool:
    """Raises InvalidArgument for a value that on_full does not take."""
    if on_full not in get_args(OnFull):
        raise InvalidArgument(f"on_full is {on_full!r}", 'give "raise" or "return"')
    return on_full == "raise"


def _create(message: NewMessage, *, raise_full: bool) -> Steps[Created]:
    content, headers = _written(message)
    dequeue_at, delay_ms = schedule(message.run_at, message.delay)
    created: Created = yield MessageCreate(
        message.channel,
        content,
        dequeue_at,
        headers,
        message.max_attempts,
        message.dedupe_key,
        delay_ms,
        message.priority,
        message.cost,
        message.lane,
    )
    if raise_full and created.result == Result.FULL:
        raise ChannelFull(
            f"channel {message.channel!r} is full",
            'try again when there is room, raise its max_size, or pass on_full="return" to get the result',
        )
    return created


def _written(message: NewMessage) -> tuple[bytes, Mapping[str, Any] | None]:
    """The content, and the headers with its type; a type among the headers counts."""
    if not isinstance(message.channel, str):
        raise InvalidChannel(f"{message.channel!r} is not the name of a channel", "give text")
    check_lane(message.lane)
    for name, number in (("priority", message.priority), ("cost", message.cost)):
        if number is not None and type(number) is not int:
            raise InvalidField(f"{name}: {number!r} is not a whole number", "give an int")
    given = _checked(message.headers) if message.headers else {}
    content, content_type = encode(message.value, given.get(HEADER, message.content_type))
    if content_type is None or HEADER in given:
        return content, given or None
    return content, {**given, HEADER: content_type} if given else _type_alone(content_type)


def check_lane(lane: str | None) -> None:
    if lane is not None and not isinstance(lane, str):
        raise InvalidField(f"{lane!r} is not the name of a lane", "give text")


def _checked(headers: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(headers, Mapping):
        raise InvalidField(f"headers of {type(headers).__name__} are not headers", "give a dict")
    plain = dict(headers)
    try:
        json.dumps(plain)
    except (TypeError, ValueError) as error:
        raise NotEncodable(f"the headers cannot be written as JSON: {error}") from error
    return plain


@cache
def _type_alone(content_type: str) -> Mapping[str, Any]:
    return {HEADER: content_type}


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What has come of enqueue_many so far. `latest`: of the last chunk, in the order given."""

    created: int = 0
    duplicates: int = 0
    full: int = 0
    latest: Sequence[Created] = field(default=(), repr=False)

    @property
    def total(self) -> int:
        """How many were given, whatever came of them."""
        return self.created + self.duplicates + self.full

    def plus(
        self, latest: Sequence[Created], progress: Callable[[Enqueued], object] | None = None
    ) -> Enqueued:
        """With one chunk more, and told."""
        if not latest:
            return self
        results = [created.result for created in latest]
        so_far = Enqueued(
            self.created + results.count(Result.CREATED),
            self.duplicates + results.count(Result.DUPLICATE),
            self.full + results.count(Result.FULL),
            latest,
        )
        if progress is not None:
            progress(so_far)
        return so_far


class Batch:
    """Messages on their way to one call, up to a number and a size."""

    max_messages = 5_000
    max_bytes = 4_000_000

    def __init__(self, channel: str, *, raise_full: bool) -> None:
        self._raise_full = raise_full
        self._plain = NewMessage(None, channel)
        self._messages: list[NewMessage] = []
        self._contents: list[bytes] = []
        self._headers: list[Mapping[str, Any] | None] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, item: Any) -> bool:
        """Whether the batch is full now."""
        if isinstance(item, NewMessage):
            message, (content, headers) = item, _written(item)
        else:
            message, (content, content_type) = self._plain, encode(item)
            headers = None if content_type is None else _type_alone(content_type)
        self._messages.append(message)
        self._contents.append(content)
        self._headers.append(headers)
        self._bytes += len(content)
        return len(self._messages) >= self.max_messages or self._bytes >= self.max_bytes

    def steps(self) -> Steps[list[Created]]:
        """Creates what the batch holds."""
        try:
            created: list[Created] = yield self._command()
        except ChannelFull as error:
            raise ChannelFull(
                error.message,
                "try again when there is room, raise its max_size, or pass "
                'on_full="return" to leave out the messages that do not fit',
            ) from error
        return created

    def _command(self) -> MessageCreateMany:
        messages = self._messages
        if all(message is self._plain for message in messages):
            return MessageCreateMany(
                [self._plain.channel] * len(messages),
                self._contents,
                headers=_unless_empty(self._headers),
                raise_full=self._raise_full,
            )
        schedules = [schedule(m.run_at, m.delay) for m in messages]
        return MessageCreateMany(
            [m.channel for m in messages],
            self._contents,
            _unless_empty([dequeue_at for dequeue_at, _ in schedules]),
            _unless_empty(self._headers),
            _unless_empty([m.max_attempts for m in messages]),
            _unless_empty([m.dedupe_key for m in messages]),
            self._raise_full,
            _unless_empty([delay_ms for _, delay_ms in schedules]),
            _unless_empty([m.priority for m in messages]),
            _unless_empty([m.cost for m in messages]),
            _unless_empty([m.lane for m in messages]),
        )


def batches(values: Iterable[Any], channel: str, *, raise_full: bool) -> Iterator[Batch]:
    batch = Batch(channel, raise_full=raise_full)
    for value in values:
        if batch.add(value):
            yield batch
            batch = Batch(channel, raise_full=raise_full)
    if len(batch):
        yield batch


def _unless_empty(values: list[Any]) -> list[Any] | None:
    return values if any(value is not None for value in values) else None
