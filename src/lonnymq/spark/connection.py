"""How a process of Spark connects to the database.

Spark writes options into query plans, its web pages and its event log, so options never hold a secret: only
the name of a libpq service, of a passfile, or of an environment variable. That name is looked up where the
connection is opened, on the driver and on every executor. The secret itself is never pickled.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, cast

import psycopg
from psycopg.conninfo import make_conninfo

from lonnymq.adapters.address import parameters
from lonnymq.adapters.driver_errors import refuse_call
from lonnymq.adapters.psycopg import login, run
from lonnymq.errors import ConnectionDropped, DatabaseUnreachable, InvalidAddress
from lonnymq.schema_name import check_schema_name
from lonnymq.server_errors import hint_to_connect
from lonnymq.spark.source_options import CONNECTION, SECRETS, WITHOUT_SECRETS, InvalidOption, refuse_secrets
from lonnymq.statement import Command

if TYPE_CHECKING:
    from adbc_driver_manager import AdbcDatabase
    from adbc_driver_postgresql.dbapi import Connection

Answer = TypeVar("Answer")

DEFAULT_SCHEMA = "lonnymq"
CONNECT_TIMEOUT_S = 10
NOT_LIBPQ = {"dsnenv", "dsn", "schema"}
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LOOKS_LIKE_AN_ADDRESS = re.compile(r"://|password\s*=", re.IGNORECASE)


@dataclass(frozen=True)
class QueueAddress:
    """The database and schema of the queue, without secrets, so that it can be pickled to executors."""

    schema: str
    given: Mapping[str, str]
    """Parameters for libpq."""
    variable: str | None = None
    """The environment variable that holds the rest of the address."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """From the options of a data source. Options that are not about the connection are ignored."""
        lowered = {name.lower(): str(value) for name, value in options.items()}
        known = {name.lower() for name in CONNECTION}
        chosen = {name: value for name, value in lowered.items() if name in known}
        schema = chosen.get("schema", DEFAULT_SCHEMA)
        check_schema_name(schema)
        refuse_secrets(lowered)
        _refuse_addresses(chosen)
        if not VARIABLE.fullmatch(chosen.get("dsnenv", "NONE")):
            raise InvalidOption(
                "dsnEnv is not the name of a variable",
                "write dsnEnv=DATABASE_URL, and put the address into that variable",
            )
        from_dsn = _without_password(chosen["dsn"]) if "dsn" in chosen else {}
        given = from_dsn | {name: value for name, value in chosen.items() if name not in NOT_LIBPQ}
        return cls(schema, given, chosen.get("dsnenv"))

    def connect(self, *, autocommit: bool = True) -> psycopg.Connection[Any]:
        try:
            return psycopg.connect(self._conninfo(), autocommit=autocommit)
        except psycopg.OperationalError as error:
            raise _unreachable(str(error)) from None

    def refuse(self, error: BaseException, name: str) -> NoReturn:
        """Raise our error for a driver's error that came from the function, view or table of this name."""
        refuse_call(error, self.schema, name, self._login)

    def _login(self) -> str | None:
        with self.connect() as connection:
            return login(connection)

    def adbc(self, *, autocommit: bool = True) -> Connection:
        """Open an Arrow connection of adbc_driver_postgresql.dbapi."""
        from adbc_driver_manager import AdbcConnection, Error
        from adbc_driver_postgresql.dbapi import Connection

        try:
            database = ADBC_DATABASES.get(self._conninfo())
            return Connection(
                cast("AdbcDatabase", KeptOpen()), AdbcConnection(database), autocommit=autocommit
            )
        except Error as error:
            raise _unreachable(str(error)) from None

    def _conninfo(self) -> str:
        """The connection string. It contains the secrets: never show it."""
        from_variable = {} if self.variable is None else _address_in(self.variable)
        defaults: dict[str, Any] = {"fallback_application_name": "lonnymq spark"}
        if not os.environ.get("PGCONNECT_TIMEOUT"):
            defaults["connect_timeout"] = CONNECT_TIMEOUT_S
        merged: dict[str, Any] = defaults | from_variable | dict(self.given)
        return make_conninfo(**merged)


class AdbcDatabases:
    """The database object of the driver, which every task of this process uses.

    To make one, the driver reads all types of the server, which takes 50 ms of CPU time; a connection takes
    three. The types that our queries return are PostgreSQL's own, and are the same on every server.
    """

    def __init__(self) -> None:
        self._last: tuple[str, AdbcDatabase] | None = None

    def get(self, conninfo: str) -> AdbcDatabase:
        from adbc_driver_postgresql import connect

        if self._last is None or self._last[0] != conninfo:
            self._last = conninfo, connect(conninfo)
        return self._last[1]


class KeptOpen:
    """Given to a connection in place of its database, which it would close."""

    def close(self) -> None:
        pass


ADBC_DATABASES = AdbcDatabases()


class QueueConnection:
    """A connection that is opened when it is needed, and opened again after it broke."""

    def __init__(self, address: QueueAddress, settings: str | None = None) -> None:
        """`settings` is a statement that runs on every new connection."""
        self.address = address
        self.settings = settings
        self.connection: psycopg.Connection[Any] | None = None
        self.opened = 0
        """How often it was opened."""

    def run(self, command: Command[Answer]) -> Answer:
        """Run a command once. The caller decides whether to repeat one that may have been carried out."""
        try:
            return run(self.connection or self._open(), self.address.schema, command)
        except ConnectionDropped:
            self.close()
            raise

    def read(self, queries: Callable[[psycopg.Cursor[Any]], Answer]) -> Answer:
        """Run queries that only read, in one transaction. They are repeated on a new connection if this one
        turns out broken.
        """
        try:
            if self.connection is not None:
                try:
                    return self._read(self.connection, queries)
                except psycopg.OperationalError:
                    if not self.connection.closed:
                        raise
            return self._read(self._open(), queries)
        except psycopg.Error as error:
            self.address.refuse(error, "the queue's views")

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _open(self) -> psycopg.Connection[Any]:
        self.close()
        self.connection = self.address.connect()
        self.opened += 1
        if self.settings is not None:
            self.connection.execute(self.settings)
        return self.connection

    @staticmethod
    def _read(
        connection: psycopg.Connection[Any], queries: Callable[[psycopg.Cursor[Any]], Answer]
    ) -> Answer:
        with connection.transaction(), connection.cursor() as cursor:
            return queries(cursor)


def _refuse_addresses(chosen: Mapping[str, str]) -> None:
    for name, value in chosen.items():
        if "\0" in value:
            raise InvalidOption(f"the option {name} contains a NUL character", "leave it out")
        if name != "dsn" and LOOKS_LIKE_AN_ADDRESS.search(value):
            raise InvalidOption(
                f"the option {name} holds an address, which may contain a password", WITHOUT_SECRETS
            )


def _without_password(address: str) -> dict[str, Any]:
    found = parameters(address)
    if SECRETS & found.keys():
        raise InvalidOption("the dsn contains a password, and Spark shows options", WITHOUT_SECRETS)
    return found


def _address_in(variable: str) -> dict[str, Any]:
    address = os.environ.get(variable)
    if not address:
        raise InvalidOption(
            f"dsnEnv names the variable {variable}, which is not set in this Spark process",
            "set it before the session is started, and in the environment of every executor",
        )
    try:
        return parameters(address)
    except InvalidAddress as error:
        raise InvalidAddress(
            f"the variable {variable} does not hold an address that libpq understands", error.hint
        ) from None


def _unreachable(message: str) -> DatabaseUnreachable:
    return DatabaseUnreachable(f"could not connect: {message.strip()}", hint_to_connect(message))
