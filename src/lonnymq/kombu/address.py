"""The URL of a kombu connection, as an address for libpq. All its parameters are libpq's."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, unquote

from psycopg.conninfo import make_conninfo

from lonnymq.adapters.address import parameters

NAME = "lonnymq"
PASSWORD = re.compile(r"(://[^:/?#@]*):([^/?#]*)@")
"""In a URL: what is before it, and the password."""
MAYBE_PASSWORD = re.compile(r"(://[^:/?@]*):([^/?#]*|[^@]*)@")
"""Also one that should have been percent-encoded."""


def hide_password(client: Any) -> None:
    """Keep the password of a kombu Connection where kombu keeps passwords, and not in its URL, which `celery
    inspect stats` shows.
    """
    url = str(client.hostname or "")
    found = PASSWORD.search(url)
    if "://" in url and found is not None:
        client.hostname = PASSWORD.sub(r"\1@", url, count=1)
        client.password = unquote(found[2])


def dsn_of(client: Any) -> str:
    """The address of a kombu Connection. After a failover kombu gives the parts of the URL; else the URL."""
    host = str(client.hostname or "")
    if "://" in host:
        found = parameters(libpq_url(with_password(host, client.password)))
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


def with_password(url: str, password: Any) -> str:
    """The URL of a Connection whose password was hidden."""
    if not password or PASSWORD.search(url):
        return url
    text = quote(password() if callable(password) else password, safe="")
    return re.sub(r"(://[^:/?@]*)@", rf"\1:{text}@", url, count=1)


def shown(url: str, *, include_password: bool, mask: str) -> str:
    """The URL for logs."""
    text = url if url.startswith(NAME) else f"{NAME}+{url}"
    if include_password:
        return text
    text = MAYBE_PASSWORD.sub(rf"\1:{mask}@", text)
    return re.sub(r"([?&](?:ssl)?password=)[^&]*", rf"\1{mask}", text)
