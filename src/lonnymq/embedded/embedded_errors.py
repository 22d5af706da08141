"""What can go wrong with a PostgreSQL of our own."""

from lonnymq.errors import LonnyMQError


class EmbeddedError(LonnyMQError):
    """The embedded PostgreSQL could not do what was asked."""


class BinariesMissing(EmbeddedError):
    """No PostgreSQL server of the wanted version is on this machine."""


class BinariesUnreachable(EmbeddedError):
    """We are root, and the account that PostgreSQL runs as cannot reach its programs."""


class WrongVersion(EmbeddedError):
    """The data was made by another major version of PostgreSQL."""


class InitFailed(EmbeddedError):
    """No database cluster could be made."""


class StartFailed(EmbeddedError):
    """The server did not start; the end of its log is part of the message."""


class StopFailed(EmbeddedError):
    """The server did not stop in time."""


class NotRunning(EmbeddedError):
    """The server does not run (any more)."""


class StillInUse(EmbeddedError):
    """Another process uses the server."""
