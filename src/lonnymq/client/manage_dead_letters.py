"""The calls for dead letters: list, group, retry, discard."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Protocol, TypeVar

from lonnymq.client.calls import Request, Steps, ask
from lonnymq.client.manage_messages import due_at
from lonnymq.client.produce import check_many
from lonnymq.client.times import ServerClock, milliseconds
from lonnymq.commands import (
    DeadDiscard,
    DeadDiscardAll,
    DeadGroup,
    DeadGroups,
    DeadList,
    DeadMessage,
    DeadRetry,
    DeadRetryAll,
    DiscardedAll,
    Outcome,
    RetriedAll,
)
from lonnymq.message_options import Duration
from lonnymq.statement import Command


class Paged(Protocol):
    """An answer that says where the next page starts."""

    @property
    def next_after(self) -> int | None: ...


Page = TypeVar("Page", bound=Paged)


def list_dead(
    *,
    channel: str | None = None,
    error: str | None = None,
    lane: str | None = None,
    fingerprint: str | None = None,
    after: int = 0,
    limit: int = 100,
    conn: object | None = None,
) -> Request[list[DeadMessage]]:
    """A page of dead letters in the order of their ids, without content. `error` is a LIKE pattern, and
    `fingerprint` that of one of `groups()`.
    """
    return ask(DeadList(channel, error, after, limit, lane, fingerprint), conn)


def group_dead(
    *,
    channel: str | None = None,
    by_channel: bool = False,
    limit: int = 100,
    scan: int = 10_000,
    conn: object | None = None,
) -> Request[list[DeadGroup]]:
    """Dead letters grouped by what went wrong, the largest group first. Reads the `scan` newest of them;
    `has_more` says whether there are others.
    """
    return ask(DeadGroups(channel, by_channel, limit, scan), conn)


def retry_dead(
    message_ids: Iterable[int],
    *,
    run_at: datetime | None = None,
    delay: Duration | None = None,
    spread: Duration = 0,
    conn: object | None = None,
) -> Request[list[Outcome]]:
    """Put dead letters back into their channels, with a fresh count of attempts. With `spread`, they become
    due evenly over that time, and not all at once.
    """
    check_many(message_ids, "ids")
    ids = list(message_ids)
    spread_ms = milliseconds(spread)

    def steps() -> Steps[list[Outcome]]:
        outcomes: list[Outcome] = yield DeadRetry(ids, (yield from due_at(run_at, delay)), spread_ms)
        return outcomes

    return Request(steps(), conn)


def retry_all_dead(
    *,
    channel: str | None = None,
    error: str | None = None,
    fingerprint: str | None = None,
    spread: Duration = 0,
    dry_run: bool = False,
    conn: object | None = None,
) -> Request[RetriedAll]:
    """Retry all dead letters, of a channel, with an error or of one of `groups()`, a thousand per call until
    none is left. With `spread`, they become due evenly over that time, and not all at once. With `dry_run`,
    nothing changes: `retried` is the number that would be tried.
    """
    spread_ms = milliseconds(spread)

    def steps() -> Steps[RetriedAll]:
        start: int | None = None
        if spread_ms:
            start = yield ServerClock()  # one for all calls, so that they share the same span of time
        parts = yield from _all_pages(
            lambda after: DeadRetryAll(
                channel, error, start, after, fingerprint=fingerprint, spread_ms=spread_ms, dry_run=dry_run
            )
        )
        return RetriedAll(sum(part.retried for part in parts), sum(part.refused for part in parts), None)

    return Request(steps(), conn)


def discard_dead(message_ids: Iterable[int], *, conn: object | None = None) -> Request[list[Outcome]]:
    """Delete dead letters."""
    check_many(message_ids, "ids")
    return ask(DeadDiscard(list(message_ids)), conn)


def discard_all_dead(
    *,
    channel: str | None = None,
    error: str | None = None,
    fingerprint: str | None = None,
    conn: object | None = None,
) -> Request[DiscardedAll]:
    """Delete all dead letters, of a channel, with an error or of one of `groups()`, a thousand per call until
    none is left.
    """

    def steps() -> Steps[DiscardedAll]:
        parts = yield from _all_pages(
            lambda after: DeadDiscardAll(channel, error, after, fingerprint=fingerprint)
        )
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
