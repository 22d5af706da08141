"""A dashboard per module, over HTTP without a network. The person who asks is named in a header."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from lonnymq import Queue
from lonnymq.web import Access, create_app
from lonnymq.web.access import Right
from tests.database import AnyServer, DatabasesToDrop, copy_database, unique_name

PERSON = "x-person"
PEOPLE = {
    "ann": Access.everything("ann"),
    "reader": Access.read_only("reader"),
    "clerk": Access("clerk", frozenset({Right.READ})),
    "acme": Access.everything("acme").only("acme"),
}
"""`ann` may do everything, `reader` may look, `clerk` may not see payloads, `acme` is a tenant."""

As = Callable[[str], TestClient]


def access_by_header(request: Request) -> Access | None:
    return PEOPLE.get(request.headers.get(PERSON, ""))


@pytest.fixture(scope="module")
def web_dsn(
    server: AnyServer, admin: psycopg.Connection, template: str, to_drop: DatabasesToDrop
) -> Iterator[str]:
    """One database for all tests of a module: they use channels of their own."""
    name = unique_name("lonnymq_web")
    copy_database(admin, name, template)
    yield server.dsn(name)
    to_drop.add(name)


@pytest.fixture(scope="module")
def queue(web_dsn: str) -> Iterator[Queue]:
    with Queue(web_dsn, pool_size=2) as queue:
        queue.set(history=True, history_content=True)
        yield queue


@pytest.fixture(scope="module")
def client_as(queue: Queue) -> Iterator[As]:
    """A client for each person: `client_as("ann").get("/workers")`."""
    app = create_app(queue, access=access_by_header, trace_url="https://traces.example/trace/{trace_id}")

    def client(person: str) -> TestClient:
        return TestClient(app, base_url="http://localhost", headers={PERSON: person})

    yield client
    app.close()


@pytest.fixture(scope="module")
def ann(client_as: As) -> TestClient:
    return client_as("ann")
