"""What is refused before a page is read: wrong hosts and origins, large bodies, odd paths."""

import asyncio
import base64
from typing import Any

import pytest
from starlette.datastructures import Address, Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from lonnymq import Queue
from lonnymq.errors import InvalidArgument
from lonnymq.web import Access, Password, create_app
from lonnymq.web.access import local_access
from lonnymq.web.gate import BODY_MAX, HEADERS, POLICY_VIOLATION, Gate, route_path, with_root
from tests.web.conftest import As

PAUSE = {"worker": "mail", "wanted": "pause"}
"""A change of what does not exist: 404 if it got as far as that."""


def request(host: str | None, client: str | None = "127.0.0.1") -> Request:
    headers = {} if host is None else {"host": host}
    address = None if client is None else Address(client, 1)
    raw = Headers(headers).raw
    return Request({"type": "http", "headers": raw, "client": address, "path": "/", "method": "GET"})


@pytest.mark.parametrize(
    ("host", "client", "is_local"),
    [
        ("localhost", "127.0.0.1", True),
        ("LOCALHOST:8080", "127.0.0.1", True),
        ("localhost.", "::1", True),
        ("127.0.0.1:8080", "127.0.0.1", True),
        ("127.0.0.2", "127.0.0.2", True),
        ("[::1]", None, True),
        ("[::1]:8080", "testclient", True),
        ("localhost", "10.0.0.7", False),
        ("shop.example", "127.0.0.1", False),
        ("shop.example:8080", "127.0.0.1", False),
        ("localhost.shop.example", "127.0.0.1", False),
        ("127.0.0.1.shop.example", "127.0.0.1", False),
        ("localhost@shop.example", "127.0.0.1", False),
        ("shop.example@localhost", "127.0.0.1", False),
        ("10.0.0.1", "127.0.0.1", False),
        ("[::1", "127.0.0.1", False),
        ("[fe80::1%25lo]", "127.0.0.1", False),
        ("", "127.0.0.1", False),
        (None, "127.0.0.1", False),
    ],
)
def test_who_is_local(host: str | None, client: str | None, is_local: bool) -> None:
    assert (local_access(request(host, client)) is not None) is is_local


@pytest.mark.parametrize(
    ("forwarded", "is_local"),
    [
        ([b"127.0.0.1"], True),
        ([b"::1, 127.0.0.1"], True),
        ([b""], True),
        ([b"10.0.0.7"], False),
        ([b"127.0.0.1, 10.0.0.7"], False),
        ([b"127.0.0.1", b"10.0.0.7"], False),
        ([b"unknown"], False),
    ],
)
def test_what_a_proxy_forwards_is_not_local(forwarded: list[bytes], is_local: bool) -> None:
    scope = request("localhost").scope
    scope["headers"] = [*scope["headers"], *((b"x-forwarded-for", each) for each in forwarded)]
    assert (local_access(Request(scope)) is not None) is is_local


def test_a_password() -> None:
    """Whatever its characters are, and however they were given."""
    for user, password in (("zoë", "pass:wörd"), ("zoe", "\udcff"), ("zoe", "密码" * 50)):
        rule = Password(user, password)
        given = f"{user}:{password}".encode(errors="surrogateescape")
        right = f"basic {base64.b64encode(given).decode()}"
        wrong = [right[:-8], right.replace("basic", "Bearer"), "Basic", "Basic ¤", f"Basic {'=' * 5}", ""]
        assert rule(_with(right)) == Access(user)
        assert [rule(_with(header)) for header in wrong] == [None] * len(wrong)
        assert password not in repr(rule)
    for user, password in (("", "x"), ("a:b", "x"), ("zoe", ""), ("zoe", "\ud800")):
        with pytest.raises(InvalidArgument):
            Password(user, password)


def _with(authorization: str) -> Request:
    return Request({"type": "http", "headers": [(b"authorization", authorization.encode("latin-1"))]})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 404),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://proxy.example"}, 404),
        ({"Origin": "http://localhost"}, 404),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Sec-Fetch-Site": ""}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "http://localhost:81"}, 403),
        ({"Origin": "http://localhost.evil.example"}, 403),
        ({"Origin": "http://[evil"}, 403),
    ],
)
def test_a_change_from_elsewhere(ann: TestClient, headers: dict[str, str], status: int) -> None:
    assert ann.post("/api/v1/workers", json=PAUSE, headers=headers).status_code == status


