"""Many open pages, a database that goes away and comes back, and people who do the same at once."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import psycopg
import pytest
from fastapi import FastAPI
from playwright.sync_api import expect
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from starlette.testclient import TestClient

from lonnymq import Queue
from lonnymq.web import app as web_app
from lonnymq.web import create_app, live
from tests.web.browser import opened_tab, served, started_browser
from tests.web.conftest import PERSON, access_by_header

STREAMS = 20
ANN = {PERSON: "ann"}
PAGES = ("/", "/tenants", "/messages", "/workers", "/api/v1/queue", "/dead")


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def app(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> Iterator[FastAPI]:
    """It polls often, and gives up soon."""
    monkeypatch.setattr(web_app, "CONNECT_TIMEOUT_S", 1)
    monkeypatch.setattr(live, "IDLE_S", 1.0)
    app = create_app(queue, access=access_by_header)
    app.state.live.interval = 0.2
    yield app
    app.close()


def database(dsn: str) -> str:
    return str(conninfo_to_dict(dsn)["dbname"])


def connections(admin: psycopg.Connection, dsn: str) -> int:
    row = admin.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = %s", [database(dsn)]
    ).fetchone()
    return 0 if row is None else int(row[0])


def allow(admin: psycopg.Connection, dsn: str, *, connections: bool) -> None:
    name = database(dsn)
    admin.execute(
        sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}").format(
            sql.Identifier(name), sql.SQL(str(connections).lower())
        )
    )
    if not connections:
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])


def test_many_open_pages(app: FastAPI, admin: psycopg.Connection, web_dsn: str) -> None:
    """They share one poller and the pool, and end when their browsers are gone."""
    before = connections(admin, web_dsn)

    async def stream(client: httpx.AsyncClient, has_begun: asyncio.Semaphore, end: asyncio.Event) -> None:
        async with client.stream("GET", "/live") as answer:
            assert answer.status_code == 200
            async for line in answer.aiter_lines():
                if line.startswith("data:"):
                    has_begun.release()
                    break
            await end.wait()

    async def look(address: str) -> int:
        limits = httpx.Limits(max_connections=100)
        async with httpx.AsyncClient(base_url=address, headers=ANN, limits=limits, timeout=20) as client:
            has_begun, end = asyncio.Semaphore(0), asyncio.Event()
            streams = [asyncio.create_task(stream(client, has_begun, end)) for _ in range(STREAMS)]
            for _ in streams:
                await has_begun.acquire()
            answers = await asyncio.gather(*(client.get(path) for path in PAGES * 5))
            assert {answer.status_code for answer in answers} == {200}
            used = connections(admin, web_dsn) - before
            end.set()
            await asyncio.gather(*streams)
        return used

    def pollers() -> int:
        return sum(thread.name == "lonnymq-web-live" for thread in threading.enumerate())

    with served(app) as address:
        assert asyncio.run(look(address)) <= web_app.POOL_SIZE + 1
        assert pollers() <= 1
        wait_for(lambda: not pollers())  # no stream keeps it alive


@pytest.mark.debian("chromium")
@pytest.mark.slow
def test_a_database_that_goes_away(app: FastAPI, admin: psycopg.Connection, web_dsn: str) -> None:
    """Open pages say so, new ones too, and both go on by themselves."""
    with served(app) as address, started_browser() as browser, opened_tab(browser, address) as tab:
        tab.open("/workers")
        page, other = tab.page, tab.page.context.new_page()
        expect(page.locator("#trouble")).to_be_hidden()
        allow(admin, web_dsn, connections=False)
        try:
            expect(page.locator("#trouble")).to_contain_text("the queue cannot be read")
            with ThreadPoolExecutor() as threads:
                paths = (*PAGES, "/health", "/metrics")
                answers = threads.map(
                    lambda path: httpx.get(f"{address}{path}", headers=ANN, timeout=20), paths
                )
            for path, answer in zip(paths, answers, strict=True):
                assert answer.status_code == (200 if path == "/metrics" else 503), path
                assert "Traceback" not in answer.text
            theirs = httpx.get(f"{address}/messages", headers={PERSON: "acme"}, timeout=20)
            assert (theirs.status_code, "the queue cannot be read now" in theirs.text) == (503, True)
            assert "connect" not in theirs.text.partition("This did not work")[2]
            health = httpx.get(f"{address}/healthz", timeout=20)
            assert (health.status_code, health.json()["status"]) == (503, "the database does not answer")
            answer = httpx.patch(f"{address}/api/v1/queue", json={"paused": True}, headers=ANN, timeout=20)
            assert (answer.status_code, answer.json()["hint"] is not None) == (503, True)
            other.goto(f"{address}/tenants")
            expect(other.locator("h1")).to_have_text("This did not work")
            expect(page.locator("#trouble")).to_be_visible()
        finally:
            allow(admin, web_dsn, connections=True)
        expect(page.locator("#trouble")).to_be_hidden()
        expect(other.locator("h1")).to_have_text("Tenants")
        expect(other.locator("#trouble")).to_be_hidden()


def at_once(client: TestClient, *requests: tuple[str, str, object]) -> list[int]:
    """The status of each of several requests that are sent together."""
    start = threading.Barrier(len(requests))

    def send(method: str, path: str, body: object) -> int:
        start.wait()
        return client.request(method, f"/api/v1{path}", json=body).status_code

    with ThreadPoolExecutor(len(requests)) as threads:
        return [one.result() for one in [threads.submit(send, *request) for request in requests]]


def test_the_same_at_once(app: FastAPI, queue: Queue) -> None:
    """One of them wins, the others are told, and the audit says which."""
    ann = TestClient(app, base_url="http://localhost", headers=ANN)
    ann.get("/api/v1/queue")
    newest = max((entry.id for entry in queue.audit(limit=1)), default=0)

    def outcomes(action: str) -> list[str]:
        entries = [entry for entry in queue.audit(limit=500) if entry.id > newest and entry.action == action]
        assert all(entry.who == "ann" and entry.ended_at is not None for entry in entries)
        return sorted(entry.outcome or "" for entry in entries)

    weights: list[tuple[str, str, object]] = [
        ("PATCH", "/channel", {"name": "both", "weight": weight}) for weight in (2, 3, 4, 5)
    ]
    assert at_once(ann, *weights) == [200] * 4
    assert queue.channel("both").get().weight in {2, 3, 4, 5}
    assert outcomes("channel.set") == ["done"] * 4

    for number in range(50):
        queue.enqueue(number, channel="both")
    for message in queue.dequeue(50):
        queue.fail(message, error="ValueError: 7")
    (group,) = queue.dead.groups(channel="both", limit=5)
    retry = ("POST", "/dead/retry", {"fingerprint": group.fingerprint})
    assert at_once(ann, *[retry] * 4) == [200] * 4
    assert queue.channel("both").stats().due + queue.channel("both").stats().scheduled == 50
    told = [int(text.split(" ")[0]) for text in outcomes("dead.retry")]
    assert (len(told), sum(told)) == (4, 50)

    ids = [queue.enqueue(n, channel="both", delay=60).id or 0 for n in range(10)]
    for scheduled in ids:
        race: list[tuple[str, str, object]] = [
            ("POST", f"/messages/{scheduled}/{what}", {}) for what in ("cancel", "run-now", "cancel", "copy")
        ]
        assert set(at_once(ann, *race)) <= {200, 404, 409}
        assert queue.get(scheduled) is None
    assert outcomes("message.cancel").count("cancelled") == 10
    assert all(text == "cancelled" or text.startswith("failed: ") for text in outcomes("message.cancel"))
    assert all(text == "done" or text.startswith("failed: ") for text in outcomes("message.run_now"))
    copies = [text for text in outcomes("message.copy") if text.startswith("created ")]
    assert all(queue.get(int(text.split(" ")[1])) for text in copies)
