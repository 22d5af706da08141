"""The points of charts."""

from __future__ import annotations

from fastapi import APIRouter

from lonnymq.web.live import Point
from lonnymq.web.view import CurrentView

router = APIRouter(prefix="/series", tags=["overview"])


@router.get("")
def list_points(view: CurrentView) -> list[Point]:
    """One point per poll, of the last ten minutes at most. Polls are made while somebody looks."""
    view.check()
    view.live.snapshot()  # waits for the first one
    return view.live.points()
