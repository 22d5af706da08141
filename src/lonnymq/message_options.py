"""The options of a message. Each is described once, here. Everything that takes options uses this
description: the calls of a queue, tasks and schedules, `lonnymq enqueue` and its files, and the columns that
Spark writes.

To add an option, add it to one of the TypedDicts (WorkOptions if schedules may have it), to NewMessage,
CreateParameters, CreateManyParameters and OPTIONS, and to the SQL: the tables new_message, new_messages and
message in tables/0001_core.sql, and the functions message_check (if not every value is valid), message_new,
message_create and message_create_many. Append it to new_message: the functions list its columns in order.
CONTRIBUTING.md says what dead letters and listings need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Literal, TypedDict, cast, get_args

from lonnymq.statement import BigInt, BigInts, Int, Ints, Jsonb, Jsonbs, Text, Texts, parameters

Duration = timedelta | float
"""A timedelta, or seconds."""

UniqueWhile = Literal["waiting", "running"]
"""How long a message holds its dedupe key: while it waits, or while it waits or runs."""

DEFAULT_CHANNEL = "default"
DEFAULT_LANE = "default"
TEXT_MAX_BYTES = 255


class WorkOptions(TypedDict, total=False):
    """Options that describe the work. The messages of a schedule have these."""

    priority: int | None
    """-100 to 100, 0 unless given. A higher priority is served first, within its channel only."""
    cost: int | None
    """1 to 1,000,000, 1 unless given. A cost of 5 uses as much of the channel's share as five messages."""
    lane: str | None
    """The class of work, `default` unless given. A consumer may serve some lanes only."""
    headers: Mapping[str, Any] | None
    """A dict that can be written as JSON."""
    max_attempts: int | None
    """1 to 1,000,000. The queue's setting unless given."""
    keep_result: Duration | None
    """How long the result is kept after the message has finished: a timedelta, or seconds. 0: not at all."""


class TaskOptions(WorkOptions, total=False):
    """Options of a task, for all its calls."""

    unique_while: UniqueWhile | None
    """How long the message holds its dedupe key: while it is `waiting`, unless given, or also while it is
    `running`."""
    unique_for: Duration | None
    """Holds the dedupe key while the message waits or runs, and for this long after it has finished: a
    timedelta, or seconds."""


