"""Lease messages, and finish them: complete, retry, discard, extend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from lonnymq.commands.answers import (
    ManyEndings,
    ManyOutcomes,
    ManyRecords,
    OneEnding,
    OneRecord,
    ResultText,
)
from lonnymq.payload import Payloaded
from lonnymq.statement import (
    BigInt,
    BigInts,
    Boolean,
    Booleans,
    Bytea,
    Byteas,
    Command,
    Int,
    Jsonb,
    Row,
    Text,
    Texts,
    Uuid,
    Uuids,
    columns_of,
    command,
    read,
)


@dataclass(frozen=True, slots=True)
class Delivery(Payloaded):
    """A message that the caller has leased until `lease_end_at`, under `token`.

    `stalled_consumer` is given if the last failed attempt ended because its lease ran out: the name of the
    consumer that had the message last, or an empty string if it gave none. `waited_ms` is how long the
    message was due before this dequeue.
    """

    id: int
    channel: str
    content: Bytea
    headers: Jsonb
    state: Bytea | None
    attempts: int
    token: UUID
    lease_end_at: int
    lane: str = "default"
    priority: int = 0
    cost: int = 1
    keep_result_ms: int | None = None
    stalled_consumer: str | None = None
    waited_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Dequeued:
    """`again_at`, if it is not None: dispatch at that time, before the next dequeue."""

    deliveries: list[Delivery]
    again_at: int | None


@command
class MessageDequeue(Command[Dequeued]):
    """Lease due messages, in fair order over the channels. Without `lanes`, all lanes are served.

    With `async_commit` the commit does not wait for the disk. A crash can then undo it; the messages are
    served again, as after any crash.

    With `channels`, only these are served: call ChannelsDispatch first.
    """

    function = "message_dequeue"
    is_harmless = True  # if the answer is lost, the messages come back when their leases end
    columns = f"{columns_of(Delivery)}, again_at"

    limit: Int = 1
    lease_ms: BigInt | None = None
    consumer: Text | None = None
    lanes: Texts | None = None
    async_commit: Boolean = False
    channels: Texts | None = None

    def decode(self, rows: Sequence[Row]) -> Dequeued:
        deliveries = read(Delivery, (row[:-1] for row in rows if row[0] is not None))
        return Dequeued(deliveries, rows[-1][-1] if rows else None)


@command
class MessageComplete(OneEnding):
    """The work is done: delete the message, if the caller still holds its lease. The result is kept for
    `keep_result_ms`, or for as long as the message says.
    """

    function = "message_complete"

    id: BigInt
    token: Uuid
    result: Bytea | None = None
    result_type: Text | None = None
    keep_result_ms: BigInt | None = None


@command
class MessageCompleteMany(ManyEndings):
    """Like MessageComplete, for several messages: one token each, or one for all."""

    function = "message_complete_many"

    ids: BigInts
    tokens: Uuids
    results: Byteas | None = None
    result_types: Texts | None = None
    keep_results_ms: BigInts | None = None


@command
class MessageRetry(OneEnding):
    """Give a message back, to be served again. With an `error`, the attempt counts. With
    `is_final` it was the last one: the message is dead.
    """

    function = "message_retry"

    id: BigInt
    token: Uuid
    dequeue_at: BigInt | None = None
    state: Bytea | None = None
    error: Text | None = None
    delay_ms: BigInt | None = None
    is_final: Boolean = False


@command
class MessageRetryMany(ManyEndings):
    """Like MessageRetry, for several messages: one token each, or one for all."""

    function = "message_retry_many"

    ids: BigInts
    tokens: Uuids
    dequeue_ats: BigInts | None = None
    states: Byteas | None = None
    errors: Texts | None = None
    delays_ms: BigInts | None = None
    are_final: Booleans | None = None


@command
class MessageDiscard(OneEnding):
    """Delete a message whose work will not be done."""

    function = "message_discard"

    id: BigInt
    token: Uuid
    reason: Text | None = None


@command
class MessageDiscardMany(ManyEndings):
    """Like MessageDiscard, for several messages: one token each, or one for all."""

    function = "message_discard_many"

    ids: BigInts
    tokens: Uuids
    reasons: Texts | None = None


@command
class MessageRejectMany(ManyEndings):
    """Give back messages that the caller cannot handle, so that another consumer gets them: one token each,
    or one for all. They wait for a while, which grows, and no attempt is used up. A message that has been
    rejected for `timeout_ms` becomes a dead letter with its element of `errors`; None: never.
    """

    function = "message_reject_many"

    ids: BigInts
    tokens: Uuids
    errors: Texts
    timeout_ms: BigInt | None = None


@dataclass(frozen=True, slots=True)
class Extended:
    """`lease_end_at` is None unless the lease was extended."""

    result: ResultText
    lease_end_at: int | None


@command
class MessageExtend(OneRecord[Extended]):
    """Extend the lease of a message."""

    function = "message_extend"
    record = Extended
    is_repeatable = True

    id: BigInt
    token: Uuid
    lease_ms: BigInt
    state: Bytea | None = None


@command
class MessageExtendMany(ManyRecords[Extended]):
    """Like MessageExtend, for several messages: one token each, or one for all."""

    function = "message_extend_many"
    record = Extended
    is_repeatable = True

    ids: BigInts
    tokens: Uuids
    lease_ms: BigInt
    states: Byteas | None = None


@command
class MessageLeasedMany(ManyOutcomes):
    """Which of the messages the caller still has leased, as far as others have committed: one token each, or
    one for all.
    """

    function = "message_leased_many"
    is_harmless = True

    ids: BigInts
    tokens: Uuids
