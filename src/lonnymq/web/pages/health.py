"""The page of the checks of `lonnymq doctor`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from lonnymq.doctor.checks import CheckStatus
from lonnymq.web.api.health import read_health
from lonnymq.web.pages.render import page
from lonnymq.web.view import CurrentView

router = APIRouter()

TONES = {CheckStatus.OK: "good", CheckStatus.WARNING: "warn", CheckStatus.PROBLEM: "bad"}


@router.get("/health")
def health_page(request: Request, view: CurrentView) -> Response:
    health = read_health(view)
    worst_first = sorted(health.findings, key=lambda finding: -list(CheckStatus).index(finding.status))
    return page(request, view, "health.html", health=health, findings=worst_first, tones=TONES)
