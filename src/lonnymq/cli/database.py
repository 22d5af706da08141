"""Finds the address of the database, and connects to it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lonnymq.cli.failure import BadAddress, NoAddress, Unreachable
from lonnymq.errors import InvalidAddress
from lonnymq.server_errors import hint_to_connect

if TYPE_CHECKING:
    from psycopg import Connection

LIBPQ_VARIABLES = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGSERVICE", "PGDATABASE", "PGUSER")
CONNECT_TIMEOUT_S = 10


def connect(given: str | None, **settings: str | int) -> Connection[Any]:
    """Connect to the database that --dsn or the environment names."""
    import psycopg

    try:
        return psycopg.connect(**_parameters(*_address(given)) | settings, autocommit=True)
    except psycopg.OperationalError as error:
        raise Unreachable(str(error), hint_to_connect(str(error))) from None


def address(given: str | None) -> str:
    """The address from --dsn or the environment, checked. Empty: libpq reads its own variables."""
    name, found = _address(given)
    _parameters(name, found)
    return found


def _address(given: str | None) -> tuple[str, str]:
    """The name of the option or variable that has the address, and the address."""
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
        "no database given", "pass --dsn, or set LONNYMQ_DSN, DATABASE_URL or libpq's PGHOST etc."
    )


def _parameters(name: str, address: str) -> dict[str, Any]:
    from lonnymq.adapters.address import parameters

    try:
        found = parameters(address)
    except InvalidAddress as error:
        raise BadAddress(f"the address in {name} is not valid for libpq", error.hint) from None
    if not os.environ.get("PGCONNECT_TIMEOUT"):
        found.setdefault("connect_timeout", CONNECT_TIMEOUT_S)
    return {"fallback_application_name": "lonnymq"} | found
