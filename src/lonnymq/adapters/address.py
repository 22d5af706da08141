"""The address of a database, converted to the form that libpq accepts."""

from __future__ import annotations

from typing import Any

from psycopg import ProgrammingError, pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lonnymq.errors import InvalidAddress

LIBPQ_KEYWORDS = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}


def parameters(address: str) -> dict[str, Any]:
    """The parts of the address. A driver in its scheme, as in SQLAlchemy's URLs, is ignored.

    An invalid address is not repeated in the error, because it may contain a password.
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
    """The address for libpq, with those of the other parameters that libpq knows."""
    known = {name: value for name, value in more.items() if name in LIBPQ_KEYWORDS}
    found: dict[str, Any] = parameters(address) | known
    return make_conninfo(**found)


def _invalid() -> InvalidAddress:
    return InvalidAddress(
        "the address is not a valid PostgreSQL address",
        "write postgresql://user:password@host:port/database, the password percent-encoded",
    )
