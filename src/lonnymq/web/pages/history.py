"""The page of the history."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from lonnymq.web.api.history import list_history, summarize_history
from lonnymq.web.pages.render import Text, page
from lonnymq.web.view import CurrentView

router = APIRouter()


@router.get("/history")
def history_page(request: Request, view: CurrentView, channel: Text = "") -> Response:
    found = list_history(view, channel or None)
    summary = summarize_history(view, found.channel)
    return page(request, view, "history.html", found=found, summary=summary)
