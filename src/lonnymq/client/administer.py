"""The calls of people who look after a queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Protocol, TypeVar, Unpack

from lonnymq.channel_policy import PolicyChanges
from lonnymq.client.calls import Request, Steps, ask, shows
from lonnymq.client.produce import check_many, check_names
from lonnymq.client.times import FIRST, ServerClock, milliseconds, moment, schedule
from lonnymq.commands import (
    BoundChannels,
    ChannelDelete,
    ChannelGet,
    ChannelList,
    ChannelPolicy,
    ChannelSet,
    ChannelStatistics,
    ChannelStats,
    Credential,
    CredentialBind,
    CredentialList,
    DeadDiscard,
    DeadDiscardAll,
    DeadList,
    DeadMessage,
    DeadRetry,
    DeadRetryAll,
    Deleted,
    DiscardedAll,
    FinishedMessage,
    Follower,
    HistoryFollowers,
    HistoryList,
    HistoryUnfollow,
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
    Rebuild,
    Result,
    RetriedAll,
    Schedule,
    ScheduleDelete,
    ScheduleList,
)
from lonnymq.errors import InvalidChannelPolicy, InvalidLimit, InvalidTime
from lonnymq.message_options import Duration
from lonnymq.statement import Command


class Paged(Protocol):
    """An answer that says where the next page starts."""

    @property
    def next_after(self) -> int | None: ...


Page = TypeVar("Page", bound=Paged)


def get(message_id: int, *, conn: object | None = None) -> Request[Message | None]:
    """A message that waits, is leased or is dead, with its content; None if there is none with this id."""
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

    The next page starts `after` the `cursor` of the last message.
    """
    return ask(MessageList(channel, status, after, limit), conn)


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
        at = FIRST if first else (yield from _due_at(run_at, delay))
        result: Result = yield MessageReschedule(message_id, at)
        return result

    return Request(steps(), conn)


def stats(*, conn: object | None = None) -> Request[QueueStatistics]:
    """What the queue holds. The cost does not depend on how much that is."""
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
    """Change the queue's settings. Settings that are not given keep their values.

    `lease` and `max_attempts` apply to dequeues and messages that do not give their own. `lease_max` is the
    longest lease allowed, `content_max_bytes` the largest content. At most `max_concurrency` messages are
    leased at once, over all channels; 0 removes that limit. While `paused`, nothing is served.

    A dedupe key is kept for `dedupe_keep` after its message is gone. With `history`, a row per finished
    message is kept for `history_keep` (0: for ever), and its content with `history_content`. Without
    `notify`, new messages do not wake waiting consumers; these poll instead.

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
    """Delete up to `limit` rows that are no longer needed. Returns how many. Workers do this themselves."""
    return ask(Maintain(limit))


def channels(
    *, order: str = "name", after: str | None = None, limit: int = 50, conn: object | None = None
) -> Request[list[ChannelStatistics]]:
    """A page of channels with their statistics, ordered by `name`, by who is served `next`, or by how much
    is `waiting`. By name, the next page starts `after` the last channel.
    """
    return ask(ChannelList(order, after, limit), conn)


def lanes(*, conn: object | None = None) -> Request[list[Lane]]:
    """The lanes, with how many due messages wait in each."""
    return ask(LaneList(), conn)


def get_channel(name: str, *, conn: object | None = None) -> Request[ChannelPolicy]:
    """The channel's policy."""
    return ask(ChannelGet(name), conn)


@shows(PolicyChanges)
def set_channel(
    name: str, *, conn: object | None = None, **changes: Unpack[PolicyChanges]
) -> Request[ChannelPolicy]:
    """Change the channel's policy. Parts that are not given keep their values; 0 removes a limit.

    At most `max_concurrency` of its messages are leased at once, at least `release_interval` passes between
    two of them, and at most `max_size` wait or are leased. A channel with `weight` 2 gets twice the share of
    one with weight 1, which is the default (0.001 to 1,000). While it is `paused`, nothing of it is served.

        queue.channel("acme").set(max_concurrency=2)
    """
    check_names("set", changes, PolicyChanges)
    weight, interval = changes.get("weight"), changes.pop("release_interval", None)
    if weight is not None and type(weight) not in {int, float}:
        raise InvalidChannelPolicy(f"weight: {weight!r} is not a number", "give an int or a float")
    rest: Any = changes
    return ask(ChannelSet(name, release_interval_ms=_ms(interval), **rest), conn)


def channel_stats(name: str, *, cap: int = 10_000, conn: object | None = None) -> Request[ChannelStatistics]:
    """What the channel holds, and why it is not served now. Counts scheduled and dead ones up to `cap`."""
    return ask(ChannelStats(name, cap), conn)


def delete_channel(
    name: str, *, with_messages: bool = False, limit: int = 10_000, conn: object | None = None
) -> Request[Deleted]:
    """Delete the channel if it is empty, or `with_messages`: up to `limit` per call, then `more`."""
    return ask(ChannelDelete(name, with_messages, limit), conn)


