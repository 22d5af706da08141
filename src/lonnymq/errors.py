"""The exceptions of LonnyMQ. Those that SQL functions raise have a SQLSTATE, which `server_errors` looks up.

Outcomes that a caller must expect, such as a lost lease or a message that is gone, are results and not
exceptions. An exception means that a call could not be carried out. This module imports no driver.
"""

from __future__ import annotations

from typing import Any, ClassVar


class LonnyMQError(Exception):
    """The base class of all errors of LonnyMQ. `hint` says what to do; it may be None."""

    sqlstate: ClassVar[str | None] = None

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        if self.hint and self.hint.endswith("."):  # hints of the database are sentences
            return f"{self.message}. {self.hint}"
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[type[LonnyMQError], tuple[Any, ...]]:
        return type(self), (self.message, self.hint)


class InvalidArgument(LonnyMQError, ValueError):
    """An argument is not valid. Nothing was changed."""


class InvalidChannel(InvalidArgument):
    """The name of the channel is null, empty or too long."""

    sqlstate = "LM001"


class InvalidContent(InvalidArgument):
    """The content is null, or larger than the queue's `content_max_bytes`."""

    sqlstate = "LM002"


class InvalidTime(InvalidArgument):
    """A time or a delay is out of range."""

    sqlstate = "LM003"


class InvalidLease(InvalidArgument):
    """The length of a lease is out of range."""

    sqlstate = "LM004"


class InvalidLimit(InvalidArgument):
    """The number of messages or rows that a call asks for is out of range."""

    sqlstate = "LM005"


class ArrayLengthMismatch(InvalidArgument):
    """The lists of a batch call differ in length."""

    sqlstate = "LM006"


class InvalidChannelPolicy(InvalidArgument):
    """A value of a channel's policy is out of range."""

    sqlstate = "LM007"


class InvalidMaxAttempts(InvalidArgument):
    """`max_attempts` is out of range."""

    sqlstate = "LM008"


class WrongIsolationLevel(LonnyMQError):
    """The call does not work at the isolation level of the transaction, or after it has written something."""

    sqlstate = "LM009"


class InvalidField(InvalidArgument):
    """Another argument is not valid, for example headers, a lane, a priority, or the name of a consumer."""

    sqlstate = "LM010"


class InvalidQueueSetting(InvalidArgument):
    """A setting of the queue is out of range."""

    sqlstate = "LM011"


class ChannelForbidden(LonnyMQError):
    """The login is bound to other channels, or may not make this call because it is bound to channels."""

    sqlstate = "LM012"


class InvalidQuery(InvalidArgument):
    """A list has no such order or status, or the cursor is not one of this list."""

    sqlstate = "LM013"


class ClaimantTaken(LonnyMQError):
    """The claimant was opened by another reader since, or was never opened."""

    sqlstate = "LM014"


class PositionUnknown(LonnyMQError):
    """The position of a reader does not belong to this queue: it is from another queue, or the database was
    restored to an earlier time.
    """

    sqlstate = "LM015"


class LeasesLost(LonnyMQError):
    """Some messages of a claim are no longer leased to the reader. Roll the transaction back."""

    sqlstate = "LM016"


class ChannelFull(LonnyMQError):
    """The channel already holds its `max_size`. Nothing was created."""

    sqlstate = "LM017"


class ScheduleNotFound(LonnyMQError):
    """There is no schedule of this name, or no worker has said what it enqueues."""


class WrongArguments(InvalidArgument, TypeError):
    """The arguments of a call do not fit the task: one is missing, or the task has no such argument, or,
    with `validate=True`, one does not fit its annotation.
    """


class BatchNotOpen(LonnyMQError):
    """There is no such batch, or it is closed, so no message can be added to it. Nothing was created."""

    sqlstate = "LM018"


class NotFinished(LonnyMQError, TimeoutError):
    """The message has not finished, at once or within the time that the caller waits for it."""


class ResultUnknown(LonnyMQError, LookupError):
    """The result of the message is not kept, or not kept any more, or there never was such a message."""


