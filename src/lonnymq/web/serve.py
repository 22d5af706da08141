"""Serves a dashboard over HTTP, for the command line."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from types import FrameType

import uvicorn

from lonnymq.errors import DashboardPortUnavailable, InvalidArgument, PasswordMissing
from lonnymq.web.access import AccessRule, Password, is_loopback, local_access
from lonnymq.web.app import Dashboard

USER_VARIABLE = "LONNYMQ_WEB_USER"
PASSWORD_VARIABLE = "LONNYMQ_WEB_PASSWORD"  # noqa: S105 - the name of a variable
FORWARDED_VARIABLE = "FORWARDED_ALLOW_IPS"
"""Uvicorn's: the proxies that set X-Forwarded-For themselves."""
SHUTDOWN_S = 1
"""Streams end by themselves. What else runs after this long is interrupted."""


def rule_for(host: str, environ: Mapping[str, str]) -> AccessRule:
    """A user and a password from the environment. Without them, anyone on this machine, if no other machine
    can connect.
    """
    user, password = environ.get(USER_VARIABLE), environ.get(PASSWORD_VARIABLE)
    if user and password:
        return Password(user, password)
    if user or password:
        given, missing = sorted((USER_VARIABLE, PASSWORD_VARIABLE), key=lambda name: not environ.get(name))
        raise PasswordMissing(f"{given} is set, but {missing} is not", "set both, or neither")
    if not all(is_loopback(address) for address in _addresses(host)):
        raise PasswordMissing(
            f"other machines could open the dashboard at {host}, and there is no password",
            f"set {USER_VARIABLE} and {PASSWORD_VARIABLE}, or listen on 127.0.0.1",
        )
    return local_access


def listen(host: str, port: int) -> socket.socket:
    """Opens the port. Port 0: one that is free."""
    family = socket.AF_INET6 if any(":" in address for address in _addresses(host)[:1]) else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise DashboardPortUnavailable(
            f"could not open port {port} on {host}: {os.strerror(error.errno or 0)}",
            "choose another port with --port, or stop the program that uses it",
        ) from error


def url_of(host: str, listening: socket.socket) -> str:
    port = listening.getsockname()[1]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def serve(dashboard: Dashboard, listening: socket.socket) -> None:
    """Until SIGINT or SIGTERM. Closes the dashboard.

    Uvicorn would believe every client on this machine, also a proxy that passes on the X-Forwarded-For of its
    clients: they could choose the network that their wrong passwords are counted by.
    """
    config = uvicorn.Config(
        dashboard,
        http="h11",  # it limits the size of headers
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=FORWARDED_VARIABLE in os.environ,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    try:
        _Server(config).run(sockets=[listening])
    finally:
        dashboard.close()  # after a second signal, its lifespan has not ended


class _Server(uvicorn.Server):
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as uvicorn calls it
        """Return from `run` after a signal. Uvicorn would raise it again, so that the program ends there."""
        self.force_exit = self.should_exit
        self.should_exit = True


def _addresses(host: str) -> list[str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise InvalidArgument(
            f"the address {host!r} cannot be found: {getattr(error, 'strerror', None) or error}",
            "give an address of this machine, such as 127.0.0.1 or 0.0.0.0",
        ) from error
    return [str(address[0]) for *_, address in found]
