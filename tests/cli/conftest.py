"""Fixtures: a queue, and the command line with the queue's address in its environment."""

from collections.abc import Iterator
from typing import Any, Protocol

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from lonnymq import Queue
from lonnymq.install import install, uninstall
from tests.cli.running import Done, run
from tests.database import unique_name


class Run(Protocol):
    def __call__(self, *arguments: str, stdin: bytes = b"", **keywords: Any) -> Done: ...


class Login(Protocol):
    def __call__(self, *roles: str) -> str: ...


@pytest.fixture
def queue(dsn: str) -> Iterator[Queue]:
    with Queue(dsn) as queue:
        yield queue


@pytest.fixture
def lonnymq(dsn: str) -> Run:
    def call(*arguments: str, stdin: bytes = b"", **keywords: Any) -> Done:
        return run(*arguments, dsn=dsn, stdin=stdin, **keywords)

    return call


@pytest.fixture
def schema(conn: psycopg.Connection) -> Iterator[str]:
    """Another queue, with roles, in a schema whose unique name has to be quoted."""
    name = unique_name("my %q")
    install(conn, name, roles=True)
    yield name
    uninstall(conn, name)


@pytest.fixture
def login(conn: psycopg.Connection, dsn: str) -> Iterator[Login]:
    """The address for a new login that is a member of these roles only."""
    made: list[str] = []

    def make(*roles: str) -> str:
        name = unique_name("login")
        made.append(name)
        conn.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(name), sql.Literal(name))
        )
        for role in roles:
            conn.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), sql.Identifier(name)))
        return make_conninfo(dsn, user=name, password=name)

    yield make
    for name in made:
        conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))
