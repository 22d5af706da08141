"""Who gets in, before any page is asked."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from lonnymq import Queue
from lonnymq.errors import InvalidArgument
from lonnymq.web import Access, Password, create_app
from lonnymq.web.access import AccessRule, local_access, no_access
from lonnymq.web.gate import HEADERS
from tests.web.conftest import As

CHANGE = {"worker": "w", "wanted": "drain"}


@contextmanager
def client(queue: Queue, rule: AccessRule, host: str = "localhost") -> Iterator[TestClient]:
    app = create_app(queue, access=rule)
    yield TestClient(app, base_url=f"http://{host}")
    app.close()


def basic(text: str) -> dict[str, str]:
    return {"authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


def test_nobody_without_a_rule(queue: Queue) -> None:
    with client(queue, no_access) as anyone:
        for path in (
            "/",
            "/workers",
            "/api/v1/workers",
            "/api/v1/openapi.json",
            "/live",
            "/static/icon.svg",
            "/metrics",
            "/no",
        ):
            answer = anyone.get(path)
            assert answer.status_code == 403, path
            assert answer.json()["error"] == "AccessDenied"
        health = anyone.get("/healthz")
        assert (health.status_code, health.json()) == (200, {"status": "ok"})


def test_a_password(queue: Queue) -> None:
    with client(queue, Password("ann", "sécret:x")) as browser:
        refused = browser.get("/workers")
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Basic ")
        for wrong in ("ann:secret", "ann:sécret:x ", "bob:sécret:x", "ann", ""):
            assert browser.get("/workers", headers=basic(wrong)).status_code == 401
        for broken in ("Basic", "Basic ???", "Bearer x", "Basic ä"):
            assert browser.get("/workers", headers={b"authorization": broken.encode()}).status_code == 401
        assert browser.get("/workers", headers=basic("ann:sécret:x")).status_code == 200


@pytest.mark.parametrize(("user", "password"), [("", "x"), ("a:b", "x"), ("ann", "")])
def test_a_password_that_cannot_be(user: str, password: str) -> None:
    with pytest.raises(InvalidArgument):
        Password(user, password)


def test_a_password_is_not_shown() -> None:
    assert "hunter2" not in repr(Password("ann", "hunter2"))


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:8080"])
def test_on_this_machine(queue: Queue, host: str) -> None:
    with client(queue, local_access, host) as browser:
        assert browser.get("/workers").status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example"])
def test_a_name_that_points_at_this_machine(queue: Queue, host: str) -> None:
    """As a page does that has its own name resolve to 127.0.0.1, to read what runs there."""
    with client(queue, local_access, host) as browser:
        assert browser.get("/workers").status_code == 403


def test_an_asynchronous_rule(queue: Queue) -> None:
    async def rule(request: Request) -> Access | None:
        return Access.read_only("ann") if request.headers.get("x-key") == "1" else None

    with client(queue, rule) as browser:
        assert browser.get("/workers").status_code == 403
        assert browser.get("/workers", headers={"x-key": "1"}).status_code == 200
        assert browser.post("/api/v1/workers", headers={"x-key": "1"}, json=CHANGE).status_code == 403


def test_a_rule_that_returns_something_else(queue: Queue) -> None:
    with client(queue, lambda _: True) as browser:  # type: ignore[arg-type, return-value]
        assert browser.get("/workers").status_code == 403


@pytest.mark.parametrize(
    ("headers", "is_refused"),
    [
        ({"sec-fetch-site": "cross-site"}, True),
        ({"sec-fetch-site": "same-site"}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"origin": "https://evil.example"}, True),
        ({"origin": "http://localhost:99"}, True),
        ({"origin": "null"}, True),
        ({"origin": "http://localhost"}, False),
        ({"sec-fetch-site": "same-origin"}, False),
        ({}, False),
    ],
)
def test_changes_from_other_sites(client_as: As, headers: dict[str, str], is_refused: bool) -> None:
    answer = client_as("ann").post("/api/v1/workers", headers=headers, json=CHANGE)
    assert answer.json()["error"] == ("CrossOrigin" if is_refused else "NotFound")


def test_headers(client_as: As) -> None:
    for path in ("/workers", "/api/v1/workers", "/static/dashboard.css", "/none"):
        answer = client_as("ann").get(path)
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
    assert "unsafe" not in HEADERS["Content-Security-Policy"]


def test_large_bodies(client_as: As) -> None:
    ann = client_as("ann")
    assert ann.post("/api/v1/workers", content=b"x" * 1_000_001).status_code == 413
    assert ann.post("/api/v1/workers", content=iter([b"x" * 1_000_001])).status_code == 413
    assert ann.post("/api/v1/workers", content=iter([b"{}"])).status_code == 422


def test_an_invalid_request_is_not_repeated(client_as: As) -> None:
    answer = client_as("ann").post("/api/v1/workers", json={"worker": "w", "wanted": "hunter2"})
    assert answer.status_code == 422
    assert answer.json()["error"] == "InvalidRequest"
    assert "hunter2" not in answer.text