def list_dead(
    *,
    channel: str | None = None,
    error: str | None = None,
    after: int = 0,
    limit: int = 100,
    conn: object | None = None,
) -> Request[list[DeadMessage]]:
    """A page of dead letters in the order of their ids, without content. `error` is a LIKE pattern."""
    return ask(DeadList(channel, error, after, limit), conn)


def retry_dead(
    message_ids: Iterable[int],
    *,
    run_at: datetime | None = None,
    delay: Duration | None = None,
    conn: object | None = None,
) -> Request[list[Outcome]]:
    """Put dead letters back into their channels, with a fresh count of attempts."""
    check_many(message_ids, "ids")
    ids = list(message_ids)

    def steps() -> Steps[list[Outcome]]:
        outcomes: list[Outcome] = yield DeadRetry(ids, (yield from _due_at(run_at, delay)))
        return outcomes

    return Request(steps(), conn)


def retry_all_dead(
    *, channel: str | None = None, error: str | None = None, conn: object | None = None
) -> Request[RetriedAll]:
    """Retry all dead letters, of a channel or with an error, a thousand per call until none is left."""

    def steps() -> Steps[RetriedAll]:
        parts = yield from _all_pages(lambda after: DeadRetryAll(channel, error, after=after))
        return RetriedAll(sum(part.retried for part in parts), sum(part.refused for part in parts), None)

    return Request(steps(), conn)


def discard_dead(message_ids: Iterable[int], *, conn: object | None = None) -> Request[list[Outcome]]:
    """Delete dead letters."""
    check_many(message_ids, "ids")
    return ask(DeadDiscard(list(message_ids)), conn)


def discard_all_dead(
    *, channel: str | None = None, error: str | None = None, conn: object | None = None
) -> Request[DiscardedAll]:
    """Delete all dead letters, of a channel or with an error, a thousand per call until none is left."""

    def steps() -> Steps[DiscardedAll]:
        parts = yield from _all_pages(lambda after: DeadDiscardAll(channel, error, after))
        return DiscardedAll(sum(part.discarded for part in parts), None)

    return Request(steps(), conn)


def _all_pages(page: Callable[[int], Command[Page]]) -> Steps[list[Page]]:
    """Make a call for each page until there is none left."""
    parts: list[Page] = []
    after: int | None = 0
    while after is not None:
        part: Page = yield page(after)
        parts.append(part)
        after = part.next_after
    return parts


def schedules(*, conn: object | None = None) -> Request[list[Schedule]]:
    """All schedules, and when each last created a message."""
    return ask(ScheduleList(), conn)


def delete_schedule(name: str, *, conn: object | None = None) -> Request[bool]:
    """Forget a schedule. Returns whether there was one. A worker that still defines it starts it anew."""
    return ask(ScheduleDelete(name), conn)


def followers(*, conn: object | None = None) -> Request[list[Follower]]:
    """The readers that follow the history. Rows that one of them has not read are kept."""
    return ask(HistoryFollowers(), conn)


def forget_follower(name: str, *, conn: object | None = None) -> Request[bool]:
    """Forget a follower, so that the history is no longer kept for it. Returns whether there was one."""
    return ask(HistoryUnfollow(name), conn)


def credentials(*, conn: object | None = None) -> Request[list[Credential]]:
    """The login roles that are bound to channels."""
    return ask(CredentialList(), conn)


def bind(role: str, channels: Iterable[str] | None, *, conn: object | None = None) -> Request[None]:
    """Bind a login role to channels, so that it can use these only; None removes the binding.

    queue.bind("acme_login", ["acme"])
    """
    if channels is not None:
        check_many(channels, "channels")
    return ask(CredentialBind(role, None if channels is None else list(channels)), conn)


def bound_channels(*, conn: object | None = None) -> Request[list[str] | None]:
    """The channels that your own login is bound to; None if it is not bound."""
    return ask(BoundChannels(), conn)


def rebuild(*, conn: object | None = None) -> Request[None]:
    """Build everything that is derived from the messages again, for example after a partial restore."""
    return ask(Rebuild(), conn)


def history(
    *,
    channel: str | None = None,
    since: datetime | None = None,
    limit: int = 100,
    conn: object | None = None,
) -> Request[list[FinishedMessage]]:
    """The messages that finished last, of one channel or of all, if the queue keeps a history.

    To follow it without missing any, read the view `history` by snapshot: see the SQL contract.
    """
    if type(limit) is not int or limit < 1:
        raise InvalidLimit(f"limit: {limit!r} is not a whole number of 1 or more", "give an int")
    return ask(HistoryList(channel, None if since is None else moment(since), limit), conn)


def _due_at(run_at: datetime | None, delay: Duration | None) -> Steps[int | None]:
    """The due time, for SQL functions that take a time but no delay."""
    dequeue_at, delay_ms = schedule(run_at, delay)
    if delay_ms is None:
        return dequeue_at
    now: int = yield ServerClock()
    return now + delay_ms


def _ms(duration: Duration | None) -> int | None:
    return None if duration is None else milliseconds(duration)
