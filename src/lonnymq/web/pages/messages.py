"""The pages of messages, and of one message."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from lonnymq.web.api.messages import WaitingStatus, get_message, list_messages
from lonnymq.web.api.parameters import Cursor, QueryId
from lonnymq.web.pages.render import Text, page
from lonnymq.web.view import CurrentView

router = APIRouter()


@router.get("/messages")
def messages_page(
    request: Request,
    view: CurrentView,
    channel: Text = "",
    status: Annotated[WaitingStatus, Query()] = "waiting",
    lane: Text = "",
    after: Cursor | None = None,
) -> Response:
    found = list_messages(view, channel or None, status, lane or None, after)
    return page(request, view, "messages.html", found=found, status=status, lane=lane or None, after=after)


@router.get("/message")
def message_page(request: Request, view: CurrentView, id: QueryId) -> Response:  # noqa: A002 - in the query
    return page(request, view, "message.html", message=get_message(view, id))
