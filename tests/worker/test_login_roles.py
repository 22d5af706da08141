"""Workers whose login lacks a role: they stop at once, and the error names the role to grant."""

import asyncio
import re
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from lonnymq import App, Queue, Worker
from lonnymq.errors import NotPermitted
from lonnymq.install import install, uninstall
from tests.database import unique_name

TIMEOUT_S = 30


@pytest.fixture
def schema(conn: psycopg.Connection) -> Iterator[str]:
    name = unique_name("q")
    install(conn, name, roles=True)
    yield name
    uninstall(conn, name)


@pytest.fixture
def login(conn: psycopg.Connection, schema: str) -> Iterator[str]:
    name = unique_name("login")
    conn.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{name}'".encode())
    yield name
    conn.execute(f"DROP ROLE {name}".encode())


def test_the_hints_lead_to_a_worker_that_runs(
    dsn: str, conn: psycopg.Connection, schema: str, login: str
) -> None:
    ran = []
    with Queue(make_conninfo(dsn, user=login, password=login), schema) as queue:
        app = App(queue)

        @app.cron("0 0 1 1 *")
        @app.task()
        def yearly() -> None:
            ran.append("yearly")

        async def serve() -> None:
            async with asyncio.timeout(TIMEOUT_S):
                await Worker(app).serve(until_empty=True)

        with pytest.raises(NotPermitted, match=r"grant .* one of the roles"):
            asyncio.run(serve())
        conn.execute(f"GRANT {schema}_observer TO {login}".encode())
        granted = set()
        for _ in range(2):  # whichever is needed first
            with pytest.raises(NotPermitted) as raised:
                asyncio.run(serve())
            grant, role = re.findall(rf'(GRANT "{schema}_(.*)" TO "{login}";)', raised.value.hint or "")[0]
            conn.execute(grant.encode())
            granted.add(role)
        assert granted == {"consumer", "producer"}
        yearly.enqueue()
        conn.execute(f"REVOKE {schema}_producer FROM {login}".encode())
        with pytest.raises(NotPermitted, match="schedule_open"):
            asyncio.run(serve())
        [message] = queue.messages()
        assert (message.status, message.attempts) == ("due", 0), "it stops before it leases messages"
        conn.execute(f"GRANT {schema}_producer TO {login}".encode())
        asyncio.run(serve())
    assert ran == ["yearly"]
