"""Passwords of the dashboard cannot be guessed quickly."""

import base64
from typing import Any

import pytest
import uvicorn
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from lonnymq.web import Access, Password, guesses, serve
from lonnymq.web.gate import Gate


def request(password: str, host: str | None = "10.0.0.7") -> Request:
    header = b"basic " + base64.b64encode(f"ann:{password}".encode())
    client = None if host is None else (host, 1)
    return Request({"type": "http", "headers": [(b"authorization", header)], "client": client})


def guess(rule: Password, host: str | None) -> None:
    for n in range(guesses.WRONG_MAX):
        assert rule(request(f"guess {n}", host)) is None


@pytest.mark.parametrize("host", ["10.0.0.7", "2001:db8::7", None])
def test_after_many_wrong_ones_none_is_looked_at_for_a_minute(
    monkeypatch: pytest.MonkeyPatch, host: str | None
) -> None:
    now = [1000.0]
    monkeypatch.setattr("lonnymq.web.guesses.time.monotonic", lambda: now[0])
    rule = Password("ann", "right")
    guess(rule, host)
    for password in ("wrong", "right"):
        with pytest.raises(HTTPException) as refused:
            rule(request(password, host))
        assert refused.value.status_code == 429
        assert 0 < int((refused.value.headers or {})["Retry-After"]) <= 61
    assert rule(request("right", "10.0.0.8")) == Access("ann"), "others are not locked out"
    now[0] += 61
    assert rule(request("right", host)) == Access("ann")


def test_all_addresses_of_a_site_are_counted_together() -> None:
    """Who has one has 65,536 networks: they could guess from each, and lock out all others."""
    rule = Password("ann", "right")
    for n in range(guesses.WRONG_MAX):
        assert rule(request("wrong", f"2001:db8:7:{n:x}::{n:x}")) is None
    with pytest.raises(HTTPException):
        rule(request("right", "2001:db8:7:ffff::1"))
    assert rule(request("right", "2001:db8:8::1")) == Access("ann"), "others are not locked out"


def test_ipv4_addresses_at_a_socket_for_both_versions_are_counted_apart() -> None:
    rule = Password("ann", "right")
    guess(rule, "::ffff:10.0.0.7")
    for host in ("::ffff:10.0.0.7", "10.0.0.7"):
        with pytest.raises(HTTPException):
            rule(request("right", host))
    assert rule(request("right", "::ffff:10.0.0.8")) == Access("ann"), "others are not locked out"


def test_many_networks_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guesses, "NETWORKS_MAX", 3)
    wrong = guesses.WrongPasswords()
    for n in range(100):
        wrong.add(f"10.0.0.{n}")
    assert len(wrong._count) == 4
    assert wrong.wait_s("10.0.1.1") > 0
    assert wrong.wait_s("10.0.0.1") == 0


def test_right_passwords_do_not_count() -> None:
    rule = Password("ann", "right")
    for _ in range(guesses.WRONG_MAX + 5):
        assert rule(request("right")) == Access("ann")


class Served(Gate):
    def close(self) -> None:
        """As that of a dashboard."""


@pytest.mark.parametrize("is_trusted", [False, True])
def test_a_client_does_not_choose_the_network_it_is_counted_by(
    monkeypatch: pytest.MonkeyPatch, is_trusted: bool
) -> None:
    """A proxy on this machine passes on X-Forwarded-For, unless it is told to replace it."""
    monkeypatch.delenv("FORWARDED_ALLOW_IPS", raising=False)
    if is_trusted:
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", "127.0.0.1")
    found: list[uvicorn.Config] = []
    monkeypatch.setattr(serve._Server, "run", lambda self, **_: found.append(self.config))
    served: Any = Served(PlainTextResponse("in"), Password("ann", "right"))
    with serve.listen("127.0.0.1", 0) as listening:
        serve.serve(served, listening)
    found[0].load()
    client = TestClient(found[0].loaded_app, client=("127.0.0.1", 1))
    for n in range(guesses.WRONG_MAX):
        answer = client.get("/", auth=("ann", "wrong"), headers={"X-Forwarded-For": f"192.0.2.{n}"})
        assert answer.status_code == 401
    answer = client.get("/", auth=("ann", "right"), headers={"X-Forwarded-For": "192.0.2.99"})
    assert answer.status_code == (200 if is_trusted else 429)