def test_other_media_types_are_refused(ann: TestClient) -> None:
    """A form of another site can send these without asking first."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        sent = ann.post(
            "/api/v1/workers", content='{"worker":"a","wanted":"pause"}', headers={"content-type": kind}
        )
        assert sent.status_code == 422


def test_large_bodies(ann: TestClient) -> None:
    """With a length, or in parts."""
    large = b'{"worker":"%s","wanted":"pause"}' % (b"x" * BODY_MAX)
    kind = {"content-type": "application/json"}
    parts = (large[at : at + 65_536] for at in range(0, len(large), 65_536))
    assert ann.post("/api/v1/workers", content=large, headers=kind).status_code == 413
    assert ann.post("/api/v1/workers", content=parts, headers=kind).status_code == 413
    few = iter([b'{"worker":"mail",', b'"wanted":"pause"}'])
    assert ann.post("/api/v1/workers", content=few, headers=kind).status_code == 404


def test_odd_paths(ann: TestClient, client_as: As) -> None:
    nobody = client_as("nobody")
    for path in (
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/%2e%2e/app.py",
        "/static//etc/passwd",
        "/static/%00",
        "/static/" + "x" * 5_000,
        "/static/",
        "http://localhost//localhost/workers",
        "/%2fworkers",
        "/healthz%2f..%2fworkers",
        "/healthz/../nothing",
        "/\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    ):
        assert ann.get(path).status_code == 404, path
        assert nobody.get(path).status_code == 403, path
    assert nobody.get("/healthz").json() == {"status": "ok"}
    assert nobody.head("/healthz").status_code == 200
    for path in (
        "/healthz/",
        "//healthz",
        "/HEALTHZ",
        "/static/dashboard.css",
        "/api/v1/openapi.json",
        "/live",
    ):
        refused = nobody.get(path, follow_redirects=False)
        assert refused.status_code == 403, path
        assert {name: refused.headers.get(name) for name in HEADERS} == HEADERS
    for method in ("HEAD", "OPTIONS", "DELETE", "PATCH", "TRACE", "GETT"):
        assert ann.request(method, "/workers").status_code == 405, method
        assert nobody.request(method, "/workers").status_code == 403, method


def test_long_headers(ann: TestClient) -> None:
    assert ann.get("/workers", headers={"authorization": "Basic " + "x" * 100_000}).status_code == 200


@pytest.mark.parametrize(
    ("scope", "root", "route"),
    [
        ({"path": "/workers", "raw_path": b"/workers"}, "", "/workers"),
        ({"path": "/q/workers", "raw_path": b"/q/workers", "root_path": "/q"}, "/q", "/workers"),
        ({"path": "/q", "raw_path": b"/q", "root_path": "/q"}, "/q", ""),
        ({"path": "/qq/healthz", "raw_path": b"/qq/healthz", "root_path": "/q"}, "/q", "/qq/healthz"),
        ({"path": "/workers/", "raw_path": b"/q/workers"}, "/q", "/workers"),
        ({"path": "/", "raw_path": b"/q/"}, "/q", "/"),
        ({"path": "/", "raw_path": b"/q"}, "/q", "/"),
        ({"path": "/workers/", "raw_path": b"//q//workers/"}, "/q", "/workers"),
        ({"path": "/workers/", "raw_path": b"/a/q/workers", "root_path": "/a"}, "/a/q", "/workers"),
        ({"path": "/a b/", "raw_path": b"/q/a%20b"}, "/q", "/a b"),
        ({"path": "/workers", "raw_path": b"/healthz"}, "", "/workers"),
        ({"path": "/workers"}, "", "/workers"),
    ],
)
def test_the_path_that_it_is_mounted_at(scope: dict[str, Any], root: str, route: str) -> None:
    found = with_root(scope)
    assert (found.get("root_path", ""), route_path(found)) == (root, route)


def test_rules_of_all_kinds(queue: Queue) -> None:
    async def later(request: Request) -> Access | None:
        return Access("later") if request.query_params.get("key") == "7" else None

    def login(_: Request) -> Access | None:
        raise HTTPException(303, "log in first", {"Location": "/login"})

    def broken(_: Request) -> Access | None:
        raise ZeroDivisionError

    def wrong(_: Request) -> Any:
        return "ann"

    answers = {}
    for rule in (None, later, login, broken, wrong):
        app = create_app(queue) if rule is None else create_app(queue, access=rule)
        with TestClient(app, raise_server_exceptions=False, follow_redirects=False) as client:
            answers[rule] = client.get("/static/icon.svg?key=7")
    assert {rule: answer.status_code for rule, answer in answers.items()} == {
        None: 403,
        later: 200,
        login: 303,
        broken: 500,
        wrong: 403,
    }
    assert answers[login].headers["location"] == "/login"


def test_websockets_are_refused(ann: TestClient) -> None:
    for path in ("/live", "/static/icon.svg", "/healthz"):
        with pytest.raises(WebSocketDisconnect) as closed, ann.websocket_connect(path):
            pass
        assert closed.value.code == POLICY_VIOLATION


def test_the_state_of_requests_is_not_shared() -> None:
    """The server, or what the dashboard is mounted in, may pass one dict for all requests."""
    shared: dict[str, Any] = {"theirs": 1}
    seen: list[dict[str, Any]] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        seen.append(scope["state"])

    async def unused(*_: Any) -> Any:
        raise AssertionError

    gate = Gate(app, lambda request: Access(request.headers["x-person"]))
    for person in (b"ann", b"bob"):
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/",
            "state": shared,
            "headers": [(b"x-person", person)],
        }
        asyncio.run(gate(scope, unused, unused))
    assert seen == [{"theirs": 1, "access": Access("ann")}, {"theirs": 1, "access": Access("bob")}]
    assert shared == {"theirs": 1}
