"""For programs that work in batches and repeat them after a crash, such as Spark: claims and staging."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from lonnymq.commands.answers import Count, ManyRecords, OneRecord
from lonnymq.statement import (
    BigInt,
    BigInts,
    Boolean,
    Bytea,
    Int,
    Jsonb,
    Text,
    Texts,
    Uuid,
    Uuids,
    command,
)


@dataclass(frozen=True, slots=True)
class Claimant:
    """The other calls take `generation`. Claims up to `done_seq` are finished; `last_seq` is the newest."""

    generation: int
    done_seq: int
    last_seq: int


@command
class ClaimOpen(OneRecord[Claimant]):
    """Start to consume in numbered claims. An earlier claimant of this name is refused from now on."""

    function = "claim_open"
    record = Claimant
    is_repeatable = True

    claimant: Text


@dataclass(frozen=True, slots=True)
class Claim:
    """If `messages` is 0 there is nothing to claim: ask again at `again_at`, if it is not None."""

    seq: int
    messages: int
    again_at: int | None


@command
class ClaimNext(OneRecord[Claim]):
    """Get the claim after number `seq`: one that is still leased, or a new one. With `channels` or `pattern`,
    it takes from these channels only: call ChannelsDispatch first. With `max_bytes`, a new claim has no more
    bytes of content than that, but at least one message.
    """

    function = "claim_next"
    record = Claim
    is_repeatable = True

    claimant: Text
    generation: BigInt
    seq: BigInt
    limit: Int
    lease_ms: BigInt | None = None
    before: BigInt | None = None
    lanes: Texts | None = None
    channels: Texts | None = None
    pattern: Text | None = None
    max_bytes: BigInt | None = None


@dataclass(frozen=True, slots=True)
class ClaimedMessage:
    """A message of claim number `seq`."""

    seq: int
    id: int
    channel: str
    content: Bytea
    headers: Jsonb | None
    state: Bytea | None
    attempts: int
    dedupe_key: str | None
    lane: str
    priority: int
    cost: int
    created_at: int
    dequeue_at: int
    dequeued_at: int


@command
class ClaimRead(ManyRecords[ClaimedMessage]):
    """Read one of `parts` parts of the messages of some claims."""

    function = "claim_read"
    is_harmless = True
    record = ClaimedMessage

    claimant: Text
    generation: BigInt
    after: BigInt
    upto: BigInt
    part: Int = 0
    parts: Int = 1


@command
class ClaimWaiting(Count):
    """How many messages are due for claims from these lanes and channels, also if limits hold them back."""

    function = "claim_waiting"
    is_harmless = True

    lanes: Texts | None = None
    channels: Texts | None = None
    pattern: Text | None = None


@dataclass(frozen=True, slots=True)
class ClaimBegun:
    """How many messages the claims have now. The `lost` ones are leased by others, finished or cancelled."""

    messages: int
    lost: int
    dead: int


@command
class ClaimBegin(OneRecord[ClaimBegun]):
    """The reader begins to process the claims up to a number. If an earlier reader did not complete them,
    they are split, and a message that was alone in its claim is charged an attempt.
    """

    function = "claim_begin"
    record = ClaimBegun
    is_repeatable = True

    claimant: Text
    generation: BigInt
    upto: BigInt
    lease_ms: BigInt | None = None


@dataclass(frozen=True, slots=True)
class ClaimExtended:
    """How many leases were extended. The `lost` ones are leased by others, finished or cancelled."""

    extended: int
    lost: int


@command
class ClaimExtend(OneRecord[ClaimExtended]):
    """Extend the leases of all claims that are not finished."""

    function = "claim_extend"
    record = ClaimExtended
    is_repeatable = True

    claimant: Text
    generation: BigInt
    lease_ms: BigInt | None = None
    forget: Boolean = False


@dataclass(frozen=True, slots=True)
class ClaimCompleted:
    """How many messages were completed. The `lost` ones are, or were, leased by others."""

    completed: int
    cancelled: int
    lost: int
    failed: int = 0


@command
class ClaimComplete(OneRecord[ClaimCompleted]):
    """Complete all messages of the claims up to a number, except for those that failed, with these errors."""

    function = "claim_complete"
    record = ClaimCompleted

    claimant: Text
    generation: BigInt
    seq: BigInt
    whole: Boolean = False
    failed_ids: BigInts | None = None
    errors: Texts | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """How many messages were created. The `refused` ones were left out because their channel was full."""

    created: int
    duplicates: int
    refused: int


@command
class StagingPublish(OneRecord[Published]):
    """Create messages from the rows that are staged under a batch."""

    function = "staging_publish"
    record = Published

    batch: Uuid
    drop_full: Boolean = False


@dataclass(frozen=True, slots=True)
class PublishedOnce:
    """Like Published. If `is_repeat`, the batches were published before, with these numbers, by `job`."""

    created: int
    duplicates: int
    refused: int
    is_repeat: bool
    job: UUID | None


@command
class StagingPublishOnce(OneRecord[PublishedOnce]):
    """Like StagingPublish for several batches, but only once for each app and version."""

    function = "staging_publish_once"
    record = PublishedOnce
    is_repeatable = True

    app: Text
    version: BigInt | None
    batches: Uuids
    drop_full: Boolean = False
    job: Uuid | None = None


@command
class StagingDiscard(Count):
    """Delete the staged rows of batches that will not be published. Returns how many rows were deleted."""

    function = "staging_discard"
    is_repeatable = True

    batches: Uuids
