"""What each page costs the database, at most, however many messages and tenants there are."""

from collections.abc import Iterator

import psycopg
import pytest
from starlette.testclient import TestClient

from lonnymq import Queue
from lonnymq.web import Access, create_app
from tests.database import AnyServer, DatabasesToDrop, copy_database, unique_name
from tests.large_queue import load
from tests.web.statements import buffers, statements_of

pytestmark = pytest.mark.slow

NOISY = "tenant-0000000"
"""It has a tenth of all messages."""
ALLOWED = {
    "/": 10,
    "/fairness": 10,
    "/tenants?sort=oldest": 10,
    "/tenants?prefix=tenant-00001": 9_000,
    f"/tenant?name={NOISY}": 15_000,
    "/messages": 700,
    f"/messages?channel={NOISY}": 700,
    "/messages?status=leased": 1_800,
    "/message?id={due}": 15_000,
    "/message?id={dead}": 40,
    "/dead": 300,
    "/dead/group?fingerprint={group}": 3_000,
    "/workers": 10,
    "/schedules": 10,
    "/batches": 10,
    "/history": 150,
    f"/history?channel={NOISY}": 100,
    "/lake": 10,
    "/audit": 10,
}
"""Buffers. Why a tenant waits is the dearest answer: it reads the leases, here 700, and who is before it."""


@pytest.fixture(params=[(20_000, 2_000), pytest.param((1_000_000, 100_000), marks=pytest.mark.long)])
def dsn(
    request: pytest.FixtureRequest,
    server: AnyServer,
    admin: psycopg.Connection,
    template: str,
    to_drop: DatabasesToDrop,
) -> Iterator[str]:
    name = unique_name("lonnymq_web")
    copy_database(admin, name, template)
    with psycopg.connect(server.dsn(name), autocommit=True, options="-c search_path=lonnymq") as conn:
        load(conn, *request.param)
    yield server.dsn(name)
    to_drop.add(name)


@pytest.fixture
def queue(dsn: str) -> Iterator[Queue]:
    """Some of its messages are leased, some have finished, and some are dead."""
    with Queue(dsn) as queue:
        queue.set(history=True)
        for _ in range(4):
            found = queue.dequeue(500, lease=3600)
            queue.complete_many(found[:300])
            for one in found[300:320]:
                queue.fail(one, f"ValueError: invoice {one.id} is broken")
            queue.dispatch()
        yield queue


def test_costs(dsn: str, queue: Queue) -> None:
    names = {
        "due": queue.messages(channel=NOISY, status="due", limit=1)[0].id,
        "dead": queue.dead.list(limit=1)[0].id,
        "group": queue.dead.groups()[0].fingerprint,
    }
    app = create_app(queue, access=lambda _: Access.everything("ann"))
    app.state.live.interval = 600.0  # polls would be counted
    client = TestClient(app, base_url="http://localhost")
    assert client.get("/").status_code == 200
    found = {}
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("VACUUM ANALYZE")
        for page in ALLOWED:
            with statements_of(app.state.queue) as made:
                assert client.get(page.format(**names)).status_code == 200, page
            found[page] = buffers(conn, made)
    app.close()
    assert {page: count for page, count in found.items() if count > ALLOWED[page]} == {}
