"""The calls that look at messages and change them: list, show, cancel, reschedule, history."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from lonnymq.client.calls import Request, Steps, ask
from lonnymq.client.produce import check_many
from lonnymq.client.times import FIRST, ServerClock, moment, schedule
from lonnymq.commands import (
    FinishedMessage,
    HistoryList,
    HistorySummary,
    ListedMessage,
    Message,
    MessageCancel,
    MessageCancelMany,
    MessageGet,
    MessageList,
    MessagePlace,
    MessageReschedule,
    Outcome,
    Place,
    Result,
    TaskSummary,
)
from lonnymq.errors import InvalidLimit, InvalidTime
from lonnymq.message_options import Duration


def get(message_id: int, *, conn: object | None = None) -> Request[Message | None]:
    """A message that waits, is leased or is dead, with its content; None if there is none with this id."""
    return ask(MessageGet(message_id), conn)


def messages(
    *,
    channel: str | None = None,
    status: str = "waiting",
    lane: str | None = None,
    consumer: str | None = None,
    after: str | None = None,
    limit: int = 100,
    conn: object | None = None,
) -> Request[list[ListedMessage]]:
    """A page of messages, without their content: `waiting`, `due`, `scheduled` or `leased`. With `consumer`,
    those that it has leased; a worker's consumer is its name.

    The next page starts `after` the `cursor` of the last message.
    """
    return ask(MessageList(channel, status, after, limit, lane, consumer), conn)


def place(message_id: int, *, conn: object | None = None) -> Request[Place | None]:
    """How far a waiting message is from being served: how many messages of its channel and lane are before
    it, and about how many of all channels are before the next one of these. None if it does not wait.
    """
    return ask(MessagePlace(message_id), conn)


def cancel(message_id: int, *, conn: object | None = None) -> Request[Result]:
    """Delete a message that waits (`cancelled`), or mark one that is leased (`marked`): its worker learns of
    it when it next extends or completes the message.
    """
    return ask(MessageCancel(message_id), conn)


def cancel_many(message_ids: Iterable[int], *, conn: object | None = None) -> Request[list[Outcome]]:
    """`cancel` for many, in one call."""
    check_many(message_ids, "ids")
    return ask(MessageCancelMany(list(message_ids)), conn)


def reschedule(
    message_id: int,
    *,
    run_at: datetime | None = None,
    delay: Duration | None = None,
    first: bool = False,
    conn: object | None = None,
) -> Request[Result]:
    """Change when a waiting message is due; without a time, it is due now. With `first`, it is due now and
    served before the others of its channel and priority.
    """
    if first and (run_at is not None or delay is not None):
        raise InvalidTime("first and a time are both given", "leave out run_at and delay, or first")

    def steps() -> Steps[Result]:
        at = FIRST if first else (yield from due_at(run_at, delay))
        result: Result = yield MessageReschedule(message_id, at)
        return result

    return Request(steps(), conn)


def history(
    *,
    channel: str | None = None,
    since: datetime | None = None,
    limit: int = 100,
    message_id: int | None = None,
    with_content: bool = True,
    conn: object | None = None,
) -> Request[list[FinishedMessage]]:
    """The messages that finished last, of one channel or of all, if the queue keeps a history. With a
    `message_id`, what it has about that message. Content may be large: leave it out if you do not need it.

    To follow it without missing any, read the view `history` by snapshot: see the SQL contract.
    """
    if type(limit) is not int or limit < 1:
        raise InvalidLimit(f"limit: {limit!r} is not a whole number of 1 or more", "give an int")
    since_at = None if since is None else moment(since)
    return ask(HistoryList(channel, since_at, limit, message_id, with_content), conn)


def history_summary(
    *,
    channel: str | None = None,
    since: datetime | None = None,
    rows: int = 10_000,
    conn: object | None = None,
) -> Request[list[TaskSummary]]:
    """The history by task, the largest first: how many messages finished and how, how long they waited and
    how long they took. Reads at most the newest `rows`, of one channel or of all.

        for task in queue.history_summary(channel="acme", since=datetime.now(UTC) - timedelta(hours=1)):
            print(task.task, task.messages, task.waited_p95_ms)
    """
    return ask(HistorySummary(channel, None if since is None else moment(since), rows), conn)


def due_at(run_at: datetime | None, delay: Duration | None) -> Steps[int | None]:
    """The due time, for SQL functions that take a time but no delay."""
    dequeue_at, delay_ms = schedule(run_at, delay)
    if delay_ms is None:
        return dequeue_at
    now: int = yield ServerClock()
    return now + delay_ms
