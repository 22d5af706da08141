"""Where a database is: one address for libpq, whatever spells it."""

from __future__ import annotations

from typing import Any

from psycopg import ProgrammingError, pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lonnymq.errors import InvalidAddress

LIBPQ_KEYWORDS = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}


def parameters(address: str) -> dict[str, Any]:
    """The address taken apart; a driver in its scheme, as SQLAlchemy has it, is left out.

    A bad one is never shown: what is wrong with it may be its password.
    """
    scheme, separator, rest = address.partition("://")
    if separator:
        address = scheme.partition("+")[0] + separator + rest
    try:
        found = dict(conninfo_to_dict(address))
    except ProgrammingError:
        raise _invalid() from None
    ports = str(found.get("port", "")).replace(",", "")
    if (ports and not ports.isdigit()) or "@" in str(found.get("host", "")):
        raise _invalid()
    return found


def conninfo(address: str, **more: object) -> str:
    """As libpq takes it. Of what else is known, what libpq knows counts."""
    known = {name: value for name, value in more.items() if name in LIBPQ_KEYWORDS}
    found: dict[str, Any] = parameters(address) | known
    return make_conninfo(**found)


def _invalid() -> InvalidAddress:
    return InvalidAddress(
        "the address is not one that libpq takes",
        "write postgresql://user:password@host:port/database, the password percent-encoded",
    )
