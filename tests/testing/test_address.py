"""The URLs of test databases, which every driver must accept."""

from __future__ import annotations

import asyncio
import doctest
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import create_engine, make_url, text

from lonnymq.testing import url
from tests.testing.project import Role

SELECT_USER = "SELECT current_user"


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"host": "db"},
        {"port": "5433"},
        {"user": "ann"},
        {"host": "db", "port": "5433", "user": "ann", "password": "a/b@c:d%e?f#g é", "sslmode": "require"},
        {"host": "::1", "port": "5433", "user": "ann@home"},
        {"host": "/run/postgresql", "port": "5433", "options": "-c search_path=a,b"},
        {"host": "@abstract", "user": "ann"},
        {"host": "one,two", "port": "5433,5434", "target_session_attrs": "read-write"},
        {"service": "shop", "connect_timeout": 3},
        {"password": "no user"},
    ],
    ids=str,
)
def test_libpq_reads_the_same_parameters(parameters: dict[str, Any]) -> None:
    for name in ("shop", "a/b?c é"):
        read = conninfo_to_dict(url.url(parameters | {"dbname": "other"}, name))
        assert read == {key: str(value) for key, value in parameters.items()} | {"dbname": name}


def test_other_drivers_read_it_too(role: Role) -> None:
    with psycopg.connect(role.dsn) as conn:
        assert conn.execute(SELECT_USER).fetchone() == (role.name,)
    engine = create_engine(make_url(role.dsn).set(drivername="postgresql+psycopg"))
    with engine.connect() as connection:
        assert connection.execute(text(SELECT_USER)).scalar_one() == role.name
    engine.dispose()

    async def by_asyncpg() -> Any:
        connection = await asyncpg.connect(role.dsn)
        try:
            return await connection.fetchval(SELECT_USER)
        finally:
            await connection.close()

    assert asyncio.run(by_asyncpg()) == role.name


def test_examples_in_docstrings() -> None:
    failed, tried = doctest.testmod(url)
    assert (failed, tried > 0) == (0, True)
