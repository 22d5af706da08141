"""The page of those that follow the history."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from lonnymq.formatting import DAY
from lonnymq.web.api.lake import UNREAD_MAX, list_followers
from lonnymq.web.pages.render import page
from lonnymq.web.view import CurrentView

router = APIRouter()


@router.get("/lake")
def lake_page(request: Request, view: CurrentView) -> Response:
    return page(
        request,
        view,
        "lake.html",
        followers=list_followers(view),
        settings=view.queue.settings(),
        unread_max=UNREAD_MAX,
        lagging_ms=DAY,
    )
