"""What can go wrong in a request, and how it is told."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.errors import (
    BatchNotOpen,
    ChannelForbidden,
    ChannelFull,
    ConnectionDropped,
    DatabaseUnreachable,
    InvalidArgument,
    LonnyMQError,
    NotPermitted,
    ReadOnlyDatabase,
    RetryTransaction,
    ScheduleNotFound,
    SchemaError,
)


class AccessDenied(LonnyMQError):
    """The person has no right to do this."""


class NotFound(LonnyMQError, LookupError):
    """What was asked for is not there, or is not the person's to see."""


class Conflict(LonnyMQError):
    """It cannot be done in the state that the message, worker or batch is in."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An error, as JSON."""

    error: str
    """The name of the error's class."""
    message: str
    hint: str | None


STATUS: tuple[tuple[type[LonnyMQError], int], ...] = (
    (AccessDenied, 403),
    (ChannelForbidden, 403),
    (NotPermitted, 403),
    (NotFound, 404),
    (ScheduleNotFound, 404),
    (Conflict, 409),
    (BatchNotOpen, 409),
    (ChannelFull, 409),
    (InvalidArgument, 400),
    (DatabaseUnreachable, 503),
    (ConnectionDropped, 503),
    (ReadOnlyDatabase, 503),
    (RetryTransaction, 503),
    (SchemaError, 503),
)


def status_of(error: LonnyMQError) -> int:
    return next((status for kind, status in STATUS if isinstance(error, kind)), 500)


def problem_of(error: LonnyMQError) -> Problem:
    return Problem(type(error).__name__, error.message, error.hint)
