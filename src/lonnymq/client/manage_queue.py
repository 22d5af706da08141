"""The calls for the whole queue: statistics, settings, maintenance, followers, credentials."""

from __future__ import annotations

from collections.abc import Iterable

from lonnymq.client.calls import Request, ask
from lonnymq.client.produce import check_many
from lonnymq.client.times import optional_milliseconds
from lonnymq.commands import (
    BoundChannels,
    Credential,
    CredentialBind,
    CredentialList,
    Follower,
    HistoryFollowers,
    HistoryUnfollow,
    Maintain,
    QueueGet,
    QueueSet,
    QueueSettings,
    QueueStatistics,
    QueueStats,
    Rebuild,
)
from lonnymq.message_options import Duration
from lonnymq.rate import Rate, interval_us


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
    history: bool | None = None,
    history_content: bool | None = None,
    history_keep: Duration | None = None,
    batch_keep: Duration | None = None,
    audit_keep: Duration | None = None,
    notify: bool | None = None,
    channel_max_concurrency: int | None = None,
    channel_rate: Rate | None = None,
    channel_burst: int | None = None,
    channel_max_size: int | None = None,
    conn: object | None = None,
) -> Request[QueueSettings]:
    """Change the queue's settings. Settings that are not given keep their values.

    `lease` and `max_attempts` apply to dequeues and messages that do not give their own. `lease_max` is the
    longest lease allowed, `content_max_bytes` the largest content. At most `max_concurrency` messages are
    leased at once, over all channels; 0 removes that limit. While `paused`, nothing is served.

    With `history`, a row per finished message is kept for `history_keep` (0: for ever), and its content with
    `history_content`. A batch is kept for `batch_keep` after it is finished (0: for ever), and the audit
    for `audit_keep`. Without `notify`, new messages do not wake waiting consumers; these poll instead.

    `channel_max_concurrency`, `channel_rate`, `channel_burst` and `channel_max_size` are the limits of every
    channel that does not set its own (see Channel.set); 0 removes one.

        queue.set(lease=60, history=True, history_keep=timedelta(days=7))
        queue.set(channel_max_concurrency=4, channel_rate="20/s")
    """
    return ask(
        QueueSet(
            content_max_bytes,
            optional_milliseconds(lease_max),
            max_attempts,
            optional_milliseconds(lease),
            max_concurrency,
            paused,
            history,
            history_content,
            optional_milliseconds(history_keep),
            notify,
            channel_max_concurrency,
            None if channel_rate is None else interval_us(channel_rate),
            channel_burst,
            channel_max_size,
            optional_milliseconds(batch_keep),
            optional_milliseconds(audit_keep),
        ),
        conn,
    )


def maintain(limit: int = 10_000) -> Request[int]:
    """Delete up to `limit` rows that are no longer needed. Returns how many. Workers do this themselves."""
    return ask(Maintain(limit))


def rebuild(*, conn: object | None = None) -> Request[None]:
    """Build everything that is derived from the messages again, for example after a partial restore."""
    return ask(Rebuild(), conn)


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
