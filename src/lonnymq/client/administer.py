"""What people ask for who look after a queue."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from lonnymq.client.calls import Request, Steps, ask
from lonnymq.client.history import Finished, FinishedList
from lonnymq.client.produce import check_many
from lonnymq.client.times import FIRST, Duration, ServerClock, milliseconds, moment, schedule
from lonnymq.commands import (
    ChannelDelete,
    ChannelGet,
    ChannelList,
    ChannelPolicy,
    ChannelSet,
    ChannelStatistics,
    ChannelStats,
    DeadDiscard,
    DeadDiscardAll,
    DeadList,
    DeadMessage,
    DeadRetry,
    DeadRetryAll,
    Deleted,
    DiscardedAll,
    Lane,
    LaneList,
    ListedMessage,
    Maintain,
    Message,
    MessageCancel,
    MessageCancelMany,
    MessageGet,
    MessageList,
    MessageReschedule,
    Outcome,
    QueueGet,
    QueueSet,
    QueueSettings,
    QueueStatistics,
    QueueStats,
    Result,
    RetriedAll,
)
from lonnymq.errors import InvalidChannelPolicy, InvalidLimit, InvalidTime


def get(message_id: int, *, conn: object | None = None) -> Request[Message | None]:
    """All there is to know of a message that waits, is leased or dead; None when there is none."""
    return ask(MessageGet(message_id), conn)


def messages(
    *,
    channel: str | None = None,
    status: str = "waiting",
    after: str | None = None,
    limit: int = 100,
    conn: object | None = None,
) -> Request[list[ListedMessage]]:
    """A page of messages, without their content: `waiting`, `due`, `scheduled` or `leased`.

    The next page begins `after` the last one's `cursor`.
    """
    return ask(MessageList(channel, status, after, limit), conn)


def cancel(message_id: int, *, conn: object | None = None) -> Request[Result]:
    """A message that waits goes (`cancelled`); one that is leased is `marked`: its worker finds out when it
    next extends or completes it.
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
    """Give a message that waits another time; without one, it is due now. With `first`, it is due now, ahead
    of those of its channel that have the same priority.
    """
    if first and (run_at is not None or delay is not None):
        raise InvalidTime("what goes first is due now", "leave out run_at and delay, or first")

    def steps() -> Steps[Result]:
        at = FIRST if first else (yield from _due_at(run_at, delay))
        result: Result = yield MessageReschedule(message_id, at)
        return result

    return Request(steps(), conn)


def stats(*, conn: object | None = None) -> Request[QueueStatistics]:
    """What the queue holds, whatever its size at the same cost."""
    return ask(QueueStats(), conn)


def settings(*, conn: object | None = None) -> Request[QueueSettings]:
    """The queue's settings."""
    return ask(QueueGet(), conn)


def set_queue(
    *,
    content_max_bytes: int | None = None,
    lease: Duration | None = None,
    lease_max: Duration | None = None,
    max_attempts: int | None = None,
    max_concurrency: int | None = None,
    paused: bool | None = None,
    dedupe_keep: Duration | None = None,
    history: bool | None = None,
    history_content: bool | None = None,
    history_keep: Duration | None = None,
    notify: bool | None = None,
    conn: object | None = None,
) -> Request[QueueSettings]:
    """Change the queue's settings; what is not given stays.

    `lease` and `max_attempts` are for dequeues and messages that say nothing else; `lease_max` is the longest
    lease that may be asked for, `content_max_bytes` the largest message. At most `max_concurrency` messages
    are leased at once, over all channels; 0 lifts that limit. While `paused`, nothing is served.

    A dedupe key is held for `dedupe_keep` after its message is gone. With `history`, a row of each message
    that finished is kept for `history_keep` (0: for ever), and with `history_content` what was in it. Without
    `notify`, consumers that wait are not woken by new messages, but look for them by themselves.

        queue.set(lease=60, history=True, history_keep=timedelta(days=7))
    """
    return ask(
        QueueSet(
            content_max_bytes,
            _ms(lease_max),
            max_attempts,
            _ms(lease),
            max_concurrency,
            paused,
            _ms(dedupe_keep),
            history,
            history_content,
            _ms(history_keep),
            notify,
        ),
        conn,
    )


def maintain(limit: int = 10_000) -> Request[int]:
    """Clean up, a bounded piece; returns how many rows went. Workers do it by themselves."""
    return ask(Maintain(limit))


def channels(
    *, order: str = "name", after: str | None = None, limit: int = 50, conn: object | None = None
) -> Request[list[ChannelStatistics]]:
    """A page of channels: by `name` (the next begins `after` the last), by who is `next`, or by what is
    `waiting`.
    """
    return ask(ChannelList(order, after, limit), conn)


def lanes(*, conn: object | None = None) -> Request[list[Lane]]:
    """The lanes there are, with how many due messages wait in each."""
    return ask(LaneList(), conn)


