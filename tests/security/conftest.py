"""A queue with roles, in a database of its own, and logins for those who attack it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from psycopg import sql

from lonnymq.install import install
from tests.database import Connect, unique_name

PASSWORD = "no secret"  # noqa: S105 - the servers of tests trust everyone on this machine

Conn = psycopg.Connection[Any]


@dataclass
class Attacked:
    """The queue is in `schema`. Its roles and the logins have names that begin with it."""

    conn: Conn
    schema: str
    connect: Connect
    made: list[str] = field(default_factory=list)

    def run(self, statement: str, **names: str) -> None:
        """Run a statement as the owner of the queue. Names in braces are quoted."""
        given = {"schema": self.schema} | names
        self.conn.execute(sql.SQL(statement).format(**{k: sql.Identifier(v) for k, v in given.items()}))

    def make_login(self, name: str, *roles: str, channels: list[str] | None = None) -> str:
        """A login with these roles of the queue, bound to the channels if some are given."""
        login = f"{self.schema}_{name}"
        make = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
        self.conn.execute(make.format(sql.Identifier(login), sql.Literal(PASSWORD)))
        for role in roles:
            self.run("GRANT {role} TO {login}", role=f"{self.schema}_{role}", login=login)
        if channels is not None:
            self.conn.execute("SELECT credential_bind(%s, %s)", (login, channels))
        return login

    def open(self, login: str, **keywords: Any) -> Conn:
        path = f"-c search_path={self.schema}"
        return self.connect(**({"user": login, "password": PASSWORD, "options": path} | keywords))

    def login(self, name: str, *roles: str, channels: list[str] | None = None) -> Conn:
        return self.open(self.make_login(name, *roles, channels=channels))

    def tenant(self, *channels: str) -> Conn:
        """A login that may produce to and observe these channels, `mine` unless given."""
        return self.login("tenant", "producer", "observer", channels=list(channels or ("mine",)))

    def schema_of(self, login: Conn, name: str) -> str:
        """A schema that belongs to the login."""
        self.run("CREATE SCHEMA {name} AUTHORIZATION {login}", name=name, login=login.info.user)
        return name


@pytest.fixture
def bare(conn: Conn, connect: Connect) -> Iterator[Attacked]:
    """Not installed yet."""
    schema = unique_name("q")
    yield Attacked(conn, schema, connect)
    conn.execute("RESET SESSION AUTHORIZATION")
    query = "SELECT rolname FROM pg_roles WHERE starts_with(rolname, %s)"
    roles = [sql.Identifier(name) for (name,) in conn.execute(query, (schema,)).fetchall()]
    for drop in ("DROP OWNED BY {} CASCADE", "DROP ROLE {}"):
        for role in roles:
            conn.execute(sql.SQL(drop).format(role))


@pytest.fixture
def queue(bare: Attacked) -> Attacked:
    install(bare.conn, bare.schema, roles=True)
    bare.conn.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(bare.schema)))
    return bare
