"""The pages of dead letters: the groups, and the letters of a group."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from lonnymq.web.api.dead import FINGERPRINT, GROUPS_MAX, group_dead, list_dead
from lonnymq.web.api.parameters import LAST_ID
from lonnymq.web.pages.render import Text, page
from lonnymq.web.view import CurrentView

router = APIRouter()


@router.get("/dead")
def dead_page(
    request: Request,
    view: CurrentView,
    channel: Text = "",
    by: Annotated[str, Query(pattern="^(error|tenant)$")] = "error",
) -> Response:
    found = group_dead(view, channel or None, by == "tenant")
    return page(request, view, "dead.html", found=found, by=by)


@router.get("/dead/group")
def dead_group_page(
    request: Request,
    view: CurrentView,
    fingerprint: Annotated[str, Query(pattern=FINGERPRINT)],
    channel: Text = "",
    after: Annotated[int, Query(ge=0, le=LAST_ID)] = 0,
) -> Response:
    """The tenants of a group, and its letters."""
    found = list_dead(view, channel or None, fingerprint, after)
    all_groups = group_dead(view, found.channel, by_channel=True, limit=GROUPS_MAX)
    groups = [group for group in all_groups.groups if group.fingerprint == fingerprint]
    return page(
        request,
        view,
        "dead_group.html",
        found=found,
        fingerprint=fingerprint,
        groups=groups,
        has_more=all_groups.has_more,
    )