class MessageFailed(LonnyMQError):
    """The message finished without a result. `error` is that of its last attempt, or the reason why it was
    discarded; it may be None.
    """

    def __init__(self, message: str, hint: str | None, message_id: int, error: str | None) -> None:
        super().__init__(message, hint)
        self.message_id = message_id
        self.error = error

    def __reduce__(self) -> tuple[type[LonnyMQError], tuple[Any, ...]]:
        return type(self), (self.message, self.hint, self.message_id, self.error)


class MessageDead(MessageFailed):
    """The message used up its attempts, and is a dead letter. `error` is what its last attempt raised."""


class MessageCancelled(MessageFailed):
    """The message was cancelled or discarded. `error` is the reason, if one was given."""


class UnsuitableConnection(InvalidArgument, TypeError):
    """The object is not a connection or pool that the call can use. For example, it is asynchronous and the
    queue is not.
    """


class InvalidAddress(InvalidArgument):
    """The address of the database is not one that libpq understands."""


class QueueClosed(LonnyMQError):
    """The queue is closed, or the pool that it uses is not open."""


class UsedAfterFork(LonnyMQError):
    """The process was forked, and the pool or engine of the queue still has the connections of the parent, or
    a batch belongs to its transaction. Nothing was done.
    """


class MetricsPortUnavailable(LonnyMQError, OSError):
    """The port of a worker's metrics cannot be opened. The worker was not started."""


class DashboardPortUnavailable(LonnyMQError, OSError):
    """The port of the dashboard cannot be opened."""


class PasswordMissing(InvalidArgument):
    """Other machines could open the dashboard, and it has no password."""


class PayloadError(LonnyMQError, ValueError):
    """A payload cannot be encoded, or content cannot be decoded. The message is unchanged."""


class UnknownContentType(PayloadError):
    """This package cannot encode or decode this content type."""


class BrokenContent(PayloadError):
    """The content does not match its content type, or does not match the type that was asked for."""


class MissingExtra(PayloadError, ImportError):
    """A package is not installed. The hint says which extra installs it."""


class NotEncodable(PayloadError):
    """The value cannot be encoded as a payload."""


class RetryTransaction(LonnyMQError):
    """The transaction conflicted with another one and was rolled back. Run it again from its beginning."""


class Deadlock(RetryTransaction):
    """Two transactions waited for each other. Only transactions with several calls that use dedupe keys,
    batches or channels with a `max_size` can do that.
    """

    sqlstate = "40P01"


class SerializationFailure(RetryTransaction):
    """Another transaction committed a change that this isolation level does not allow."""

    sqlstate = "40001"


class NotPermitted(LonnyMQError):
    """The login does not have the privilege for this call."""


class ConnectionDropped(LonnyMQError):
    """The connection broke during a call in the caller's transaction. The transaction was rolled back; if
    it was being committed, it may have been committed.
    """


class DatabaseUnreachable(LonnyMQError):
    """Could not connect to the database. Nothing was done."""


class ReadOnlyDatabase(LonnyMQError):
    """The database does not accept writes: it is a standby, or its sessions are read-only. Nothing was
    done.
    """

    sqlstate = "25006"


class OutcomeUnknown(LonnyMQError):
    """The connection broke before the call was answered, so it may or may not have been carried out. It was
    not repeated, because that could carry it out twice.
    """


class SchemaError(LonnyMQError):
    """This package cannot work with the schema."""


class SchemaMissing(SchemaError):
    """LonnyMQ is not installed in the schema."""

    sqlstate = "LM101"


class SchemaOutdated(SchemaError):
    """The schema is too old for this package."""

    sqlstate = "LM102"


class SchemaTooNew(SchemaError):
    """The schema is too new for this package."""

    sqlstate = "LM103"


class SchemaOccupied(SchemaError):
    """The schema has an object that LonnyMQ did not create, under a name that LonnyMQ needs."""

    sqlstate = "LM104"


class RoleUnsuitable(SchemaError):
    """A role that LonnyMQ needs cannot be created, or it exists and should not be granted privileges."""

    sqlstate = "LM105"


class RightsTooWide(SchemaError):
    """A role has privileges on the queue's schema, tables or functions that it should not have."""

    sqlstate = "LM106"


class SchemaLocked(SchemaError):
    """Other transactions hold locks that the installation needs. Nothing was changed."""


class InvalidSchemaName(SchemaError, ValueError):
    """PostgreSQL would refuse the name of the schema, or truncate it."""
