"""The pages of the workers, and of one worker and what it has leased."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from lonnymq.web.api.parameters import Cursor
from lonnymq.web.api.workers import LEASES, list_leases, list_unknown_tasks, list_workers
from lonnymq.web.pages.render import page
from lonnymq.web.view import CurrentView

router = APIRouter()


@router.get("/workers")
def workers_page(request: Request, view: CurrentView) -> Response:
    return page(
        request, view, "workers.html", workers=list_workers(view), unknown_tasks=list_unknown_tasks(view)
    )


@router.get("/worker")
def worker_page(
    request: Request,
    view: CurrentView,
    name: Annotated[str, Query(min_length=1, max_length=1000)],
    after: Cursor | None = None,
) -> Response:
    found = [worker for worker in list_workers(view) if worker.name == name]
    leases = list_leases(view, name, after)
    more = leases[-1].cursor if len(leases) == LEASES else None
    return page(request, view, "worker.html", name=name, workers=found, leases=leases, more=more)
