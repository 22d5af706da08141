"""What consumers ask for."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from lonnymq.commands import (
    Delivery,
    Dequeued,
    Extended,
    MessageComplete,
    MessageCompleteMany,
    MessageDefer,
    MessageDeferMany,
    MessageDequeue,
    MessageDequeueLightly,
    MessageDiscard,
    MessageExtend,
    MessageExtendMany,
    Outcome,
    Result,
    WakeFold,
    WakeFoldLightly,
)
from lonnymq.queue.calls import Request, Steps, ask
from lonnymq.queue.times import Duration, ServerClock, dequeue_at, milliseconds

FOLDS = 100  # so many wakes, a thousand each, are brought into line before a dequeue gives up


@dataclass(frozen=True)
class Wish:
    """What a dequeue asks for, and whether its commits need not wait for the disk."""

    limit: int
    lease: Duration | None
    consumer: str | None
    is_light: bool

    def dequeue(self, taken: int = 0) -> MessageDequeue:
        kind = MessageDequeueLightly if self.is_light else MessageDequeue
        lease_ms = None if self.lease is None else milliseconds(self.lease)
        return kind(self.limit - taken, lease_ms, self.consumer)

    def fold(self) -> WakeFold:
        return WakeFoldLightly() if self.is_light else WakeFold()


def take(wish: Wish) -> Steps[Dequeued]:
    """Lease what is due; if that is less, bring what was created meanwhile into line and try once more."""
    taken: Dequeued = yield wish.dequeue()
    if taken.again_at is None:
        return taken
    try:
        for _ in range(FOLDS):
            if not (yield wish.fold()):
                break
        if len(taken.deliveries) == wish.limit:
            return Dequeued(taken.deliveries, None)
        more: Dequeued = yield wish.dequeue(len(taken.deliveries))
    except Exception:
        if not taken.deliveries:
            raise
        return taken  # whoever holds messages must know of them; the next call will tell what is wrong
    return Dequeued(taken.deliveries + more.deliveries, more.again_at)


def take_new(wish: Wish) -> Steps[Dequeued]:
    """Of what was just created: it is brought into line first, so that one dequeue finds it."""
    yield wish.fold()
    taken: Dequeued = yield wish.dequeue()
    if not taken.deliveries:
        taken = yield from take(wish)
    return taken


def complete(message: Delivery, *, conn: object | None = None) -> Request[Result]:
    """The work is done: the message goes.

    `completed`, or why not: `lost` when the lease ran out and somebody else may have it, `cancelled` when it
    was cancelled meanwhile. With `conn`, it goes if and when the caller's transaction commits, together with
    what the work has written.

        with psycopg.connect(dsn) as conn:
            conn.execute("UPDATE invoice SET paid = TRUE WHERE id = %s", (message.data["invoice"],))
            queue.complete(message, conn=conn)
    """
    return ask(MessageComplete(message.id, message.token), conn)


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
    """Put the message back, to be served again: at its old place, or at a time or after a delay.

    With an `error`, a text or an exception, an attempt is used up, and after the last one the message is
    dead: the result says `deferred` or `dead`. `state` is kept for the next attempt.

        except ConnectionError as error:
            queue.retry(message, delay=30, error=error)
    """

    def steps() -> Steps[Result]:
        now = (yield ServerClock()) if delay is not None else None
        result: Result = yield MessageDefer(
            message.id, message.token, dequeue_at(run_at, delay, now=now), state, _text(error)
        )
        return result

    return Request(steps(), conn)


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

    def steps() -> Steps[list[Outcome]]:
        now = (yield ServerClock()) if delay is not None else None
        at = dequeue_at(run_at, delay, now=now)
        outcomes: list[Outcome] = yield MessageDeferMany(
            ids, tokens, None if at is None else [at] * len(ids), None, _texts(_text(error), len(ids))
        )
        return outcomes

    return Request(steps(), conn)


def discard(message: Delivery, reason: str | None = None, *, conn: object | None = None) -> Request[Result]:
    """The work will not be done: the message goes, and is not tried again.

    The history, if one is kept, has it as cancelled, with the reason as its error.

        queue.discard(message, "no such customer")
    """
    return ask(MessageDiscard(message.id, message.token, reason), conn)


def extend(
    message: Delivery, lease: Duration, *, state: bytes | None = None, conn: object | None = None
) -> Request[Extended]:
    """Hold the message for so long from now on. `state` is kept for the next attempt, should there be one."""
    return ask(MessageExtend(message.id, message.token, milliseconds(lease), state), conn)


def extend_many(
    messages: Iterable[Delivery], lease: Duration, *, conn: object | None = None
) -> Request[list[Extended]]:
    """`extend` for many, in one call."""
    return ask(MessageExtendMany(*_ids_and_tokens(messages), milliseconds(lease)), conn)


def _ids_and_tokens(messages: Iterable[Delivery]) -> tuple[list[int], list[UUID]]:
    held = list(messages)
    return [message.id for message in held], [message.token for message in held]


def _text(error: str | BaseException | None) -> str | None:
    if isinstance(error, BaseException):
        return "".join(traceback.format_exception_only(error)).rstrip()
    return error


def _texts(text: str | None, count: int) -> list[str | None] | None:
    return None if text is None else [text] * count