def get_channel(name: str, *, conn: object | None = None) -> Request[ChannelPolicy]:
    """The channel's policy."""
    return ask(ChannelGet(name), conn)


def set_channel(
    name: str,
    *,
    max_concurrency: int | None = None,
    release_interval: Duration | None = None,
    paused: bool | None = None,
    max_size: int | None = None,
    weight: float | None = None,
    conn: object | None = None,
) -> Request[ChannelPolicy]:
    """Change the channel's policy; what is not given stays, and 0 lifts a limit.

    At most `max_concurrency` of its messages are leased at once, at most one is released in
    `release_interval`, and at most `max_size` wait or are leased. A channel of `weight` 2 gets twice the
    share of one of weight 1, which is the default (0.001 to 1,000).

        queue.channel("acme").set(max_concurrency=2)
    """
    if weight is not None and type(weight) not in {int, float}:
        raise InvalidChannelPolicy(f"{weight!r} is not a weight", "give a number")
    policy = ChannelSet(name, max_concurrency, _ms(release_interval), paused, max_size, weight)
    return ask(policy, conn)


def channel_stats(name: str, *, cap: int = 10_000, conn: object | None = None) -> Request[ChannelStatistics]:
    """What the channel holds (scheduled and dead up to `cap`), and why it is not being served."""
    return ask(ChannelStats(name, cap), conn)


def delete_channel(
    name: str, *, with_messages: bool = False, limit: int = 10_000, conn: object | None = None
) -> Request[Deleted]:
    """Forget the channel, if it is empty or `with_messages`: so many a call, `more` when there are more."""
    return ask(ChannelDelete(name, with_messages, limit), conn)


def list_dead(
    *,
    channel: str | None = None,
    error: str | None = None,
    after: int = 0,
    limit: int = 100,
    conn: object | None = None,
) -> Request[list[DeadMessage]]:
    """A page of dead messages, in the order of their ids, without content. `error` is a LIKE pattern."""
    return ask(DeadList(channel, error, after, limit), conn)


def retry_dead(
    message_ids: Iterable[int],
    *,
    run_at: datetime | None = None,
    delay: Duration | None = None,
    conn: object | None = None,
) -> Request[list[Outcome]]:
    """Put dead messages back into line, with fresh attempts."""
    check_many(message_ids, "ids")
    ids = list(message_ids)

    def steps() -> Steps[list[Outcome]]:
        outcomes: list[Outcome] = yield DeadRetry(ids, (yield from _due_at(run_at, delay)))
        return outcomes

    return Request(steps(), conn)


def retry_all_dead(
    *, channel: str | None = None, error: str | None = None, conn: object | None = None
) -> Request[RetriedAll]:
    """Put back all that are dead, of a channel or an error, a thousand a call until none is left."""

    def steps() -> Steps[RetriedAll]:
        retried = refused = after = 0
        while True:
            part: RetriedAll = yield DeadRetryAll(channel, error, after=after)
            retried += part.retried
            refused += part.refused
            if part.next_after is None:
                return RetriedAll(retried, refused, None)
            after = part.next_after

    return Request(steps(), conn)


def discard_dead(message_ids: Iterable[int], *, conn: object | None = None) -> Request[list[Outcome]]:
    """Let dead messages go for good."""
    check_many(message_ids, "ids")
    return ask(DeadDiscard(list(message_ids)), conn)


def discard_all_dead(
    *, channel: str | None = None, error: str | None = None, conn: object | None = None
) -> Request[DiscardedAll]:
    """Let all go that are dead, of a channel or an error, a thousand a call until none is left."""

    def steps() -> Steps[DiscardedAll]:
        discarded = after = 0
        while True:
            part: DiscardedAll = yield DeadDiscardAll(channel, error, after)
            discarded += part.discarded
            if part.next_after is None:
                return DiscardedAll(discarded, None)
            after = part.next_after

    return Request(steps(), conn)


def history(
    *,
    channel: str | None = None,
    since: datetime | None = None,
    limit: int = 100,
    conn: object | None = None,
) -> Request[list[Finished]]:
    """The messages that finished last, of a channel or of all, if the queue keeps a history.

    To follow it without missing any, read the view `history` by snapshot: see the SQL contract.
    """
    if type(limit) is not int or limit < 1:
        raise InvalidLimit(f"limit: {limit!r} is not a whole number of 1 or more", "give an int")
    return ask(FinishedList(channel, None if since is None else moment(since), limit), conn)


def _due_at(run_at: datetime | None, delay: Duration | None) -> Steps[int | None]:
    """For calls that take a time and no delay."""
    dequeue_at, delay_ms = schedule(run_at, delay)
    if delay_ms is None:
        return dequeue_at
    now: int = yield ServerClock()
    return now + delay_ms


def _ms(duration: Duration | None) -> int | None:
    return None if duration is None else milliseconds(duration)
