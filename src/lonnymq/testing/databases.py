"""Databases for tests: a template with the queue installed, created once, and a copy of it for each test."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.errors import InsufficientPrivilege

from lonnymq.adapters.address import parameters
from lonnymq.embedded import shutdown
from lonnymq.errors import LonnyMQError
from lonnymq.install import install
from lonnymq.testing.url import url

Prepare = Callable[[str], object]

TERMINATE_CONNECTIONS = sql.SQL(
    "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE datname = {}"
)
DEFAULTS = {"dbname": "postgres", "connect_timeout": "10"}


class NoDatabase(LonnyMQError):
    """There is no server to create databases on, or it does not allow us to create any."""


class Databases:
    """The databases of one server. They are dropped by `close`, or when the process exits."""

    def __init__(self, address: str) -> None:
        self._address = parameters(address)
        self._templates: dict[tuple[str, Prepare | None], str] = {}
        self._created: list[str] = []
        self._connection().close()  # fails at once if there is no server
        shutdown.at_exit(self._close_if_possible)

    @contextmanager
    def copy(self, schema: str, prepare: Prepare | None) -> Iterator[str]:
        """The address of a new database with the queue in this schema."""
        template = self._template(schema, prepare)
        name = self._create("lonnymq_test", template, sql.SQL("STRATEGY file_copy"))
        try:
            yield url(self._address, name)
        finally:
            self._drop(name)

    def close(self) -> None:
        shutdown.forget(self._close_if_possible)
        for name in list(self._created):
            self._drop(name)

    def _close_if_possible(self) -> None:
        """When the process exits, the server may be gone already."""
        with suppress(NoDatabase, psycopg.Error):
            self.close()

    def _template(self, schema: str, prepare: Prepare | None) -> str:
        if (schema, prepare) not in self._templates:
            name = self._create("lonnymq_template", "template0", sql.SQL(""))
            try:
                self._fill_template(name, schema, prepare)
            except BaseException:
                self._drop(name)
                raise
            self._templates[schema, prepare] = name
        return self._templates[schema, prepare]

    def _fill_template(self, name: str, schema: str, prepare: Prepare | None) -> None:
        address = url(self._address, name)
        with psycopg.connect(address, autocommit=True) as connection:
            install(connection, schema)
        if prepare is not None:
            prepare(address)
        self._execute(
            TERMINATE_CONNECTIONS.format(sql.Literal(name))
        )  # a template with connections cannot be copied

    def _create(self, prefix: str, template: str, strategy: sql.SQL) -> str:
        name = f"{prefix}_{secrets.token_hex(6)}"
        self._created.append(name)  # before it is created, because Ctrl-C may come at any time
        try:
            self._execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {} {}").format(
                    sql.Identifier(name), sql.Identifier(template), strategy
                )
            )
        except NoDatabase:
            self._created.remove(name)
            raise
        return name

    def _drop(self, name: str) -> None:
        """Drop the database, even if connections to it are open."""
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        self._created.remove(name)

    def _execute(self, query: sql.Composed) -> None:
        with self._connection() as connection:
            try:
                connection.execute(query)
            except InsufficientPrivilege as error:
                role = connection.info.user
                raise NoDatabase(
                    f"the role {role!r} may not create databases, and each test needs its own: {error}",
                    f'run: ALTER ROLE "{role}" CREATEDB; or give an address with another role',
                ) from None

    def _connection(self) -> psycopg.Connection[Any]:
        try:
            return psycopg.connect(make_conninfo(**DEFAULTS | self._address), autocommit=True)
        except psycopg.OperationalError as error:
            raise NoDatabase(
                f"could not connect to the server for the tests: {error}",
                "check the address, or start the server",
            ) from None
