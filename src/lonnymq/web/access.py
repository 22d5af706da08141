"""Who may see and do what.

An access rule is a function of a request. It returns the `Access` of the person who sent it, or None to
refuse. It may be asynchronous. To answer otherwise, such as with a redirection to a page for logging in, it
raises Starlette's HTTPException.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

from starlette.exceptions import HTTPException
from starlette.requests import Request

from lonnymq.errors import InvalidArgument
from lonnymq.web.errors import AccessDenied
from lonnymq.web.guesses import WrongPasswords

HOST = re.compile(r"(?:\[(?P<ipv6>[0-9a-f:.]+)\]|(?P<name>[^:@/\[\]]+?)\.?)(?::\d*)?", re.IGNORECASE)


class Right(StrEnum):
    """What a person may do."""

    READ = "read"
    PAYLOADS = "payloads"
    """See what is in messages, and their headers."""
    MESSAGES = "messages"
    """Run messages now, cancel, retry and copy them."""
    DEAD_LETTERS = "dead letters"
    """Retry and discard dead letters."""
    CHANNELS = "channels"
    """Change the limits and the weight of channels, and pause them."""
    BATCHES = "batches"
    SCHEDULES = "schedules"
    WORKERS = "workers"
    """Pause, resume and drain workers."""
    QUEUE = "queue"
    """Pause the whole queue, and forget followers."""


@dataclass(frozen=True, slots=True)
class Access:
    """What one person may do. `who` is the name that the audit shows. With `channels`, they see these
    channels only, and nothing about the others or the whole queue.

    >>> Access("ann", rights=frozenset({Right.READ})).only("acme").may(Right.READ, "shop")
    False
    """

    who: str
    rights: frozenset[Right] = frozenset(Right)
    channels: frozenset[str] | None = None

    @classmethod
    def everything(cls, who: str) -> Access:
        return cls(who)

    @classmethod
    def read_only(cls, who: str) -> Access:
        return cls(who, frozenset({Right.READ, Right.PAYLOADS}))

    def only(self, *channels: str) -> Access:
        """The same rights, for these channels alone."""
        return replace(self, channels=frozenset(channels))

    def may(self, right: Right, channel: str | None = None) -> bool:
        """`channel` None: in the whole queue, which nobody may who sees only some channels."""
        return right in self.rights and (self.channels is None or channel in self.channels)

    def check_any(self, right: Right) -> None:
        """Raise AccessDenied without the right, whatever the channel."""
        if right not in self.rights:
            raise AccessDenied(
                f"{self.who} may not do this: the right {str(right)!r} is missing",
                "ask whoever runs the dashboard for it",
            )

    def check(self, right: Right, channel: str | None = None) -> None:
        self.check_any(right)
        if not self.may(right, channel):
            raise AccessDenied(
                f"{self.who} may not see this: their access is to some channels only",
                "open one of your own channels",
            )


AccessRule = Callable[[Request], Access | Awaitable[Access | None] | None]


class Password:
    """One user with a password, by HTTP Basic authentication. Use it with HTTPS only, or on one machine.

    After 20 wrong passwords from one network within a minute, it answers 429 to all from there until the
    minute is over.
    """

    challenge: ClassVar[str] = 'Basic realm="LonnyMQ", charset="UTF-8"'

    def __init__(self, user: str, password: str) -> None:
        if not user or ":" in user:
            raise InvalidArgument("the user's name is empty or has a colon", "choose another name")
        if not password:
            raise InvalidArgument("the password is empty", "choose a password")
        self._user = user
        self._wrong = WrongPasswords()
        try:
            # The environment may hold bytes that are not UTF-8.
            self._expected = f"{user}:{password}".encode(errors="surrogateescape")
        except UnicodeEncodeError:
            raise InvalidArgument(
                "the user's name or the password is not valid Unicode", "choose another"
            ) from None

    def __repr__(self) -> str:
        return f"Password({self._user!r}, ...)"

    def __call__(self, request: Request) -> Access | None:
        scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            given = base64.b64decode(encoded.strip(), validate=True)
        except (binascii.Error, ValueError):
            return None
        host = request.client.host if request.client else None
        if wait_s := self._wrong.wait_s(host):
            raise HTTPException(429, "too many wrong passwords", {"Retry-After": str(wait_s)})
        if hmac.compare_digest(given, self._expected):
            return Access(self._user)
        self._wrong.add(host)
        return None


def local_access(request: Request) -> Access | None:
    """Everything, for a browser on this machine. Pages of others are refused that point a name of theirs at
    this machine: their requests carry that name as the host. So are requests that a proxy says it forwards
    from another machine.
    """
    host = HOST.fullmatch(request.headers.get("host", ""))
    if host is None or not is_loopback(host["ipv6"] or host["name"]):
        return None
    if not all(is_loopback(each.strip()) for each in _forwarded_for(request)):
        return None
    if request.client is not None and _is_address(request.client.host):
        return Access("local") if is_loopback(request.client.host) else None
    return Access("local")  # by a socket that is a file, or in a test


def _forwarded_for(request: Request) -> list[str]:
    given = ",".join(request.headers.getlist("x-forwarded-for"))
    return given.split(",") if given.strip() else []


def is_loopback(host: str) -> bool:
    """
    >>> [is_loopback(host) for host in ("LocalHost", "127.0.0.2", "::1", "10.0.0.1", "shop.example")]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def no_access(_request: Request) -> Access | None:
    """The rule of an application that was given none."""
    return None
