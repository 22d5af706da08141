"""The calls for the audit: what people did to the queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lonnymq.client.calls import Request, ask
from lonnymq.commands import AuditBegin, AuditEnd, AuditEntry, AuditList


def audit_begin(
    who: str,
    action: str,
    *,
    channel: str | None = None,
    target: str | None = None,
    details: Mapping[str, Any] | None = None,
    conn: object | None = None,
) -> Request[int]:
    """Write that somebody is about to do something, and return the id of the entry. `target` is what it is
    done to, and `details` are JSON.

    Commit it before the action, so that the entry stays if the action fails.

        entry = queue.audit_begin("zoe", "cancel", channel="acme", target="1234")
        queue.audit_end(entry, queue.cancel(1234))
    """
    given = None if details is None else dict(details)
    return ask(AuditBegin(who, action, channel, target, given), conn)


def audit_end(entry_id: int, outcome: str, *, conn: object | None = None) -> Request[bool]:
    """Write how the action ended. An entry gets one outcome, which is never changed. Returns whether the
    entry has this outcome now: False if there is no such entry, or if it has another outcome.
    """
    return ask(AuditEnd(entry_id, outcome), conn)


def audit(
    *,
    channel: str | None = None,
    after: int | None = None,
    limit: int = 100,
    conn: object | None = None,
) -> Request[list[AuditEntry]]:
    """A page of what people did, to one channel or to all, the newest first. The next page is `after` the
    last id. Entries are kept for 90 days, unless `set(audit_keep=...)` says otherwise.
    """
    return ask(AuditList(channel, after, limit), conn)
