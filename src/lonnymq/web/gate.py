"""Refuses requests before anything else reads them, and adds the headers that protect the pages."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, MutableMapping
from typing import Any
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lonnymq.web.access import Access, AccessRule

OPEN_PATHS = frozenset({"/healthz"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
NO_STORE = "no-store"
WHAT_TO_DO = "whoever runs it decides by `access`, or by LONNYMQ_WEB_USER and LONNYMQ_WEB_PASSWORD"
BODY_MAX = 1_000_000
"""Bytes. No request of the dashboard needs more: a message is copied by its id."""
POLICY_VIOLATION = 1008


class Gate:
    """An ASGI application around the dashboard. It puts the person's `Access` into the request's state."""

    def __init__(self, app: ASGIApp, rule: AccessRule) -> None:
        self._app = app
        self._rule = rule

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
            return
        # A copy: what this is mounted in may share its state among requests.
        scope = {**with_root(scope), "state": dict(scope.get("state") or {})}

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                _protect(MutableHeaders(scope=message))
            await send(message)

        refusal = await self._refusal(Request(scope))
        answer = self._app if refusal is None else refusal
        await answer(scope, _limited(receive), send_protected)

    async def _refusal(self, request: Request) -> Response | None:
        if route_path(request.scope) in OPEN_PATHS:
            return None
        if request.method not in SAFE_METHODS and (fault := _cross_origin(request)):
            return _refused(403, "CrossOrigin", fault, "send it from a page of the dashboard itself")
        try:
            access = await self._access(request)
        except HTTPException as error:
            return _refused(error.status_code, "AccessDenied", error.detail, None, error.headers)
        if access is None:
            return self._unknown()
        request.state.access = access
        return None

    async def _access(self, request: Request) -> Access | None:
        found = await run_in_threadpool(self._rule, request)  # it may ask a database
        if inspect.isawaitable(found):
            found = await found
        return found if isinstance(found, Access) else None

    def _unknown(self) -> Response:
        challenge = getattr(self._rule, "challenge", None)
        if challenge is None:
            return _refused(403, "AccessDenied", "you have no access to this dashboard", WHAT_TO_DO)
        headers = {"WWW-Authenticate": challenge}
        return _refused(401, "AccessDenied", "a user and a password are needed", WHAT_TO_DO, headers)


def with_root(scope: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Litestar cuts the path that the dashboard is mounted at off `path`, adds a slash, and leaves
    `root_path` as it was. `raw_path` still has all of it.

    >>> with_root({"path": "/workers/", "raw_path": b"/queue/workers"})
    {'path': '/queue/workers', 'raw_path': b'/queue/workers', 'root_path': '/queue'}
    """
    raw: bytes | None = scope.get("raw_path")
    if raw is None:
        return scope
    given = unquote(raw.decode("latin-1"))
    full, below = re.sub("//+", "/", given).rstrip("/"), scope["path"].rstrip("/")
    if given == scope["path"] or full == below or not full.endswith(below):
        return scope
    root = full[: len(full) - len(below)]
    return {**scope, "path": f"{root}{below or '/'}", "root_path": root}


def route_path(scope: MutableMapping[str, Any]) -> str:
    """The path below the one that the dashboard is mounted at, as Starlette's router finds it."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and f"{path}/".startswith(f"{root}/") else path


def _limited(receive: Receive) -> Receive:
    """The body may come without its length, in parts."""
    taken = 0

    async def receive_some() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > BODY_MAX:
            raise HTTPException(413, "the body is too large")
        return message

    return receive_some


def _cross_origin(request: Request) -> str | None:
    """Browsers say where a request comes from, in one of two headers. A program sends neither. A page without
    an origin of its own sends `null`, which equals no host.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return None if site == "same-origin" else f"a page of another site sent this ({site})"
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        return "a page of another site sent this"
    return None


def _protect(headers: MutableHeaders) -> None:
    for name, value in HEADERS.items():
        headers[name] = value
    headers.setdefault("Cache-Control", NO_STORE)


def _refused(
    status: int, error: str, message: str, hint: str | None, headers: Mapping[str, str] | None = None
) -> Response:
    body = json.dumps({"error": error, "message": message, "hint": hint})
    return Response(body, status, headers, media_type="application/json")
