"""How a process of Spark reaches the database.

Spark writes options into plans, its pages and its event log, so they hold no secret: only the name of a
libpq service, of a passfile, or of a variable. What these stand for is looked up where a connection is
opened, on the driver and on every executor, and is never pickled.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Self

import psycopg
from psycopg.conninfo import make_conninfo

from lonnymq.adapters.address import parameters
from lonnymq.adapters.driver_errors import refuse_call
from lonnymq.adapters.psycopg import login
from lonnymq.errors import IS_IT_UP, DatabaseUnreachable, InvalidAddress
from lonnymq.install.sql_text import check_schema_name
from lonnymq.spark.source_options import CONNECTION, SECRETS, WITHOUT_SECRETS, InvalidOption, refuse_secrets

if TYPE_CHECKING:
    from adbc_driver_postgresql.dbapi import Connection

DEFAULT_SCHEMA = "lonnymq"
CONNECT_TIMEOUT_S = 10
NOT_LIBPQ = {"dsnenv", "dsn", "schema"}
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LOOKS_LIKE_AN_ADDRESS = re.compile(r"://|password\s*=", re.IGNORECASE)


@dataclass(frozen=True)
class Connecting:
    """Where the queue is, without any secret, so that it can be sent to wherever it is reached from."""

    schema: str
    given: Mapping[str, str]
    variable: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """From a data source's options; those that are not about the connection are passed over."""
        found = {name.lower(): str(value) for name, value in options.items()}
        of_connection = {name.lower() for name in CONNECTION}
        chosen = {name: value for name, value in found.items() if name in of_connection}
        schema = chosen.get("schema", DEFAULT_SCHEMA)
        check_schema_name(schema)
        refuse_secrets(found)
        _refuse_addresses(chosen)
        if not VARIABLE.fullmatch(chosen.get("dsnenv", "NONE")):
            raise InvalidOption(
                "dsnEnv is not the name of a variable", "write dsnEnv=DATABASE_URL and set that"
            )
        address = _without_password(chosen["dsn"]) if "dsn" in chosen else {}
        given = address | {name: value for name, value in chosen.items() if name not in NOT_LIBPQ}
        return cls(schema, given, chosen.get("dsnenv"))

    def connect(self, *, autocommit: bool = True) -> psycopg.Connection[Any]:
        try:
            return psycopg.connect(self._conninfo(), autocommit=autocommit)
        except psycopg.OperationalError as error:
            raise _unreachable(str(error)) from None

    def refuse(self, error: BaseException, name: str) -> NoReturn:
        """Raise what an error means that came of using a function, view or table of this name."""
        refuse_call(error, self.schema, name, self._login)

    def _login(self) -> str | None:
        with self.connect() as connection:
            return login(connection)

    def adbc(self, *, autocommit: bool = True) -> Connection:
        """An Arrow connection, of adbc_driver_postgresql.dbapi."""
        from adbc_driver_manager import Error
        from adbc_driver_postgresql import dbapi

        try:
            return dbapi.connect(self._conninfo(), autocommit=autocommit)
        except Error as error:
            raise _unreachable(str(error)) from None

    def _conninfo(self) -> str:
        """With whatever is secret in it: never to be shown."""
        address = {} if self.variable is None else _address_in(self.variable)
        defaults: dict[str, Any] = {"fallback_application_name": "lonnymq spark"}
        if not os.environ.get("PGCONNECT_TIMEOUT"):
            defaults["connect_timeout"] = CONNECT_TIMEOUT_S
        merged: dict[str, Any] = defaults | address | dict(self.given)
        return make_conninfo(**merged)


def _refuse_addresses(chosen: Mapping[str, str]) -> None:
    for name, value in chosen.items():
        if name != "dsn" and LOOKS_LIKE_AN_ADDRESS.search(value):
            raise InvalidOption(
                f"the option {name} holds an address, which may have a password in it", WITHOUT_SECRETS
            )


def _without_password(address: str) -> dict[str, Any]:
    found = parameters(address)
    if SECRETS & found.keys():
        raise InvalidOption("the dsn has a password in it, and Spark shows options", WITHOUT_SECRETS)
    return found


def _address_in(variable: str) -> dict[str, Any]:
    address = os.environ.get(variable)
    if not address:
        raise InvalidOption(
            f"dsnEnv names the variable {variable}, which is not set in this process of Spark",
            "set it before the session is started, and in the environment of every executor",
        )
    try:
        return parameters(address)
    except InvalidAddress as error:
        raise InvalidAddress(
            f"what the variable {variable} holds is no address for libpq", error.hint
        ) from None


def _unreachable(message: str) -> DatabaseUnreachable:
    return DatabaseUnreachable(
        f"could not connect: {message.strip()}",
        IS_IT_UP,
    )
