"""What can go wrong, and which SQLSTATE says so.

Expected outcomes (a lost lease, a message that is gone) are values. What is raised here is a broken promise:
an argument outside what is allowed, or a schema this package cannot work with. No driver is imported.
"""

from __future__ import annotations

from typing import ClassVar


class LonnyMQError(Exception):
    """The base of every error of ours. `hint`, where there is one, says what to do about it."""

    sqlstate: ClassVar[str | None] = None

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[type[LonnyMQError], tuple[str, str | None]]:
        return type(self), (self.message, self.hint)


class InvalidArgument(LonnyMQError, ValueError):
    """A call was given something it does not take. Nothing was changed."""


class InvalidChannel(InvalidArgument):
    """The channel's name is null, empty or too long."""

    sqlstate = "LM001"


class InvalidContent(InvalidArgument):
    """The content is null or larger than the queue takes."""

    sqlstate = "LM002"


class InvalidTime(InvalidArgument):
    """A time is out of range."""

    sqlstate = "LM003"


class InvalidLease(InvalidArgument):
    """A lease is out of range."""

    sqlstate = "LM004"


class InvalidLimit(InvalidArgument):
    """A limit is out of range."""

    sqlstate = "LM005"


class ArrayLengthMismatch(InvalidArgument):
    """The arrays of a batch call differ in length."""

    sqlstate = "LM006"


class InvalidChannelPolicy(InvalidArgument):
    """A channel's policy is out of range."""

    sqlstate = "LM007"


class InvalidMaxAttempts(InvalidArgument):
    """The number of attempts is out of range."""

    sqlstate = "LM008"


class WrongIsolationLevel(LonnyMQError):
    """The call does not run in the transaction's isolation level."""

    sqlstate = "LM009"


class InvalidField(InvalidArgument):
    """Headers, state, consumer, id or token are not valid."""

    sqlstate = "LM010"


class InvalidQueueSetting(InvalidArgument):
    """A setting of the queue is out of range."""

    sqlstate = "LM011"


class ChannelForbidden(LonnyMQError):
    """The login role is bound to other channels, or may not make this call at all."""

    sqlstate = "LM012"


class InvalidQuery(InvalidArgument):
    """A list was asked for in an order, a status or from a cursor that there is not."""

    sqlstate = "LM013"


class ClaimantTaken(LonnyMQError):
    """Another reader has opened the claimant since, or nobody has."""

    sqlstate = "LM014"


class PositionUnknown(LonnyMQError):
    """A reader's position is not one of this queue: that of another, or from before a restore."""

    sqlstate = "LM015"


class LeasesLost(LonnyMQError):
    """Messages of a claim are no longer held. Nothing of the transaction was kept."""

    sqlstate = "LM016"


class ChannelFull(LonnyMQError):
    """A channel holds as many messages as its max_size allows. Nothing was created."""

    sqlstate = "LM017"


class UnsuitableConnection(InvalidArgument, TypeError):
    """What was given as a connection is none, or is asynchronous where it should not be, or should be."""


class InvalidAddress(InvalidArgument):
    """A database's address is not one that libpq takes."""


class QueueClosed(LonnyMQError):
    """The queue was closed, or the pool that it runs on is not open."""


class PayloadError(LonnyMQError, ValueError):
    """What a message holds, or is to hold, cannot be translated. The message is as it was."""


class UnknownContentType(PayloadError):
    """The content is of a type that this package does not read."""


class BrokenContent(PayloadError):
    """The content is not what its type says, or not what was asked for."""


class MissingExtra(PayloadError, ImportError):
    """This needs a package that is not installed: the hint names the extra that brings it."""


class NotEncodable(PayloadError):
    """The value cannot be written as a payload."""


class RetryTransaction(LonnyMQError):
    """Another transaction was in the way, and this one was rolled back: run it again from its beginning."""


class Deadlock(RetryTransaction):
    """Two transactions, of several calls each with dedupe keys or sized channels, waited for each other."""

    sqlstate = "40P01"


