"""Which database a command works on, and the connection to it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lonnymq.cli.failure import BadAddress, NoAddress, Unreachable

if TYPE_CHECKING:
    from psycopg import Connection

LIBPQ_VARIABLES = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGSERVICE", "PGDATABASE", "PGUSER")
CONNECT_TIMEOUT_S = 10


def connect(given: str | None) -> Connection[Any]:
    """A connection to the database that the option, or else the environment, names."""
    import psycopg

    try:
        return psycopg.connect(**_parameters(*_address(given)), autocommit=True)
    except psycopg.OperationalError as error:
        raise Unreachable(str(error)) from None


def _address(given: str | None) -> tuple[str, str]:
    """Where the address stands, and the address; an empty one leaves all to libpq."""
    for name, address in {
        "--dsn": given,
        "LONNYMQ_DSN": os.environ.get("LONNYMQ_DSN"),
        "DATABASE_URL": os.environ.get("DATABASE_URL"),
    }.items():
        if address:
            return name, address
    if any(os.environ.get(name) for name in LIBPQ_VARIABLES):
        return "PG*", ""
    raise NoAddress(
        "no database was named", "give --dsn, or set LONNYMQ_DSN, DATABASE_URL or libpq's PGHOST and the like"
    )


def _parameters(name: str, address: str) -> dict[str, Any]:
    """The address taken apart. A bad one is never shown: what is wrong with it may be its password."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    scheme, separator, rest = address.partition("://")
    if separator:
        address = scheme.partition("+")[0] + separator + rest
    try:
        parameters = dict(conninfo_to_dict(address))
    except ProgrammingError:
        raise _bad(name) from None
    ports = str(parameters.get("port", "")).replace(",", "")
    if (ports and not ports.isdigit()) or "@" in str(parameters.get("host", "")):
        raise _bad(name)
    if not os.environ.get("PGCONNECT_TIMEOUT"):
        parameters.setdefault("connect_timeout", CONNECT_TIMEOUT_S)
    return {"fallback_application_name": "lonnymq"} | parameters


def _bad(name: str) -> BadAddress:
    return BadAddress(
        f"the address in {name} is not one that libpq takes",
        "write postgresql://user:password@host:port/database, the password percent-encoded",
    )
