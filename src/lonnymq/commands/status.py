"""What became of a message, its result, and how far the work on it is."""

from __future__ import annotations

from dataclasses import dataclass, field

from lonnymq.commands.answers import Count, OneOrNone, OneRecord
from lonnymq.statement import BigInt, BigInts, Boolean, Bytea, Floats, Text, Texts, Uuids, command

WAITING = ("due", "scheduled")
FINISHED = ("completed", "cancelled", "dead")


@dataclass(frozen=True, slots=True)
class Status:
    """What became of a message. `status` is `due`, `scheduled`, `leased`, `completed`, `cancelled` or
    `dead`; or `unknown` if there never was such a message, or nothing is known of it any more.

    `progress` is what the running attempt has reported last: 0 to 1. `error` is that of the last failed
    attempt, or the reason why the message was discarded.
    """

    id: int
    status: str
    channel: str | None
    created_at: int | None
    dequeue_at: int | None
    dequeued_at: int | None
    lease_end_at: int | None
    finished_at: int | None
    attempts: int | None
    max_attempts: int | None
    consumer: str | None
    error: str | None
    is_cancelled: bool
    progress: float | None
    progress_note: str | None
    progress_at: int | None
    keep_result_ms: int | None
    result_until_at: int | None
    result_type: str | None = field(default=None, repr=False)
    result_content: Bytea | None = field(default=None, repr=False)
    notify_channel: str | None = field(default=None, repr=False)
    notify_key: str | None = field(default=None, repr=False)

    @property
    def is_waiting(self) -> bool:
        """Whether it is due, or scheduled for later."""
        return self.status in WAITING

    @property
    def is_running(self) -> bool:
        """Whether a consumer has it."""
        return self.status == "leased"

    @property
    def is_finished(self) -> bool:
        """Whether it is completed, cancelled or dead."""
        return self.status in FINISHED


@command
class StatusGet(OneRecord[Status]):
    """What became of a message, with its result if asked for."""

    function = "status_get"
    record = Status
    is_harmless = True

    id: BigInt
    with_result: Boolean = False


@command
class ProgressWrite(Count):
    """Report how far the work on some messages is. The answer is how many of them the caller still holds."""

    function = "progress_write"
    is_repeatable = True

    ids: BigInts
    tokens: Uuids
    fractions: Floats
    notes: Texts | None = None
    async_commit: Boolean = False


@command
class ResultSave(Count):
    """Save a result under a name, for `keep_ms`. It replaces the one of this name; 0 deletes it. The answer
    is until when it is kept.
    """

    function = "result_save"
    is_repeatable = True

    name: Text
    content: Bytea
    content_type: Text | None = None
    keep_ms: BigInt = 86_400_000


@dataclass(frozen=True, slots=True)
class SavedResult:
    """A result that was saved under a name. `content` is None if it was not asked for."""

    name: str
    saved_at: int
    until_at: int
    content_type: str | None
    content: Bytea | None = field(repr=False)


@command
class ResultLoad(OneOrNone[SavedResult]):
    """Read the result that was saved under a name; None if there is none, or its time is over."""

    function = "result_load"
    is_harmless = True
    record = SavedResult

    name: Text
    with_content: Boolean = True
