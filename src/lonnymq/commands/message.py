"""Create messages, look at them, cancel and reschedule them."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.answers import (
    ManyEndings,
    ManyRecords,
    OneEnding,
    OneOrNone,
    OneRecord,
    OneResult,
    ResultText,
)
from lonnymq.message_options import CreateManyParameters, CreateParameters
from lonnymq.payload import Payloaded
from lonnymq.statement import (
    BigInt,
    BigInts,
    Boolean,
    Bytea,
    Byteas,
    Int,
    Jsonb,
    Text,
    Texts,
    command,
)

REPEATABLE_FROM_MS = 300_000
"""A create may be made again if its answer is lost and its key is kept for this long after the message has
finished. Repeats come within seconds. A message that holds its key only while it waits or runs may be over by
then."""


@dataclass(frozen=True, slots=True)
class Created:
    """`id` is the new message's id. It is the id of the message that has the key if the result is
    `duplicate`, and None if it is `full`.
    """

    id: int | None
    result: ResultText


@command
class MessageCreate(CreateParameters, OneRecord[Created]):
    """Create one message."""

    function = "message_create"
    record = Created

    channel: Text
    content: Bytea

    def may_repeat(self) -> bool:
        return self.dedupe_key is not None and (self.unique_for_ms or 0) >= REPEATABLE_FROM_MS


@command
class MessageCreateMany(CreateManyParameters, ManyRecords[Created]):
    """Create messages for any mix of channels. All lists have the same length."""

    function = "message_create_many"
    record = Created

    channels: Texts
    contents: Byteas
    raise_full: Boolean = False

    def may_repeat(self) -> bool:
        if self.dedupe_keys is None or self.unique_fors_ms is None or None in self.dedupe_keys:
            return False
        return all((unique_for or 0) >= REPEATABLE_FROM_MS for unique_for in self.unique_fors_ms)


@dataclass(frozen=True, slots=True)
class Message(Payloaded):
    """A message that waits, is leased or is dead, with its content."""

    id: int
    channel: str
    status: str
    dequeue_at: int
    created_at: int
    first_dequeued_at: int | None
    dequeued_at: int | None
    lease_end_at: int | None
    dead_at: int | None
    attempts: int
    max_attempts: int | None
    consumer: str | None
    error: str | None
    past_errors: Jsonb
    dedupe_key: str | None
    unique_for_ms: int | None
    lane: str
    priority: int
    cost: int
    batch_id: int | None
    is_cancelled: bool
    headers: Jsonb
    state: Bytea | None
    content: Bytea
    keep_result_ms: int | None = None


@command
class MessageGet(OneOrNone[Message]):
    """Read one message; None if there is none with this id."""

    function = "message_get"
    is_harmless = True
    record = Message

    id: BigInt


@dataclass(frozen=True, slots=True)
class ListedMessage:
    """A message that waits or is leased, without its content. The next page starts after `cursor`."""

    id: int
    channel: str
    status: str
    dequeue_at: int
    created_at: int
    lease_end_at: int | None
    attempts: int
    max_attempts: int | None
    consumer: str | None
    error: str | None
    dedupe_key: str | None
    lane: str
    priority: int
    cost: int
    is_cancelled: bool
    headers: Jsonb
    content_bytes: int
    cursor: str


@command
class MessageList(ManyRecords[ListedMessage]):
    """List the messages of one channel or of all, page by page."""

    function = "message_list"
    is_harmless = True
    record = ListedMessage

    channel: Text | None = None
    status: Text = "waiting"
    after: Text | None = None
    limit: Int = 100
    lane: Text | None = None
    consumer: Text | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """How far a waiting message is from being served. `reason` and `ahead` are about the next message of its
    channel and lane: see ChannelExplanation.
    """

    id: int
    channel: str
    lane: str
    status: str
    dequeue_at: int
    place: int | None
    """How many messages of its channel and lane are served before it, counted up to 1,000. None if it is not
    due yet.
    """
    is_capped: bool
    """There are more than were counted."""
    reason: str | None
    ahead: int | None


@command
class MessagePlace(OneOrNone[Place]):
    """Read how far a waiting message is from being served; None if no message waits under this id."""

    function = "message_place"
    is_harmless = True
    record = Place

    id: BigInt


@command
class MessageCancel(OneEnding):
    """Delete a message that waits, or mark one that a worker has leased."""

    function = "message_cancel"

    id: BigInt


@command
class MessageCancelMany(ManyEndings):
    """Like MessageCancel, for several messages."""

    function = "message_cancel_many"

    ids: BigInts


@command
class MessageReschedule(OneResult):
    """Change when a waiting message is due. Without a time, it is due now."""

    function = "message_reschedule"
    is_repeatable = True

    id: BigInt
    dequeue_at: BigInt | None = None
