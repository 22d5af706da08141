"""`create_app`: the dashboard as one ASGI application."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from html import escape
from http import HTTPStatus
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import compile_path
from starlette.staticfiles import StaticFiles

from lonnymq.client.base import QueueBase
from lonnymq.client.queue import Queue
from lonnymq.errors import LonnyMQError
from lonnymq.formatting import printable
from lonnymq.prometheus.queue_text import queue_text
from lonnymq.version import __version__
from lonnymq.web import api, pages
from lonnymq.web.access import AccessRule, no_access
from lonnymq.web.errors import Problem, problem_of, status_of
from lonnymq.web.gate import Gate, route_path
from lonnymq.web.live import Live
from lonnymq.web.redact import SECRET_WORDS, Redaction
from lonnymq.web.view import CurrentView, Options

log = logging.getLogger("lonnymq.web")

STATIC = Path(__file__).parent / "static"
VALIDATOR = re.compile(r"\[|^constrained-")
POOL_SIZE = 4
CONNECT_TIMEOUT_S = 5
SLOW_TICK = 5
"""Every fifth poll is also a `slow` one, for pages that cost more."""

UNREADABLE = "the queue cannot be read now"
"""For people who see only some channels. Where the database is, and who logs in, is not for them."""
STALE = "These numbers are old: the queue cannot be read. This page goes on by itself when it can."
NOTHING = "<!-- -->"
"""Browsers do not tell of an event without data."""


class Dashboard(FastAPI):
    """The application. `close` it if what it is mounted in does not run its lifespan."""

    def close(self) -> None:
        """End the streams of open pages, and close the connections to the database. May be called again."""
        self.state.live.close()
        self.state.queue.close()


def create_app(
    queue: QueueBase,
    access: AccessRule = no_access,
    *,
    redact: Iterable[str] = SECRET_WORDS,
    trace_url: str | None = None,
) -> Dashboard:
    """The dashboard of a queue, an ASGI application to run or to mount. It opens its own connections.

    `access` is a function of the request. It returns the `Access` of the person, or None: then the request
    is refused. Without it, all are. Values whose keys contain one of the words of `redact` are hidden. With
    a `trace_url` such as "https://traces.example/trace/{trace_id}", messages link to their traces.

        app.mount("/queue", create_app(queue, access=lambda request: Access.read_only("staff")))
    """
    own_queue = Queue.beside(queue, pool_size=POOL_SIZE, timeout=CONNECT_TIMEOUT_S)
    app = Dashboard(
        title="LonnyMQ",
        version=__version__,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        lifespan=_lifespan,
        responses={"default": {"model": Problem}},
    )
    app.state.queue = own_queue
    app.state.live = Live(own_queue)
    app.state.options = Options(Redaction.of(redact), trace_url)
    app.include_router(api.router, prefix="/api/v1")
    app.include_router(pages.router, include_in_schema=False)
    app.add_api_route("/live", _live, response_class=EventSourceResponse, include_in_schema=False)
    app.add_api_route("/metrics", _metrics, include_in_schema=False)
    app.add_api_route("/healthz", _healthz, methods=["GET", "HEAD"], include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_exception_handler(LonnyMQError, _failed)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_middleware(Gate, rule=access)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    try:
        yield
    finally:
        if isinstance(app, Dashboard):
            app.close()


async def _live(view: CurrentView) -> AsyncIterator[ServerSentEvent]:
    """Tells open pages when there are new numbers, and why there are none."""
    had_fault = False
    async for poll in view.live.polls():
        if poll.fault is not None:
            reason = "" if view.access.channels is not None else f" The last error: {printable(poll.fault)}."
            yield ServerSentEvent(event="trouble", raw_data=escape(STALE + reason))
        elif had_fault:
            yield ServerSentEvent(event="trouble", raw_data=NOTHING)
        had_fault = poll.fault is not None
        if not had_fault:
            yield ServerSentEvent(event="tick", data=poll.number)
            if poll.number % SLOW_TICK == 0:
                yield ServerSentEvent(event="slow", data=poll.number)


def _metrics(request: Request, view: CurrentView) -> Response:
    """For Prometheus, from the numbers behind the pages."""
    view.check()
    accept = request.headers.get("accept", "")
    try:
        found = queue_text(view.queue.schema, view.live.snapshot(), view.queue.lanes(), accept)
    except LonnyMQError as error:
        log.warning("the metrics of the queue cannot be read: %s", error)
        found = queue_text(view.queue.schema, None, (), accept)
    return Response(found.content, media_type=found.content_type)


def _healthz(request: Request) -> Response:
    """Whether the database answers. Anyone may ask."""
    try:
        request.app.state.queue.settings()
    except LonnyMQError:
        return JSONResponse({"status": "the database does not answer"}, 503)
    return JSONResponse({"status": "ok"})


async def _failed(request: Request, error: Exception) -> Response:
    problem = problem_of(error) if isinstance(error, LonnyMQError) else Problem("Error", str(error), None)
    status = status_of(error) if isinstance(error, LonnyMQError) else 500
    access = getattr(request.state, "access", None)
    if status == HTTPStatus.SERVICE_UNAVAILABLE and access is not None and access.channels is not None:
        problem = Problem(problem.error, UNREADABLE, "try again in a while")
    return _tell(request, status, problem)


async def _refused(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods(request)) or headers.get("Allow", "GET")
    is_missing = error.status_code == HTTPStatus.NOT_FOUND
    message = "there is nothing at this address" if is_missing else str(error.detail)
    return _tell(request, error.status_code, Problem("HTTPError", message, None), headers)


def _methods(request: Request) -> list[str]:
    """What the schema has for this path. Starlette's own answer has the methods of one function only."""
    path = route_path(request.scope)
    found = (
        methods
        for known, methods in request.app.openapi()["paths"].items()
        if compile_path(known)[0].fullmatch(path)
    )
    return sorted({method.upper() for methods in found for method in methods})


def _place(location: Iterable[object]) -> str:
    """Without "body" or "query", and without the names of validators, which pydantic adds for a value of
    several types.

    >>> _place(("body", "burst", "function-before[_number(), constrained-int]"))
    'burst'
    """
    parts = [str(part) for part in location if not VALIDATOR.search(str(part))]
    return ".".join(parts[1:] or parts)


async def _invalid(request: Request, error: Exception) -> Response:
    """FastAPI's own answer repeats what was sent, which may be a secret."""
    if not isinstance(error, RequestValidationError):
        raise error
    faults = "; ".join(
        dict.fromkeys(
            f"{_place(one['loc'])}: {one['msg'].removeprefix('Value error, ')}" for one in error.errors()
        )
    )
    is_json = request.headers.get("content-type", "").partition(";")[0] in {"", "application/json"}
    hint = "correct what is named" if is_json else "send JSON, with the header Content-Type: application/json"
    return _tell(request, 422, Problem("InvalidRequest", faults, hint))


def _tell(
    request: Request, status: int, problem: Problem, headers: Mapping[str, str] | None = None
) -> Response:
    """JSON for programs, a page for people."""
    if route_path(request.scope).startswith("/api/"):
        body = {"error": problem.error, "message": problem.message, "hint": problem.hint}
        return JSONResponse(body, status, headers)
    page = pages.problem_page(request, status, problem)
    page.headers.update(headers or {})
    return page
