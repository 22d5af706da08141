"""The address of a database as a URL. All drivers accept URLs, only libpq accepts its keywords."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode


def url(parameters: Mapping[str, Any], dbname: str) -> str:
    """
    >>> url({"host": "db", "port": "5433", "user": "ann", "password": "a/b"}, "shop")
    'postgresql://ann:a%2Fb@db:5433/shop'
    >>> url({"host": "/run/postgresql", "port": "5433", "sslmode": "disable", "dbname": "other"}, "shop")
    'postgresql:///shop?host=%2Frun%2Fpostgresql&port=5433&sslmode=disable'
    """
    rest = {name: str(value) for name, value in parameters.items() if name != "dbname"}
    login = quote(rest.pop("user", ""), safe="")
    password = rest.pop("password", None)
    if password is not None:
        login += ":" + quote(password, safe="")
    location = _host_and_port(rest)
    before = f"{login}@{location}" if login else location
    after = f"?{urlencode(rest, quote_via=quote, safe='')}" if rest else ""
    return f"postgresql://{before}/{quote(dbname, safe='')}{after}"


def _host_and_port(rest: dict[str, str]) -> str:
    """Take host and port out of `rest`. A socket's folder, or several hosts, stay in it."""
    host = rest.get("host", "")
    if not host or "/" in host or "," in host or host.startswith("@"):
        return ""
    del rest["host"]
    port = rest.pop("port", "")
    name = f"[{host}]" if ":" in host else host
    return f"{name}:{port}" if port else name
