"""The errors of the embedded PostgreSQL."""

from lonnymq.errors import LonnyMQError


class EmbeddedError(LonnyMQError):
    """The embedded PostgreSQL could not do what was asked."""


class BinariesMissing(EmbeddedError):
    """PostgreSQL, or its required version, was not found on this machine."""


class BinariesUnreachable(EmbeddedError):
    """The process is root, and the account that PostgreSQL runs as cannot reach its programs."""


class WrongVersion(EmbeddedError):
    """The data folder was created by another major version of PostgreSQL."""


class InitFailed(EmbeddedError):
    """The database cluster could not be created."""


class StartFailed(EmbeddedError):
    """The server did not start; the end of its log is part of the message."""


class StopFailed(EmbeddedError):
    """The server did not stop in time."""


class NotRunning(EmbeddedError):
    """The server is not running."""


class StillInUse(EmbeddedError):
    """Another process uses the server."""
