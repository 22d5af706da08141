"""What consumers ask for."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from lonnymq.client.calls import Pair, Request, Steps, ask
from lonnymq.client.produce import check_many, check_option
from lonnymq.client.times import milliseconds, schedule
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

Value = TypeVar("Value")

DISPATCHES = 100  # at most so many, a thousand new messages each, before a dequeue gives up
QUIET_MS = 20  # a dispatch this recent is good enough: what came since waits for the next one


@dataclass(frozen=True)
class DequeueRequest:
    """What a dequeue asks for, and whether its commit need not wait for the disk.

    `is_busy`: the last dequeue was a moment ago, and told whether to dispatch. A consumer that was away for
    longer dispatches first: what came meanwhile may belong before what is ready.
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
    """Whether it is in range is for the database to say."""
    if type(limit) is not int:
        raise InvalidLimit(f"limit: {limit!r} is not a whole number", "give an int from 1 to 10,000")


def names_of(lanes: Iterable[str] | None) -> list[str] | None:
    """The lanes to serve; None: all of them."""
    if lanes is None:
        return None
    check_many(lanes, "lanes")
    names = list(lanes)
    for name in names:
        check_option("lane", name)
    return names


def take(wish: DequeueRequest) -> Steps[Dequeued]:
    """Lease what is due; if that is less than asked for, dispatch what is new and try once more."""
    first = wish.dequeue()
    taken: Dequeued = yield first if wish.is_busy else Pair(Dispatch(quiet_ms=QUIET_MS), first)
    if taken.again_at is None:
        return taken
    try:
        for _ in range(DISPATCHES):
            if not (yield Dispatch()):
                break
        if len(taken.deliveries) == wish.limit:
            return Dequeued(taken.deliveries, None)
        more: Dequeued = yield wish.dequeue(len(taken.deliveries))
    except Exception:
        if not taken.deliveries:
            raise
        return taken  # whoever holds messages must know of them; the next call will tell what is wrong
    return Dequeued(taken.deliveries + more.deliveries, more.again_at)


def take_new(wish: DequeueRequest) -> Steps[Dequeued]:
    """Of what was just created: it is dispatched first, so that one dequeue finds it."""
    taken: Dequeued = yield Pair(Dispatch(), wish.dequeue())
    if not taken.deliveries:
        taken = yield from take(wish)
    return taken


def complete(message: Delivery, *, conn: object | None = None) -> Request[Result]:
    """The work is done: the message goes.

    `completed`, or why not: `lost` when the lease ran out and somebody else may have it, `cancelled` when it
    was cancelled meanwhile. With `conn`, it goes if and when the caller's transaction commits, together with
    what the work has written.

        with psycopg.connect(dsn) as conn:
            conn.execute("UPDATE invoice SET paid = TRUE WHERE id = %s", (message.payload["invoice"],))
            queue.complete(message, conn=conn)
    """
    return ask(MessageComplete(*_id_and_token(message)), conn)


def complete_many(messages: Iterable[Delivery], *, conn: object | None = None) -> Request[list[Outcome]]:
    """`complete` for many, in one call."""
    return ask(MessageCompleteMany(*_ids_and_tokens(messages)), conn)


def retry(
    message: Delivery,
    *,
    run_at: datetime | None = None,
    delay: Duration | None = None,
    error: str | BaseException | None = None,
    state: bytes | None = None,
    conn: object | None = None,
) -> Request[Result]:
    """Put the message back, to be served again: at its old place, or at a time or after a delay. It keeps its
    priority, cost and lane.

    With an `error`, a text or an exception, an attempt is used up, and after the last one the message is
    dead: the result says `retried` or `dead`. `state` is kept for the next attempt.

        except ConnectionError as error:
            queue.retry(message, delay=30, error=error)
    """
    dequeue_at, delay_ms = schedule(run_at, delay)
    return ask(MessageRetry(*_id_and_token(message), dequeue_at, state, _text(error), delay_ms), conn)


def retry_many(
    messages: Iterable[Delivery],
    *,
    run_at: datetime | None = None,
    delay: Duration | None = None,
    error: str | BaseException | None = None,
    conn: object | None = None,
) -> Request[list[Outcome]]:
    """`retry` for many, in one call."""
    ids, tokens = _ids_and_tokens(messages)
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
    )


def discard(message: Delivery, reason: str | None = None, *, conn: object | None = None) -> Request[Result]:
    """The work will not be done: the message goes, and is not tried again.

    The history, if one is kept, has it as cancelled, with the reason as its error.

        queue.discard(message, "no such customer")
    """
    return ask(MessageDiscard(*_id_and_token(message), reason), conn)


def extend(
    message: Delivery, lease: Duration, *, state: bytes | None = None, conn: object | None = None
) -> Request[Extended]:
    """Hold the message for so long from now on. `state` is kept for the next attempt, should there be one."""
    return ask(MessageExtend(*_id_and_token(message), milliseconds(lease), state), conn)


def extend_many(
    messages: Iterable[Delivery], lease: Duration, *, conn: object | None = None
) -> Request[list[Extended]]:
    """`extend` for many, in one call."""
    return ask(MessageExtendMany(*_ids_and_tokens(messages), milliseconds(lease)), conn)


def _ids_and_tokens(messages: Iterable[Delivery]) -> tuple[list[int], list[UUID]]:
    check_many(messages, "messages")
    pairs = [_id_and_token(message) for message in messages]
    return [number for number, _ in pairs], [token for _, token in pairs]


def _id_and_token(message: Delivery) -> tuple[int, UUID]:
    if not isinstance(message, Delivery):
        raise InvalidArgument(
            f"{message!r} is not a message that was dequeued", "give what dequeue() returned"
        )
    return message.id, message.token


def _text(error: str | BaseException | None) -> str | None:
    if isinstance(error, BaseException):
        return "".join(traceback.format_exception_only(error)).rstrip()
    return error


def _repeated(value: Value | None, count: int) -> list[Value | None] | None:
    return None if value is None else [value] * count
