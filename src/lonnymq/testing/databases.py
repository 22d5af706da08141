"""Databases for tests: a template with the queue installed, made once, and a copy of it for each test."""

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
from lonnymq.install import install
from lonnymq.testing.testing_errors import NoDatabase
from lonnymq.testing.url import url

Prepare = Callable[[str], object]

END_CONNECTIONS = sql.SQL(
    "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE datname = {}"
)
UNLESS_SAID = {"dbname": "postgres", "connect_timeout": "10"}


class Databases:
    """On one server. What is made there is dropped by `close`, or else when the process ends."""

    def __init__(self, address: str) -> None:
        self._address = parameters(address)
        self._templates: dict[tuple[str, Prepare | None], str] = {}
        self._made: list[str] = []
        self._connection().close()  # where there is no server, it is said at once
        shutdown.at_end(self._close_if_possible)

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
        for name in list(self._made):
            self._drop(name)

    def _close_if_possible(self) -> None:
        """At the end of a process whose server may have gone before it."""
        with suppress(NoDatabase, psycopg.Error):
            self.close()

    def _template(self, schema: str, prepare: Prepare | None) -> str:
        if (schema, prepare) not in self._templates:
            name = self._create("lonnymq_template", "template0", sql.SQL(""))
            try:
                self._furnish(name, schema, prepare)
            except BaseException:
                self._drop(name)
                raise
            self._templates[schema, prepare] = name
        return self._templates[schema, prepare]

    def _furnish(self, name: str, schema: str, prepare: Prepare | None) -> None:
        address = url(self._address, name)
        with psycopg.connect(address, autocommit=True) as connection:
            install(connection, schema)
        if prepare is not None:
            prepare(address)
        self._execute(END_CONNECTIONS.format(sql.Literal(name)))  # else it could not be copied

    def _create(self, prefix: str, template: str, strategy: sql.SQL) -> str:
        name = f"{prefix}_{secrets.token_hex(6)}"
        self._made.append(name)  # first, as Ctrl-C may come at any time
        try:
            self._execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {} {}").format(
                    sql.Identifier(name), sql.Identifier(template), strategy
                )
            )
        except NoDatabase:
            self._made.remove(name)
            raise
        return name

    def _drop(self, name: str) -> None:
        """Also where connections to it were left open."""
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        self._made.remove(name)

    def _execute(self, query: sql.Composed) -> None:
        with self._connection() as connection:
            try:
                connection.execute(query)
            except InsufficientPrivilege as error:
                role = connection.info.user
                raise NoDatabase(
                    f"the role {role!r} may not make databases, and each test gets one of its own: {error}",
                    f'have it said: ALTER ROLE "{role}" CREATEDB; or give an address with another role',
                ) from None

    def _connection(self) -> psycopg.Connection[Any]:
        try:
            return psycopg.connect(make_conninfo(**UNLESS_SAID | self._address), autocommit=True)
        except psycopg.OperationalError as error:
            raise NoDatabase(
                f"the server for the tests is not to be reached: {error}",
                "see that it is up, and that its address is right",
            ) from None
