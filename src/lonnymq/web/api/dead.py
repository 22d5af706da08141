"""Dead letters: group them by what went wrong, list them, retry and discard them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Query
from pydantic import ConfigDict, Field

from lonnymq.client.calls import ask
from lonnymq.commands import (
    DeadDiscardAll,
    DeadGroup,
    DeadMessage,
    DeadRetryAll,
    Outcome,
    Result,
)
from lonnymq.formatting import plural
from lonnymq.message_options import TEXT_MAX_BYTES
from lonnymq.monitor.server import server_time
from lonnymq.web.access import Right
from lonnymq.web.api.messages import task_of
from lonnymq.web.api.parameters import LAST_ID, NUMBER, PAGE_SIZE, Limit, Name
from lonnymq.web.view import CurrentView, View

router = APIRouter(prefix="/dead", tags=["dead letters"])

FINGERPRINT = "^[0-9a-f]{12}$"
SCANNED = 2_000
"""How many of the newest dead letters are grouped."""
GROUPS_MAX = 500
IDS_MAX = 500
PART = 1_000
COUNTED_PART = 20_000
BUSY_S = 10.0
"""A request stops after this time, and says that there is more to do."""
SPREAD_MAX_MS = 2_592_000_000
MS_PER_S = 1000

Fingerprint = Annotated[str, Query(pattern=FINGERPRINT)]


@dataclass(frozen=True, slots=True)
class DeadRow:
    """A dead letter of a list."""

    id: int
    channel: str
    task: str | None
    lane: str
    dead_at: int
    created_at: int
    attempts: int
    consumer: str | None
    error: str | None
    content_bytes: int


@dataclass(frozen=True, slots=True)
class DeadPage:
    """In the order of their ids. `next` is `after` of the next page; None after the last one."""

    channel: str | None
    letters: list[DeadRow]
    next: int | None


@dataclass(frozen=True, slots=True)
class DeadGroupList:
    """The largest group first. With `has_more`, there are dead letters that are not counted: only the
    `scanned` newest are.
    """

    channel: str | None
    groups: list[DeadGroup]
    scanned: int
    has_more: bool


Id = Annotated[int, Field(ge=1, le=LAST_ID), NUMBER]
ChannelName = Annotated[str, Field(min_length=1, max_length=TEXT_MAX_BYTES)]
After = Annotated[int, Field(ge=0, le=LAST_ID), NUMBER]
"""Only ids above this one: the `next_after` of an answer that has one."""
Strict = Annotated[bool, Field(strict=True)]
EXACT = ConfigDict(extra="forbid")  # two conditions that do not go together are refused


@dataclass(frozen=True, kw_only=True)
class Letters:
    """These dead letters. Those that are not of the channel, if it is given, are left out."""

    __pydantic_config__ = EXACT

    ids: Annotated[list[Id], Field(min_length=1, max_length=IDS_MAX)]
    channel: ChannelName | None = None


@dataclass(frozen=True, kw_only=True)
class LettersOfGroup:
    """Those with a fingerprint, of all channels or of one."""

    __pydantic_config__ = EXACT

    fingerprint: Annotated[str, Field(pattern=FINGERPRINT)]
    channel: ChannelName | None = None
    after: After = 0


@dataclass(frozen=True, kw_only=True)
class LettersOfChannel:
    __pydantic_config__ = EXACT

    channel: ChannelName
    after: After = 0


@dataclass(frozen=True, kw_only=True)
class AllLetters:
    __pydantic_config__ = EXACT

    everything: Literal[True]
    after: After = 0


Selection = Letters | LettersOfGroup | LettersOfChannel | AllLetters


@dataclass(frozen=True, kw_only=True)
class Retry:
    """With `spread_ms`, they become due evenly over that time. With `dry_run`, nothing changes."""

    spread_ms: Annotated[int, Field(ge=0, le=SPREAD_MAX_MS), NUMBER] = 0
    dry_run: Strict = False


@dataclass(frozen=True, kw_only=True)
class RetryLetters(Letters, Retry): ...


@dataclass(frozen=True, kw_only=True)
class RetryGroup(LettersOfGroup, Retry): ...


@dataclass(frozen=True, kw_only=True)
class RetryChannel(LettersOfChannel, Retry): ...


@dataclass(frozen=True, kw_only=True)
class RetryAll(AllLetters, Retry): ...


@dataclass(frozen=True, kw_only=True)
class Discard:
    """With `dry_run`, nothing changes."""

    dry_run: Strict = False


@dataclass(frozen=True, kw_only=True)
class DiscardLetters(Letters, Discard): ...


@dataclass(frozen=True, kw_only=True)
class DiscardGroup(LettersOfGroup, Discard): ...


@dataclass(frozen=True, kw_only=True)
class DiscardChannel(LettersOfChannel, Discard): ...


@dataclass(frozen=True, kw_only=True)
class DiscardAll(AllLetters, Discard): ...


RetryRequest = RetryLetters | RetryGroup | RetryChannel | RetryAll
DiscardRequest = DiscardLetters | DiscardGroup | DiscardChannel | DiscardAll


@dataclass(frozen=True, slots=True)
class DeadChange:
    """`changed` were retried or discarded, or would be in a dry run. `refused` stay dead: another message has
    their dedupe key, or their channel is full. With `next_after`, there may be more: ask again.
    """

    changed: int
    refused: int
    next_after: int | None
    text: str
    """The same as a sentence."""


@router.get("")
def list_dead(
    view: CurrentView,
    channel: Name | None = None,
    fingerprint: Fingerprint | None = None,
    after: Annotated[int, Query(ge=0, le=LAST_ID)] = 0,
    limit: Limit = PAGE_SIZE,
) -> DeadPage:
    """Dead letters without their content, page by page: of a channel, or of a group."""
    channel = view.scope(channel)
    found = view.queue.dead.list(channel=channel, fingerprint=fingerprint, after=after, limit=limit)
    following = found[-1].id if len(found) == limit else None
    return DeadPage(channel, [_row(view, one) for one in found], following)


@router.get("/groups")
def group_dead(
    view: CurrentView,
    channel: Name | None = None,
    by_channel: Annotated[bool, Query()] = False,  # noqa: FBT002 - by name, in the query
    limit: Annotated[int, Query(ge=1, le=GROUPS_MAX)] = 100,
) -> DeadGroupList:
    """Dead letters grouped by task and by what went wrong, and by channel if asked for."""
    channel = view.scope(channel)
    groups = view.queue.dead.groups(channel=channel, by_channel=by_channel, limit=limit, scan=SCANNED)
    shown = [replace(group, pattern=view.without_secrets(group.pattern)) for group in groups]
    return DeadGroupList(channel, shown, SCANNED, has_more=any(group.has_more for group in groups))


@router.post("/retry")
def retry_dead(view: CurrentView, wanted: Annotated[RetryRequest, Body()]) -> DeadChange:
    """Put dead letters back into their channels, with a fresh count of attempts, spread over time if asked
    for. A person who sees some channels only must name one.
    """
    if wanted.dry_run:
        return _count(view, wanted, "retried")
    channel = _channel(wanted)
    with view.action("dead.retry", Right.DEAD_LETTERS, channel=channel, details=_details(wanted)) as action:
        if isinstance(wanted, Letters):
            ids = _own_ids(view, wanted)
            done = _change(view.queue.dead.retry(ids, spread=wanted.spread_ms / MS_PER_S), Result.RETRIED)
        else:
            start = server_time(view.queue)
            condition, spread_ms = _fingerprint(wanted), wanted.spread_ms
            done = _in_parts(
                wanted.after,
                lambda after: _retried(
                    view, DeadRetryAll(channel, None, start, after, PART, condition, spread_ms)
                ),
            )
        change = _told(done, "was retried", "were retried")
        action.outcome = change.text
    return change


@router.post("/discard")
def discard_dead(view: CurrentView, wanted: Annotated[DiscardRequest, Body()]) -> DeadChange:
    """Delete dead letters. They cannot be restored. A person who sees some channels only must name one."""
    if wanted.dry_run:
        return _count(view, wanted, "discarded")
    channel = _channel(wanted)
    with view.action("dead.discard", Right.DEAD_LETTERS, channel=channel, details=_details(wanted)) as action:
        if isinstance(wanted, Letters):
            done = _change(view.queue.dead.discard(_own_ids(view, wanted)), Result.DISCARDED)
        else:
            condition = _fingerprint(wanted)
            done = _in_parts(
                wanted.after,
                lambda after: _discarded(view, DeadDiscardAll(channel, None, after, PART, condition)),
            )
        change = _told(done, "was discarded", "were discarded")
        action.outcome = change.text
    return change


Done = tuple[int, int, int | None]
"""How many were changed, how many were refused, and where to go on."""


def _channel(wanted: Selection) -> str | None:
    return None if isinstance(wanted, AllLetters) else wanted.channel


def _fingerprint(wanted: Selection) -> str | None:
    return wanted.fingerprint if isinstance(wanted, LettersOfGroup) else None


def _details(wanted: Selection) -> dict[str, object]:
    """For the audit, which has the channel already."""
    given = {name: value for name, value in asdict(wanted).items() if name not in {"channel", "dry_run"}}
    return {name: value for name, value in given.items() if value}


def _own_ids(view: View, wanted: Letters) -> list[int]:
    """Those of the ids that are dead letters, of the channel if one is given."""
    ids = list(dict.fromkeys(wanted.ids))
    found = (view.queue.dead.list(channel=wanted.channel, after=one - 1, limit=1) for one in ids)
    there = {letter.id for letters in found for letter in letters}
    return [one for one in ids if one in there]


def _count(view: View, wanted: Selection, done: str) -> DeadChange:
    channel = _channel(wanted)
    view.check(Right.DEAD_LETTERS, channel)
    if isinstance(wanted, Letters):
        counted: Done = (len(_own_ids(view, wanted)), 0, None)
    else:
        condition = _fingerprint(wanted)
        size = PART if condition else COUNTED_PART
        counted = _in_parts(
            wanted.after,
            lambda after: _retried(
                view, DeadRetryAll(channel, None, None, after, size, condition, dry_run=True)
            ),
        )
    return _told(counted, f"would be {done}", f"would be {done}")


def _in_parts(after: int, part: Callable[[int], Done]) -> Done:
    """Call for one part after the other, until none is left or the request has taken long enough."""
    end = time.monotonic() + BUSY_S
    changed = refused = 0
    following: int | None = after
    while following is not None:
        more_changed, more_refused, following = part(following)
        changed += more_changed
        refused += more_refused
        if time.monotonic() > end:
            break
    return changed, refused, following


def _retried(view: View, part: DeadRetryAll) -> Done:
    done = view.queue.perform(ask(part))
    return done.retried, done.refused, done.next_after


def _discarded(view: View, part: DeadDiscardAll) -> Done:
    done = view.queue.perform(ask(part))
    return done.discarded, 0, done.next_after


def _change(outcomes: list[Outcome], wanted: Result) -> Done:
    changed = sum(outcome.result is wanted for outcome in outcomes)
    refused = sum(outcome.result in {Result.DUPLICATE, Result.FULL} for outcome in outcomes)
    return changed, refused, None


def _told(done: Done, singular: str, several: str) -> DeadChange:
    changed, refused, following = done
    text = f"{plural(changed, 'dead letter')} {singular if changed == 1 else several}."
    if refused:
        text += f" {refused:,} stay dead: their dedupe key is taken, or their tenant is full."
    if following is not None:
        text += " There are more: press again."
    return DeadChange(changed, refused, following, text)


def _row(view: View, one: DeadMessage) -> DeadRow:
    return DeadRow(
        one.id,
        one.channel,
        task_of(one.headers),
        one.lane,
        one.dead_at,
        one.created_at,
        one.attempts,
        one.consumer,
        view.without_secrets(one.error),
        one.content_bytes,
    )
