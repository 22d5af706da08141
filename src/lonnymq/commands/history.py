"""The history: read it, and follow it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from lonnymq.commands.answers import ManyRecords, Nothing, OneRecord, YesOrNo
from lonnymq.payload import Payloaded
from lonnymq.statement import (
    BigInt,
    Boolean,
    Bytea,
    Command,
    Int,
    Jsonb,
    Row,
    SqlType,
    Statement,
    Text,
    columns_of,
    command,
    identifier,
    read,
)


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run before the last one: when the message was due, when it was dequeued, and when it came back."""

    due_at: int
    dequeued_at: int
    ended_at: int


def _past_runs(numbers: Sequence[int] | None) -> tuple[PastRun, ...]:
    """
    >>> _past_runs([1, 2, 3, 4, 5, 6])
    (PastRun(due_at=1, dequeued_at=2, ended_at=3), PastRun(due_at=4, dequeued_at=5, ended_at=6))
    """
    each = iter(numbers or ())
    return tuple(map(PastRun, each, each, each))


def _optional_float(number: float | None) -> float | None:
    """Drivers return a Decimal."""
    return None if number is None else float(number)


OptionalNumeric = Annotated[float | None, SqlType("NUMERIC", load=_optional_float)]
PastRuns = Annotated[tuple[PastRun, ...], SqlType("BIGINT[]", load=_past_runs)]


@dataclass(frozen=True, slots=True)
class FinishedMessage(Payloaded):
    """A message of the history. `outcome` is completed, dead or cancelled. Its content is there if it was
    kept. A run is the time from a dequeue until the lease ends, also if it does not count as an attempt. At
    most 100 past runs are kept: the first one and the newest.
    """

    id: int
    channel: str
    outcome: str
    created_at: int
    dequeue_at: int
    first_dequeued_at: int | None
    dequeued_at: int | None
    finished_at: int
    attempts: int
    consumer: str | None
    error: str | None
    dedupe_key: str | None
    lane: str
    priority: int
    cost: int
    headers: Jsonb
    past_runs: PastRuns
    content_bytes: int
    content: Bytea | None

    @property
    def waited_ms(self) -> int | None:
        """From when it was first due until it was first dequeued. None if it never was, or if it was retried
        after it had died. history_newest.sql has the same rule.
        """
        due_at = max(self.created_at, self.past_runs[0].due_at if self.past_runs else self.dequeue_at)
        if self.first_dequeued_at is None or self.first_dequeued_at < due_at:
            return None
        return self.first_dequeued_at - due_at

    @property
    def worked_ms(self) -> int | None:
        """Duration of the last attempt. None if the message was cancelled: it may never have been worked
        on.
        """
        if self.dequeued_at is None or self.outcome == "cancelled":
            return None
        return max(0, self.finished_at - self.dequeued_at)


@command
class HistoryList(Command[list[FinishedMessage]]):
    """Read the history, newest first, from its view. With an id or a channel, it uses the index on these;
    without one, the index on transactions. A message that died and was retried is in it twice.
    """

    function = "history"
    is_harmless = True

    channel: Text | None
    since: BigInt | None
    limit: Int
    message_id: BigInt | None = None
    with_content: Boolean = True

    def statement(self, schema: str) -> Statement:
        given = {"id = CAST({} AS BIGINT)": self.message_id, "channel = CAST({} AS TEXT)": self.channel}
        tests = {test: value for test, value in given.items() if value is not None}
        tests["finished_at >= CAST({} AS BIGINT)"] = self.since or 0
        where = " AND ".join(test.format(f"${number}") for number, test in enumerate(tests, start=1))
        order = "xid DESC, id DESC" if len(tests) == 1 else "finished_at DESC, id DESC"
        columns = columns_of(FinishedMessage)
        if not self.with_content:
            columns = columns.removesuffix("content") + "NULL"
        text = (
            f"SELECT {columns} FROM {identifier(schema)}.history WHERE {where}"
            f" ORDER BY {order} LIMIT CAST(${len(tests) + 1} AS INT)"
        )
        return Statement(text, (*tests.values(), self.limit))

    def decode(self, rows: Sequence[Row]) -> list[FinishedMessage]:
        return read(FinishedMessage, rows)


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """The finished messages of one task; `task` is None for messages without a task.

    `waited_...` and `worked_...` are percentiles of FinishedMessage.waited_ms and worked_ms; None if there
    are no such times. With `has_more`, there are older messages, which were not read. `from_at` is the time
    since which messages were read.
    """

    task: str | None
    messages: int
    completed: int
    dead: int
    cancelled: int
    attempts_mean: float
    waited_p50_ms: float | None
    waited_p95_ms: float | None
    waited_p99_ms: float | None
    worked_p50_ms: float | None
    worked_p95_ms: float | None
    worked_p99_ms: float | None
    has_more: bool
    from_at: int


