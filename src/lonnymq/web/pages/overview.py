"""The overview."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from lonnymq.web.api.overview import get_overview
from lonnymq.web.api.series import list_points
from lonnymq.web.live import Point
from lonnymq.web.pages.render import page
from lonnymq.web.pages.series import Line, chart
from lonnymq.web.view import CurrentView

router = APIRouter()


@router.get("/")
def overview_page(request: Request, view: CurrentView) -> Response:
    """A person who sees only some channels gets these instead."""
    if view.access.channels is not None:
        base = request.scope.get("root_path", "").rstrip("/")
        return RedirectResponse(f"{base}/tenants", 303)
    overview = get_overview(view)
    points = list_points(view)
    at = [point.at for point in points]
    return page(
        request,
        view,
        "overview.html",
        overview=overview,
        throughput=chart(at, Line("served per second", [point.rate for point in points], "c0")),
        waits=_waits(points),
    )


def _waits(points: Sequence[Point]) -> dict[str, object]:
    return chart(
        [point.at for point in points],
        Line("oldest due, all tenants", [_seconds(point.oldest_ms) for point in points], "c5"),
        Line("oldest due, quiet tenants", [_seconds(point.quiet_ms) or 0 for point in points], "c2"),
        unit=" s",
    )


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
