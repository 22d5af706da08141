"""The address of a database, converted to the form that libpq accepts."""

from __future__ import annotations

import re
from typing import Any

from psycopg import ProgrammingError, pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lonnymq.errors import InvalidAddress

URL = re.compile(r"(postgres(?:ql)?)(?:\+\w+)?://")
LIBPQ_KEYWORDS = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
NO_HOST = re.compile("[@=;]")
PASSWORD = re.compile(r"\b(pass(word|wd)?|pwd)\s*=|;\s*\w+\s*=|://[^@]*@", re.IGNORECASE)
MAY_NAME_A_PASSWORD = {"password", "sslpassword", "oauth_client_secret", "options"}


def parameters(address: str) -> dict[str, Any]:
    """The parts of the address. A driver in its scheme, as in SQLAlchemy's URLs, is ignored.

    An invalid address is not repeated in the error, because it may contain a password. For the same reason,
    an address is refused if libpq would take a part of the password for something else, which libpq and the
    server show: a password that should have been percent-encoded, parts that are separated by semicolons, or
    an address in the place of a database's name. The folder of a socket may have such a name.
    """
    if url := URL.match(address):  # other addresses may have a URL in a value
        rest = address[url.end() :]
        address = f"{url[1]}://{rest}"
        authority, _, path = rest.partition("?")[0].partition("/")
        if authority.count("@") > 1 or "@" in path:
            raise _invalid()
    try:
        found = dict(conninfo_to_dict(address))
    except (ProgrammingError, ValueError):  # ValueError: percent-encoded bytes that are not UTF-8
        raise _invalid() from None
    ports = str(found.get("port", "")).replace(",", "")
    hosts = [host for host in str(found.get("host", "")).split(",") if not host.startswith("/")]
    others = [str(value) for name, value in found.items() if name not in MAY_NAME_A_PASSWORD]
    if (
        "\0" in address
        or (ports and not ports.isdigit())
        or any(NO_HOST.search(host) for host in hosts)
        or any(PASSWORD.search(other) for other in others)
    ):
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