@command
class HistorySummary(ManyRecords[TaskSummary]):
    """Summarize the newest `rows` of the history by task."""

    function = "history_summary"
    is_harmless = True
    record = TaskSummary

    channel: Text | None = None
    since: BigInt | None = None
    rows: Int = 10_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """`system_id` identifies the cluster. Rows of transactions up to `trimmed_xid` may have been dropped from
    the history, and rows up to `policies_trimmed_xid` from the policies.
    """

    snapshot: str
    system_id: int
    trimmed_xid: int
    is_kept: bool
    policies_trimmed_xid: int


@command
class HistoryBounds(OneRecord[Bounds]):
    """Read where the history begins and ends, for a reader that follows it by snapshot."""

    function = "history_bounds"
    is_harmless = True
    record = Bounds


@command
class HistoryFollow(Nothing):
    """Save how far a follower has read the history. Rows that it has not read are kept."""

    function = "history_follow"
    is_repeatable = True

    name: Text
    snapshot: Text


@dataclass(frozen=True, slots=True)
class Follower:
    """A reader of the history, how far it has read, and when it last said so."""

    name: str
    snapshot: str
    at: int


@command
class HistoryFollowers(ManyRecords[Follower]):
    """List the followers of the history."""

    function = "history_followers"
    is_harmless = True
    record = Follower


@command
class HistoryUnread(Command[int]):
    """Count the rows of the history that are newer than a follower's snapshot, up to `limit`. It uses the
    index on transactions.
    """

    function = "history_unread"
    is_harmless = True

    snapshot: Text
    limit: Int

    def statement(self, schema: str) -> Statement:
        text = (
            f"SELECT COUNT(*) AS history_unread FROM (SELECT FROM {identifier(schema)}.history"
            " WHERE xid >= pg_snapshot_xmax(CAST($1 AS PG_SNAPSHOT)) LIMIT CAST($2 AS INT)) x"
        )
        return Statement(text, (self.snapshot, self.limit))

    def decode(self, rows: Sequence[Row]) -> int:
        return int(rows[0][0])


@command
class HistoryUnfollow(YesOrNo):
    """Forget a follower of the history. Returns whether there was one."""

    function = "history_unfollow"
    is_repeatable = True

    name: Text


@command
class HistoryMark(Command[int | None]):
    """A number that identifies this database's past, as far as a snapshot sees it. None if the rows that
    would tell are no longer kept.
    """

    function = "history_mark"
    is_harmless = True

    snapshot: Text
    dead: Boolean = False

    def decode(self, rows: Sequence[Row]) -> int | None:
        return None if rows[0][0] is None else int(rows[0][0])


@command
class PolicyMark(Command[int | None]):
    """As HistoryMark, for the policies."""

    function = "policy_mark"
    is_harmless = True

    snapshot: Text

    def decode(self, rows: Sequence[Row]) -> int | None:
        return None if rows[0][0] is None else int(rows[0][0])


@dataclass(frozen=True, slots=True)
class PastPolicy:
    """A policy, and since when it applied. `scope` is queue (its max_concurrency, and whether it is paused),
    default (the limits that channels inherit) or channel. A limit of None is inherited if the scope is
    channel, where 0 means no limit; otherwise None means no limit. With `is_deleted`, the channel has no
    policy of its own any more.
    """

    at: int
    scope: str
    channel: str | None
    max_concurrency: int | None
    release_interval_us: int | None
    burst: int | None
    paused: bool | None
    max_size: int | None
    weight: OptionalNumeric
    is_deleted: bool


@command
class PolicyList(Command[list[PastPolicy]]):
    """Read the policies, newest first, from their view."""

    function = "policies"
    is_harmless = True

    channel: Text | None
    limit: Int

    def statement(self, schema: str) -> Statement:
        given = () if self.channel is None else (self.channel,)
        where = "WHERE channel = CAST($1 AS TEXT) " if given else ""
        text = (
            f"SELECT {columns_of(PastPolicy)} FROM {identifier(schema)}.policies {where}"
            f"ORDER BY id DESC LIMIT CAST(${len(given) + 1} AS INT)"
        )
        return Statement(text, (*given, self.limit))

    def decode(self, rows: Sequence[Row]) -> list[PastPolicy]:
        return read(PastPolicy, rows)
