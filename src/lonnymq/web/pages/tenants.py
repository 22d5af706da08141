"""The list of tenants."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from lonnymq.monitor.order import Order
from lonnymq.web.api.channels import list_channels
from lonnymq.web.api.parameters import Prefix
from lonnymq.web.pages.render import page
from lonnymq.web.view import CurrentView

router = APIRouter()

PER_PAGE = 50
SORTS = {
    Order.NOISY: "Noisy first",
    Order.STARVED: "Starved first",
    Order.OLDEST: "Oldest due first",
    Order.BACKLOG: "Largest backlog first",
    Order.BLOCKED: "What blocks them",
    Order.RATE: "Most served first",
    Order.NAME: "Name",
}


@router.get("/tenants")
def tenants_page(
    request: Request,
    view: CurrentView,
    sort: Order | None = None,
    prefix: Prefix = "",
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
) -> Response:
    is_own = view.access.channels is not None
    chosen = sort or (Order.NAME if is_own else Order.NOISY)
    found = list_channels(view, chosen, prefix, offset, PER_PAGE)
    return page(
        request,
        view,
        "tenants.html",
        found=found,
        sorts=SORTS,
        sort=found.sort,
        prefix=prefix,
        offset=offset,
        per_page=PER_PAGE,
        is_own=is_own,
    )
