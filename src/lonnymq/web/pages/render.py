"""Renders templates. Everything that a template needs beyond its own values is here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response
from starlette.templating import Jinja2Templates

from lonnymq.formatting import count, duration, plural, printable, significant, size
from lonnymq.message_options import TEXT_MAX_BYTES
from lonnymq.monitor.server import server_time
from lonnymq.version import __version__
from lonnymq.web.access import Access, Right
from lonnymq.web.errors import Problem
from lonnymq.web.view import View

Text = Annotated[str, Query(max_length=TEXT_MAX_BYTES)]
"""What a person has filled in. A field that is left empty is sent as an empty text."""


@dataclass(frozen=True, slots=True)
class Link:
    """An entry of the menu. Those about the whole queue are not shown to a person with some channels."""

    path: str
    text: str
    is_for_all: bool = True


MENU = (
    Link("/", "Overview"),
    Link("/fairness", "Fairness"),
    Link("/tenants", "Tenants", is_for_all=False),
    Link("/messages", "Messages", is_for_all=False),
    Link("/dead", "Dead letters", is_for_all=False),
    Link("/workers", "Workers"),
    Link("/schedules", "Schedules"),
    Link("/batches", "Batches"),
    Link("/history", "History", is_for_all=False),
    Link("/health", "Health"),
    Link("/lake", "Lake"),
    Link("/audit", "Audit"),
)

templates = Jinja2Templates(directory=Path(__file__).parent.parent / "templates")
templates.env.trim_blocks = True
templates.env.lstrip_blocks = True


def page(request: Request, view: View, template: str, /, **values: Any) -> Response:
    """`now` is the server's time, which all times are compared with."""
    return _render(request, template, view.access, 200, now=server_time(view.queue), view=view, **values)


def problem_page(request: Request, status: int, problem: Problem) -> Response:
    access = getattr(request.state, "access", None)
    return _render(request, "problem.html", access, status, problem=problem, status=status)


def _render(
    request: Request, template: str, access: Access | None, status: int, /, **values: Any
) -> Response:
    base = request.scope.get("root_path", "").rstrip("/")
    path = request.scope["path"].removeprefix(base)
    shared = {
        "base": base,
        "here": path,
        "address": f"{base}{path}" + (f"?{request.url.query}" if request.url.query else ""),
        "access": access,
        "menu": [link for link in MENU if access and (access.channels is None or not link.is_for_all)],
        "Right": Right,
        "version": __version__,
    }
    return templates.TemplateResponse(request, template, {**shared, **values}, status_code=status)


def ago(at: int | None, now: int) -> str:
    """
    >>> ago(1_000, 61_000), ago(61_000, 1_000), ago(None, 1_000)
    ('60 s ago', 'in 60 s', '-')
    """
    if at is None:
        return "-"
    return f"{duration(now - at)} ago" if at <= now else f"in {duration(at - now)}"


def clock(at: int | None) -> str:
    """In UTC, to the second.

    >>> clock(0)
    '1970-01-01 00:00:00'
    """
    if at is None:
        return "-"
    try:
        return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):  # too far away for datetime
        return str(at)


def percent(share: float | None) -> str:
    """
    >>> percent(0.1234), percent(None)
    ('12.3 %', '-')
    """
    return "-" if share is None else f"{significant(share * 100, 3)} %"


def milliseconds(value: float | None) -> str:
    return "-" if value is None else duration(value, 2)


def query(**values: object) -> str:
    """The query of a link, without what is None.

    >>> query(name="a/b c", after=None)
    '?name=a%2Fb+c'
    """
    return "?" + urlencode({name: value for name, value in values.items() if value is not None})


templates.env.filters |= {
    "ago": ago,
    "clock": clock,
    "count": count,
    "duration": milliseconds,
    "percent": percent,
    "plural": plural,
    "printable": printable,
    "quote": quote,
    "significant": significant,
    "size": size,
}
templates.env.globals |= {"query": query}
