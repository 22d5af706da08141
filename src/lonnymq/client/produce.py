"""The calls of a producer: enqueue, and the chunks of enqueue_many."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, Unpack, get_args

from lonnymq.client.calls import Request, Steps, shows
from lonnymq.client.times import optional_milliseconds, schedule, waiting
from lonnymq.commands import Created, MessageCreate, MessageCreateMany, Result
from lonnymq.errors import (
    ChannelFull,
    InvalidArgument,
    InvalidChannel,
    InvalidField,
    InvalidMaxAttempts,
    NotEncodable,
)
from lonnymq.message_options import (
    DEFAULT_CHANNEL,
    OPTIONS,
    UNCHANGED,
    Kind,
    MessageOptions,
    NewMessage,
    TaskOptions,
    WorkOptions,
)
from lonnymq.payload import HEADER, encode

TASK_HEADER = "task"
"""The header with the name of the task, if the message is a call of one."""

OnFull = Literal["raise", "return"]
"""What to do when a channel is full: raise ChannelFull, or return the result `full`."""


@shows(MessageOptions)
def enqueue(
    payload: Any,
    *,
    channel: str = DEFAULT_CHANNEL,
    on_full: OnFull = "raise",
    conn: object | None = None,
    **options: Unpack[MessageOptions],
) -> Request[Created]:
    """Enqueue one message.

    The payload is written as JSON, or as MessagePack with `content_type="application/msgpack"`. It can be a
    plain value, a msgspec Struct, a dataclass or a pydantic model. Bytes are stored as they are.

    The message is served in the order of arrival within its `channel`, or not before `run_at` (an aware
    datetime) or a `delay` (a timedelta, or seconds). A higher `priority` (-100 to 100) is served first,
    within its channel only; a retry keeps it.

    Channels take turns. A message with a `cost` of 5 uses as much of its channel's share as five others. Its
    `lane` is a class of work: consumers may serve some lanes only.

    While a message holds its `dedupe_key`, no other with the same key is created in its channel: the result
    is then `duplicate`, and the id is that of the message with the key. It holds the key while it waits:
    once it has started, the next enqueue creates another message. With `unique_while="running"` it holds
    the key until it has finished, and with `unique_for` (a timedelta, or seconds) for that long after.

    With `keep_result`, what became of the message is kept for this long after it has finished, together with
    the result that its consumer gives, if any: see `status`, `result` and `wait`.

    With a `batch_id`, the message belongs to that batch, which must be open: see `batch`.

    Raises ChannelFull if the channel already holds its `max_size`. With `on_full="return"` the result is
    `full` instead, and the id None. Either way nothing is created, and your transaction can go on.

    With `conn`, the message is part of your transaction: it exists once that commits. Pass a connection or
    cursor of psycopg or psycopg2, a connection of asyncpg, a connection or session of SQLAlchemy, or Django's
    `connection`.

        with psycopg.connect(dsn) as conn:
            conn.execute("INSERT INTO invoice (id) VALUES (7)")
            queue.enqueue({"invoice": 7}, channel="acme", conn=conn)
    """
    if isinstance(payload, NewMessage):
        raise InvalidArgument(
            "enqueue does not take a NewMessage", "pass its payload and options, or use enqueue_many"
        )
    check_names("enqueue", options, MessageOptions, "channel", "on_full", "conn")
    message = NewMessage(payload, channel, **options)
    return Request(_create(message, raise_full=raises_when_full(on_full)), conn)


def check_names(call: str, options: Mapping[str, Any], allowed: type, *named: str) -> None:
    """Raise TypeError for an option that the call does not have, as Python does for other calls. `allowed` is
    the TypedDict of its options; `named` are those that its signature names.
    """
    for name in options:
        if name not in allowed.__annotations__:
            raise TypeError(
                f"{call}() got an unexpected keyword argument {name!r}; its options are"
                f" {', '.join([*named, *allowed.__annotations__])}"
            )


def check_many(values: object, what: str) -> None:
    """Raise InvalidField unless the argument is a list. A string or a dict can be iterated over too, but is
    a mistake.
    """
    if not isinstance(values, Iterable) or isinstance(values, str | bytes | Mapping):
        raise InvalidField(f"{reprlib.repr(values)} is not a list of {what}", "give a list, even for one")


def raises_when_full(on_full: OnFull) -> bool:
    """Raise InvalidArgument unless `on_full` is one of its two values."""
    if on_full not in get_args(OnFull):
        raise InvalidArgument(f"on_full is {on_full!r}", 'give "raise" or "return"')
    return on_full == "raise"


def _create(message: NewMessage, *, raise_full: bool) -> Steps[Created]:
    content, headers = encoded(message)
    dequeue_at, delay_ms = schedule(message.run_at, message.delay)
    unchanged: dict[str, Any] = {name: getattr(message, name) for name in UNCHANGED}
    created: Created = yield MessageCreate(
        message.channel,
        content,
        dequeue_at=dequeue_at,
        delay_ms=delay_ms,
        headers=headers,
        unique_for_ms=optional_milliseconds(message.unique_for),
        keep_result_ms=optional_milliseconds(message.keep_result),
        **unchanged,
    )
    if raise_full and created.result == Result.FULL:
        raise ChannelFull(
            f"channel {message.channel!r} is full",
            'try again when there is room, raise its max_size, or pass on_full="return" to get the result',
        )
    return created


def encoded(message: NewMessage) -> tuple[bytes, Mapping[str, Any] | None]:
    """Encode the payload, and add its type to the headers unless they already name one."""
    if not isinstance(message.channel, str):
        raise InvalidChannel(f"channel: {message.channel!r} is not a string", "give the name of a channel")
    for name in UNCHANGED:
        check_option(name, getattr(message, name))
    given = {} if message.headers is None else check_headers(message.headers)
    content, content_type = encode(message.payload, given.get(HEADER, message.content_type))
    if content_type is None or HEADER in given:
        return content, given or None
    return content, {**given, HEADER: content_type} if given else _type_header(content_type)


def check_option(name: str, value: object) -> None:
    """Raise InvalidField if an option has a value of the wrong type. The database checks ranges."""
    if value is None:
        return
    if OPTIONS[name].kind is Kind.NUMBER and type(value) is not int:
        raise InvalidField(f"{name}: {value!r} is not a whole number", "give an int")
    if OPTIONS[name].kind is Kind.TEXT and not isinstance(value, str):
        raise InvalidField(f"{name}: {value!r} is not a string", "give a str")


def check_work_options(options: WorkOptions | TaskOptions) -> None:
    """Raise InvalidField or InvalidMaxAttempts if an option of a task or schedule is not valid. Ranges are
    checked too: its messages are created later.
    """
    if (headers := options.get("headers")) is not None:
        check_headers(headers)
    for duration in ("keep_result", "unique_for"):
        if (given := options.get(duration)) is not None:
            waiting(given)  # type: ignore[arg-type]
    if options.get("unique_while") == "waiting" and options.get("unique_for") is not None:
        raise InvalidField("unique_while is waiting, and unique_for is given", "give one of the two")
    for name, value in options.items():
        if name in UNCHANGED and value is not None:
            if name != "max_attempts":  # it has an error class of its own
                check_option(name, value)
            _check_range(name, value)


def _check_range(name: str, value: Any) -> None:
    option = OPTIONS[name]
    if option.choices and value not in option.choices:
        raise InvalidField(f"{name}: {value!r} is not known", option.allowed)
    if option.kind is Kind.NUMBER:
        size = value if type(value) is int else None
    else:
        size = len(value.encode(errors="replace")) if isinstance(value, str) else None
    if size is None or (option.least or 0) > size or size > (option.most or size):
        error = InvalidMaxAttempts if name == "max_attempts" else InvalidField
        raise error(f"{name}: {value!r} is not valid", option.allowed)


def check_headers(headers: Mapping[str, Any]) -> Mapping[str, Any]:
    """The headers as a dict. Raises InvalidField or NotEncodable if they cannot be stored."""
    if not isinstance(headers, Mapping):
        raise InvalidField(f"headers: a {type(headers).__name__} is not a dict", "give a dict")
    plain = dict(headers)
    try:
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise NotEncodable(f"the headers cannot be written as JSON: {error}") from error
    return plain


@cache
def _type_header(content_type: str) -> Mapping[str, Any]:
    return {HEADER: content_type}


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What enqueue_many has done so far. `latest` has the results of the last chunk, in the order given."""

    created: int = 0
    duplicates: int = 0
    full: int = 0
    latest: Sequence[Created] = field(default=(), repr=False)

    @property
    def total(self) -> int:
        """How many messages were given."""
        return self.created + self.duplicates + self.full

    def plus(
        self, latest: Sequence[Created], progress: Callable[[Enqueued], object] | None = None
    ) -> Enqueued:
        """Add the results of a chunk, and report progress."""
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