class MessageOptions(TaskOptions, total=False):
    """All options of a message."""

    run_at: datetime | None
    """An aware datetime. The message is not served earlier."""
    delay: Duration | None
    """How long after now, by the database's clock, the message is due: a timedelta, or seconds."""
    dedupe_key: str | None
    """While a message holds this key, no second one with it is created in the channel."""
    batch_id: int | None
    """The open batch that the message belongs to."""
    content_type: str | None
    """How the payload is encoded: application/json unless given, or application/msgpack."""


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message for enqueue_many. Use it if the messages differ in more than their payload."""

    payload: Any
    channel: str = DEFAULT_CHANNEL
    run_at: datetime | None = None
    delay: Duration | None = None
    priority: int | None = None
    dedupe_key: str | None = None
    unique_while: UniqueWhile | None = None
    unique_for: Duration | None = None
    headers: Mapping[str, Any] | None = None
    max_attempts: int | None = None
    content_type: str | None = None
    cost: int | None = None
    lane: str | None = None
    keep_result: Duration | None = None
    batch_id: int | None = None

    def options(self) -> MessageOptions:
        """The options, as enqueue takes them."""
        return cast("MessageOptions", {name: getattr(self, name) for name in MessageOptions.__annotations__})


@parameters
class CreateParameters:
    """The optional parameters of the SQL function message_create."""

    dequeue_at: BigInt | None = None
    delay_ms: BigInt | None = None
    headers: Jsonb | None = None
    max_attempts: Int | None = None
    dedupe_key: Text | None = None
    unique_while: Text | None = None
    unique_for_ms: BigInt | None = None
    priority: Int | None = None
    cost: Int | None = None
    lane: Text | None = None
    keep_result_ms: BigInt | None = None
    batch_id: BigInt | None = None


@parameters
class CreateManyParameters:
    """The optional parameters of message_create_many: each a list with one element per message, or None."""

    dequeue_ats: BigInts | None = None
    delays_ms: BigInts | None = None
    headers: Jsonbs | None = None
    max_attempts: Ints | None = None
    dedupe_keys: Texts | None = None
    unique_whiles: Texts | None = None
    unique_fors_ms: BigInts | None = None
    priorities: Ints | None = None
    costs: Ints | None = None
    lanes: Texts | None = None
    keep_results_ms: BigInts | None = None
    batch_ids: BigInts | None = None


class Kind(Enum):
    """The values that an option takes, in words for error messages."""

    NUMBER = "a whole number"
    TEXT = "a string"
    OBJECT = "an object"
    SECONDS = "a number of seconds"
    TIME = "a string with a time, such as 2030-12-31T09:00+01:00"


@dataclass(frozen=True)
class Option:
    """How an option is given outside of Python. `least` and `most` limit a number, or the bytes of a string,
    wherever it is checked before it is sent. `allowed` says in words what to give.
    """

    kind: Kind
    help: str
    allowed: str = ""
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] = ()
    """The only values that a string may have, if there are few."""
    many: str | None = None
    """The name of the parameter of message_create_many, if the option is passed on unchanged."""
    is_flag: bool = True
    """Whether `lonnymq enqueue` has a flag of this name."""


OPTIONS: Mapping[str, Option] = {
    "delay": Option(Kind.SECONDS, "Do not serve it before this many seconds from now.", least=0),
    "run_at": Option(Kind.TIME, "Do not serve it before this time, such as 2030-12-31T09:00."),
    "priority": Option(
        Kind.NUMBER,
        "Serve higher priorities first, within the channel.",
        "give -100 to 100; a higher priority is served first within its channel",
        least=-100,
        most=100,
        many="priorities",
    ),
    "cost": Option(
        Kind.NUMBER,
        "Count it as this many messages against its channel's share.",
        "give 1 to 1,000,000",
        least=1,
        most=1_000_000,
        many="costs",
    ),
    "lane": Option(
        Kind.TEXT,
        "Its lane: only consumers of this lane serve it. Without one, the lane is `default`.",
        "name the lane with 1 to 255 bytes of text",
        least=1,
        most=TEXT_MAX_BYTES,
        many="lanes",
    ),
    "dedupe_key": Option(
        Kind.TEXT,
        "Do not create a second message while one in the channel holds this key.",
        "give 1 to 255 bytes of text, or none",
        least=1,
        most=TEXT_MAX_BYTES,
        many="dedupe_keys",
    ),
    "unique_while": Option(
        Kind.TEXT,
        "How long it holds its dedupe key: while it is `waiting`, or `running`, too. Without it: waiting.",
        "give waiting or running",
        choices=get_args(UniqueWhile),
        many="unique_whiles",
    ),
    "unique_for": Option(
        Kind.SECONDS,
        "Hold its dedupe key while it waits or runs, and for this many seconds after it has finished.",
        "give 0 to 31,536,000 seconds (a year)",
        least=0,
        most=31_536_000,
    ),
    "headers": Option(Kind.OBJECT, "Headers, as name=value.", is_flag=False),
    "max_attempts": Option(
        Kind.NUMBER,
        "How many attempts before the message becomes a dead letter.",
        "allow 1 to 1,000,000 attempts",
        least=1,
        most=1_000_000,
        many="max_attempts",
    ),
    "keep_result": Option(
        Kind.SECONDS, "Keep its result for this many seconds after it has finished.", least=0
    ),
    "batch_id": Option(
        Kind.NUMBER,
        "The open batch that the message belongs to.",
        "give the id of an open batch",
        least=1,
        most=2**63 - 1,
        many="batch_ids",
    ),
}
UNCHANGED = {name: option.many for name, option in OPTIONS.items() if option.many is not None}
"""The options that are passed to SQL unchanged: their names in message_create and in message_create_many."""
