"""What people did to the queue, and who did it."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.answers import Count, ManyRecords, YesOrNo
from lonnymq.statement import BigInt, Int, Jsonb, Text, command


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """What somebody did. `outcome` is None if the action is not known to have ended. `channel` is None if it
    was for more than one channel.
    """

    id: int
    at: int
    who: str
    action: str
    channel: str | None
    target: str | None
    details: Jsonb
    outcome: str | None
    ended_at: int | None


@command
class AuditBegin(Count):
    """Write who is about to do what. Returns the id of the entry."""

    function = "audit_begin"

    who: Text
    action: Text
    channel: Text | None = None
    target: Text | None = None
    details: Jsonb | None = None


@command
class AuditEnd(YesOrNo):
    """Write how the action ended, once. Returns whether the entry has this outcome now."""

    function = "audit_end"
    is_repeatable = True

    id: BigInt
    outcome: Text


@command
class AuditList(ManyRecords[AuditEntry]):
    """List what people did, the newest first, page by page."""

    function = "audit_list"
    is_harmless = True
    record = AuditEntry

    channel: Text | None = None
    after: BigInt | None = None
    limit: Int = 100
