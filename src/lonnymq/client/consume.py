"""The calls of a consumer: dequeue, complete, retry, fail, discard, extend."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from lonnymq.client.calls import Pair, Request, Steps, ask
from lonnymq.client.produce import check_many, check_option
from lonnymq.client.times import milliseconds, optional_milliseconds, schedule
from lonnymq.commands import (
    Delivery,
    Dequeued,
    Dispatch,
    Extended,
    MessageComplete,
    MessageCompleteMany,
    MessageDequeue,
    MessageDiscard,
    MessageExtend,
    MessageExtendMany,
    MessageRetry,
    MessageRetryMany,
    Outcome,
    Result,
)
from lonnymq.errors import InvalidArgument, InvalidLimit
from lonnymq.message_options import Duration
from lonnymq.payload import encode

Value = TypeVar("Value")

MAX_DISPATCHES = 100  # per call; each places up to a thousand new messages
QUIET_MS = 20  # a dispatch that was this recent need not be repeated


@dataclass(frozen=True)
class DequeueRequest:
    """The arguments of a dequeue.

    `is_busy` means that the last dequeue was a moment ago, and said whether to dispatch. A consumer that was
    away for longer dispatches first: newer messages may come before those that are ready.
    """

    limit: int
    lease: Duration | None
    consumer: str | None
    lanes: Sequence[str] | None
    async_commit: bool
    is_busy: bool

    def dequeue(self, taken: int = 0) -> MessageDequeue:
        lease_ms = None if self.lease is None else milliseconds(self.lease)
        return MessageDequeue(self.limit - taken, lease_ms, self.consumer, self.lanes, self.async_commit)


def check_limit(limit: int) -> None:
    """Raise InvalidLimit unless it is a whole number. The database checks the range."""
    if type(limit) is not int:
        raise InvalidLimit(f"limit: {limit!r} is not a whole number", "give an int from 1 to 10,000")


def lane_names(lanes: Iterable[str] | None) -> list[str] | None:
    """The names of the lanes to serve; None for all."""
    if lanes is None:
        return None
    check_many(lanes, "lanes")
    names = list(lanes)
    for name in names:
        check_option("lane", name)
    return names


def dispatch_all() -> Steps[None]:
    """Dispatch until nothing is left to do. Somebody else may keep adding work, so the calls are limited."""
    for _ in range(MAX_DISPATCHES):
        if not (yield Dispatch()):
            return


def dispatch(*, conn: None = None) -> Request[None]:
    """Place all new messages, and decide what is served next. Consumers do this themselves."""
    return Request(dispatch_all(), conn)


def take(request: DequeueRequest) -> Steps[Dequeued]:
    """Lease due messages. If there are fewer than asked for, dispatch new messages and try once more."""
    first = request.dequeue()
    taken: Dequeued = yield first if request.is_busy else Pair(Dispatch(quiet_ms=QUIET_MS), first)
    if taken.again_at is None:
        return taken
    try:
        yield from dispatch_all()
        if len(taken.deliveries) == request.limit:
            return Dequeued(taken.deliveries, None)
        more: Dequeued = yield request.dequeue(len(taken.deliveries))
    except Exception:
        if not taken.deliveries:
            raise
        return taken  # the caller must learn of its leases; the next call will raise the error
    return Dequeued(taken.deliveries + more.deliveries, more.again_at)


def take_new(request: DequeueRequest) -> Steps[Dequeued]:
    """Like take, but dispatch first: used after a notification of new messages."""
    taken: Dequeued = yield Pair(Dispatch(), request.dequeue())
    if not taken.deliveries:
        taken = yield from take(request)
    return taken


def complete(
    message: Delivery,
    *,
    result: Any = None,
    keep_result: Duration | None = None,
    conn: object | None = None,
) -> Request[Result]:
    """The work is done: delete the message.

    The result is `completed`, `lost` if the lease has run out and somebody else may have the message, or
    `cancelled` if it was cancelled. With `conn`, the message is deleted when your transaction commits,
    together with what the work has written.

        with psycopg.connect(dsn) as conn:
            conn.execute("UPDATE invoice SET paid = TRUE WHERE id = %s", (message.payload["invoice"],))
            queue.complete(message, conn=conn)

    A `result` is encoded as payloads are, and kept for `keep_result`, or for as long as the message was
    enqueued with. Others get it with `queue.result(id)` or `queue.wait(id)`.
    """
    return ask(completion(message, result, keep_result), conn, [message])


def complete_many(messages: Iterable[Delivery], *, conn: object | None = None) -> Request[list[Outcome]]:
    """`complete` for several messages, in one call."""
    finished = _checked(messages)
    return ask(MessageCompleteMany(*_ids_and_tokens(finished)), conn, finished)


def retry(
    message: Delivery,
    *,
    run_at: datetime | None = None,
    delay: Duration | None = None,
    error: str | BaseException | None = None,
    state: bytes | None = None,
    conn: object | None = None,
) -> Request[Result]:
    """Give the message back, to be served again: at its old place, at a time, or after a delay. It keeps its
    priority, cost and lane.

    With an `error`, a string or an exception, the attempt has failed. After the last attempt the message is
    dead: the result is `retried` or `dead`. Without an error, the attempt does not count. `state` is kept for
    the next attempt.

        except ConnectionError as error:
            queue.retry(message, delay=30, error=error)
    """
    dequeue_at, delay_ms = schedule(run_at, delay)
    command = MessageRetry(*_id_and_token(message), dequeue_at, state, _text(error), delay_ms)
    return ask(command, conn, [message])


def retry_many(
    messages: Iterable[Delivery],
    *,
    run_at: datetime | None = None,
    delay: Duration | None = None,
    error: str | BaseException | None = None,
    conn: object | None = None,
) -> Request[list[Outcome]]:
    """`retry` for several messages, in one call."""
    finished = _checked(messages)
    ids, tokens = _ids_and_tokens(finished)
    dequeue_at, delay_ms = schedule(run_at, delay)
    count = len(ids)
    return ask(
        MessageRetryMany(
            ids,
            tokens,
            _repeated(dequeue_at, count),
            errors=_repeated(_text(error), count),
            delays_ms=_repeated(delay_ms, count),
        ),
        conn,
        finished,
    )


def fail(
    message: Delivery,
    error: str | BaseException,
    *,
    state: bytes | None = None,
    conn: object | None = None,
) -> Request[Result]:
    """Another attempt would fail too: make the message a dead letter now, whatever attempts are left. The
    result is `dead`.

        except KeyError as error:
            queue.fail(message, error)
    """
    command = MessageRetry(*_id_and_token(message), state=state, error=_text(error), is_final=True)
    return ask(command, conn, [message])


def discard(message: Delivery, reason: str | None = None, *, conn: object | None = None) -> Request[Result]:
    """The work will not be done: delete the message.

    If a history is kept, it has the message as cancelled, with the reason as its error.

        queue.discard(message, "no such customer")
    """
    return ask(MessageDiscard(*_id_and_token(message), reason), conn, [message])


def extend(
    message: Delivery, lease: Duration, *, state: bytes | None = None, conn: object | None = None
) -> Request[Extended]:
    """Extend the lease to this duration from now. `state` is kept for the next attempt, if there is one."""
    return ask(MessageExtend(*_id_and_token(message), milliseconds(lease), state), conn)


def extend_many(
    messages: Iterable[Delivery], lease: Duration, *, conn: object | None = None
) -> Request[list[Extended]]:
    """`extend` for several messages, in one call."""
    return ask(MessageExtendMany(*_ids_and_tokens(_checked(messages)), milliseconds(lease)), conn)


def completion(message: Delivery, result: Any, keep_result: Duration | None) -> MessageComplete:
    """The command that completes a message with a result, if there is one."""
    number, token = _id_and_token(message)
    if result is None and keep_result is None:
        return MessageComplete(number, token)
    if keep_result is None and message.keep_result_ms is None:
        raise InvalidArgument(
            f"message {number} keeps no result",
            "give keep_result= to this call, or to the call that enqueues the message",
        )
    content, content_type = encode(result)
    return MessageComplete(number, token, content, content_type, optional_milliseconds(keep_result))


def _checked(messages: Iterable[Delivery]) -> list[Delivery]:
    check_many(messages, "messages")
    return list(messages)


def _ids_and_tokens(messages: Iterable[Delivery]) -> tuple[list[int], list[UUID]]:
    pairs = [_id_and_token(message) for message in messages]
    return [number for number, _ in pairs], [token for _, token in pairs]


def _id_and_token(message: Delivery) -> tuple[int, UUID]:
    if not isinstance(message, Delivery):
        raise InvalidArgument(f"{message!r} is not a delivery", "pass a message that dequeue() returned")
    return message.id, message.token


def _text(error: str | BaseException | None) -> str | None:
    if isinstance(error, BaseException):
        return "".join(traceback.format_exception_only(error)).rstrip()
    return error


def _repeated(value: Value | None, count: int) -> list[Value | None] | None:
    return None if value is None else [value] * count
