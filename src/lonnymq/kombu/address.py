"""The URL of a kombu connection, as an address for libpq. All its parameters are libpq's."""

from __future__ import annotations

import re
from typing import Any

from psycopg.conninfo import make_conninfo

from lonnymq.adapters.address import parameters

NAME = "lonnymq"


def dsn_of(client: Any) -> str:
    """The address of a kombu Connection. After a failover kombu gives the parts of the URL; else the URL."""
    host = str(client.hostname or "")
    if "://" in host:
        found = parameters(libpq_url(host))
    else:
        given = {
            "host": host or None,
            "port": client.port,
            "user": client.userid,
            "password": client.password() if callable(client.password) else client.password,
            "dbname": client.virtual_host if client.virtual_host != "/" else None,
        }
        found = {name: value for name, value in given.items() if value is not None}
    if client.connect_timeout:
        found.setdefault("connect_timeout", max(2, round(client.connect_timeout)))  # libpq's least
    return make_conninfo(**found)


def libpq_url(url: str) -> str:
    """The URL with the scheme that libpq knows."""
    return f"postgresql://{url.partition('://')[2]}"


def shown(url: str, *, include_password: bool, mask: str) -> str:
    """The URL for logs."""
    text = url if url.startswith(NAME) else f"{NAME}+{url}"
    if include_password:
        return text
    text = re.sub(r"(://[^:/?@]*):[^@]*@", rf"\1:{mask}@", text)
    return re.sub(r"([?&](?:ssl)?password=)[^&]*", rf"\1{mask}", text)