class SerializationFailure(RetryTransaction):
    """The isolation level does not allow what another transaction has committed meanwhile."""

    sqlstate = "40001"


class NotPermitted(LonnyMQError):
    """The login role may not make this call."""


class ConnectionDropped(LonnyMQError):
    """The connection broke during the call. A transaction that it was part of is rolled back, or its commit
    is in doubt.
    """


class DatabaseUnreachable(LonnyMQError):
    """There was no connection to be had. Nothing was done."""


class ReadOnlyDatabase(LonnyMQError):
    """The database takes no writes: it is a standby, or sessions are read-only there. Nothing was done."""

    sqlstate = "25006"


class OutcomeUnknown(LonnyMQError):
    """The connection broke before the answer came, and the call may have been carried out or not. It was not
    repeated, as that might do it twice.
    """


class SchemaError(LonnyMQError):
    """The schema is not one that this package can work with."""


class SchemaMissing(SchemaError):
    """There is no LonnyMQ in the schema."""

    sqlstate = "LM101"


class SchemaOutdated(SchemaError):
    """The schema is older than what this package needs."""

    sqlstate = "LM102"


class SchemaTooNew(SchemaError):
    """The schema is newer than what this package knows."""

    sqlstate = "LM103"


class SchemaOccupied(SchemaError):
    """Something in the schema that LonnyMQ did not make has a name that LonnyMQ needs."""

    sqlstate = "LM104"


class RoleUnsuitable(SchemaError):
    """A role that LonnyMQ needs cannot be made, or is not one that rights should go to."""

    sqlstate = "LM105"


class RightsTooWide(SchemaError):
    """A role that should not has rights on the queue's tables, functions or schema."""


class SchemaLocked(SchemaError):
    """Other transactions hold locks on what is to be changed. Nothing was changed."""


class InvalidSchemaName(SchemaError, ValueError):
    """PostgreSQL would not take the schema's name, or would cut it short."""


def _subclasses(base: type[LonnyMQError]) -> list[type[LonnyMQError]]:
    found = []
    for child in base.__subclasses__():
        found += [child, *_subclasses(child)]
    return found


BY_SQLSTATE: dict[str, type[LonnyMQError]] = {
    cls.sqlstate: cls for cls in _subclasses(LonnyMQError) if cls.sqlstate is not None
}


def from_sqlstate(code: str | None, message: str, hint: str | None = None) -> LonnyMQError | None:
    """The error that a SQLSTATE stands for, or None when the SQLSTATE is not one we know."""
    cls = BY_SQLSTATE.get(code or "")
    if cls is not None and issubclass(cls, RetryTransaction):
        hint = "run the transaction again"
    if cls is ReadOnlyDatabase:
        hint = "go to the primary: with target_session_attrs=read-write in the address libpq finds it"
    return cls(message, hint) if cls else None


IS_IT_UP = "see that the database is up, and its address right"
RIGHTS = "log in as a member of one of the queue's roles, or have its rights granted"
_WHERE_IS_IT = "call queue.install() or run `lonnymq install`, or name the schema that it is in"
# What PostgreSQL says of a call when the schema is not what the call is made for.
_NOT_THERE: dict[str, tuple[type[LonnyMQError], str]] = {
    "3F000": (SchemaMissing, _WHERE_IS_IT),
    "42P01": (SchemaMissing, _WHERE_IS_IT),
    "42883": (SchemaOutdated, "run `lonnymq upgrade`, or `lonnymq install` if it is not in this schema"),
    "42501": (NotPermitted, RIGHTS),
}


def from_call(code: str, message: str, hint: str | None = None) -> LonnyMQError | None:
    """As from_sqlstate, where nothing ran but a call to the queue."""
    if code in _NOT_THERE:
        cls, what_to_do = _NOT_THERE[code]
        return cls(message, what_to_do)
    return from_sqlstate(code, message, hint)
