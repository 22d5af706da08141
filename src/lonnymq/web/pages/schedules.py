"""The page of schedules."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter, Request, Response

from lonnymq.web.api.schedules import list_schedules
from lonnymq.web.pages.render import page
from lonnymq.web.view import CurrentView
from lonnymq.worker.cron_times import zone_named

router = APIRouter()


@router.get("/schedules")
def schedules_page(request: Request, view: CurrentView) -> Response:
    return page(request, view, "schedules.html", schedules=list_schedules(view), local=local)


def local(at: int, zone: str | None) -> str:
    """A time in a time zone, to the minute, or to the second if it has seconds.

    >>> local(0, "Europe/Berlin"), local(61_000, "UTC")
    ('Thu 1970-01-01 01:00', 'Thu 1970-01-01 00:01:01')
    """
    time = datetime.fromtimestamp(at / 1000, zone_named(zone))
    return f"{time:%a %Y-%m-%d %H:%M:%S}" if time.second else f"{time:%a %Y-%m-%d %H:%M}"
