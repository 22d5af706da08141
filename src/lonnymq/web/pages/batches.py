"""The pages of batches, and of one batch."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from lonnymq.web.api.batches import get_batch, list_batches
from lonnymq.web.api.parameters import QueryId
from lonnymq.web.pages.render import Text, page
from lonnymq.web.view import CurrentView

router = APIRouter()

StatusChoice = Literal["", "open", "closed", "finished", "cancelled"]


@router.get("/batches")
def batches_page(
    request: Request,
    view: CurrentView,
    name: Text = "",
    status: Annotated[StatusChoice, Query()] = "",
    after: QueryId | None = None,
) -> Response:
    found = list_batches(view, name or None, status or None, after)
    return page(request, view, "batches.html", found=found, name=name, status=status, after=after)


@router.get("/batch")
def batch_page(request: Request, view: CurrentView, id: QueryId) -> Response:  # noqa: A002 - in the query
    return page(request, view, "batch.html", batch=get_batch(view, id))
