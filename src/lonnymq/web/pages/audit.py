"""The page of the audit."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from lonnymq.web.api.audit import ENTRIES, ID_MAX, list_audit
from lonnymq.web.pages.render import page
from lonnymq.web.view import CurrentView

router = APIRouter()


@router.get("/audit")
def audit_page(
    request: Request,
    view: CurrentView,
    channel: Annotated[str | None, Query(max_length=1000)] = None,
    after: Annotated[int | None, Query(ge=1, le=ID_MAX)] = None,
) -> Response:
    channel = channel or None  # the form sends an empty one
    entries = list_audit(view, channel, after)
    more = entries[-1].id if len(entries) == ENTRIES else None
    return page(request, view, "audit.html", entries=entries, channel=channel, more=more)
