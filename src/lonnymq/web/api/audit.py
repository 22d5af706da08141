"""The audit: who did what, when, and how it ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query

from lonnymq.commands import AuditEntry
from lonnymq.web.view import CurrentView

router = APIRouter(prefix="/audit", tags=["audit"])

ENTRIES = 100
ID_MAX = 2**63 - 1


@router.get("")
def list_audit(
    view: CurrentView,
    channel: Annotated[str | None, Query(min_length=1, max_length=1000)] = None,
    after: Annotated[int | None, Query(ge=1, le=ID_MAX)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = ENTRIES,
) -> list[AuditEntry]:
    """What people did, to one channel or to all, the newest first. The next page is `after` the last id."""
    view.check()
    found = view.queue.audit(channel=channel, after=after, limit=limit)
    return [replace(entry, details=view.options.redaction.hide(entry.details)) for entry in found]