class Chunk:
    """Messages for one call of message_create_many, limited by number and by bytes."""

    max_messages = 5_000
    max_bytes = 4_000_000

    def __init__(self, channel: str, batch_id: int | None, *, raise_full: bool) -> None:
        check_option("batch_id", batch_id)
        self._raise_full = raise_full
        self._plain = NewMessage(None, channel, batch_id=batch_id)
        self._messages: list[NewMessage] = []
        self._contents: list[bytes] = []
        self._headers: list[Mapping[str, Any] | None] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, item: Any) -> bool:
        """Add a message. Returns whether the chunk is full now."""
        if isinstance(item, NewMessage):
            message = self._completed(item)
            content, headers = encoded(message)
        else:
            message, (content, content_type) = self._plain, encode(item)
            headers = None if content_type is None else _type_header(content_type)
        self._messages.append(message)
        self._contents.append(content)
        self._headers.append(headers)
        self._bytes += len(content)
        return len(self._messages) >= self.max_messages or self._bytes >= self.max_bytes

    def _completed(self, message: NewMessage) -> NewMessage:
        """With the channel and the batch of the call, unless the message names its own."""
        plain = self._plain
        channel = plain.channel if message.channel == DEFAULT_CHANNEL else message.channel
        batch_id = plain.batch_id if message.batch_id is None else message.batch_id
        if channel == message.channel and batch_id == message.batch_id:
            return message
        return replace(message, channel=channel, batch_id=batch_id)

    def steps(self) -> Steps[list[Created]]:
        """Create the messages of the chunk."""
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
                batch_ids=_unless_empty([self._plain.batch_id] * len(messages)),
            )
        schedules = [schedule(m.run_at, m.delay) for m in messages]
        unchanged: dict[str, Any] = {
            many: _unless_empty([getattr(m, name) for m in messages]) for name, many in UNCHANGED.items()
        }
        return MessageCreateMany(
            [m.channel for m in messages],
            self._contents,
            dequeue_ats=_unless_empty([dequeue_at for dequeue_at, _ in schedules]),
            headers=_unless_empty(self._headers),
            raise_full=self._raise_full,
            delays_ms=_unless_empty([delay_ms for _, delay_ms in schedules]),
            unique_fors_ms=_unless_empty([optional_milliseconds(m.unique_for) for m in messages]),
            keep_results_ms=_unless_empty([optional_milliseconds(m.keep_result) for m in messages]),
            **unchanged,
        )


def chunks_of(
    values: Iterable[Any], channel: str, batch_id: int | None, *, raise_full: bool
) -> Iterator[Chunk]:
    chunk = Chunk(channel, batch_id, raise_full=raise_full)
    for value in values:
        if chunk.add(value):
            yield chunk
            chunk = Chunk(channel, batch_id, raise_full=raise_full)
    if len(chunk):
        yield chunk


def _unless_empty(values: list[Any]) -> list[Any] | None:
    return values if any(value is not None for value in values) else None
