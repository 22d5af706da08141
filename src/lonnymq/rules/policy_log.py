"""The policy of each channel at any time, from the rows of the log of policies (the view `policies`).

Each row has the whole policy after a change, so the newest row of a channel is its policy. What a channel
does not set itself, it inherits from the newest row of the scope `default`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from lonnymq.errors import InvalidArgument

BEGINNING = 0
"""The time from which the policy before the first change holds, in Unix milliseconds."""
QUEUE, DEFAULT, CHANNEL = "queue", "default", "channel"
LIMITS = ("max_concurrency", "release_interval_us", "burst", "max_size")


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """The policy that a channel is served by, with what it inherits. A limit of None means no limit."""

    max_concurrency: int | None = None
    release_interval_us: int | None = None
    burst: int = 1
    paused: bool = False
    max_size: int | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """The limits of the queue as a whole."""

    max_concurrency: int | None = None
    paused: bool = False


Policy = TypeVar("Policy")
Since = tuple[int, Policy]
"""A policy, and the time since which it holds, in Unix milliseconds."""
LoggedRow = Mapping[str, Any]


@dataclass(frozen=True)
class PolicyLog:
    """The rows of the log by what they are about, each in the order of time."""

    queue: Sequence[Since[LoggedRow]] = ()
    default: Sequence[Since[LoggedRow]] = ()
    channels: Mapping[str, Sequence[Since[LoggedRow]]] | None = None

    @staticmethod
    def of(rows: Iterable[LoggedRow]) -> PolicyLog:
        """The rows can come in any order. Times are datetimes or Unix milliseconds.

        >>> log = PolicyLog.of([{"at": 5, "scope": "channel", "channel": "acme", "max_concurrency": 4}])
        >>> log.at("acme", 4).max_concurrency, log.at("acme", 5).max_concurrency
        (None, 4)
        """
        found: defaultdict[tuple[str, str | None], list[tuple[int, int, LoggedRow]]] = defaultdict(list)
        for row in rows:
            scope = row["scope"]
            if scope not in {QUEUE, DEFAULT, CHANNEL}:
                raise InvalidArgument(
                    f"{scope!r} is not a scope of the log of policies",
                    "read the rows with the format lonnymq_policies, or from an archive of them",
                )
            key = scope, row["channel"] if scope == CHANNEL else None
            found[key].append((milliseconds(row["at"]), row.get("id") or 0, row))
        sorted_rows = {
            key: [(at, row) for at, _, row in sorted(of_key, key=lambda one: one[:2])]
            for key, of_key in found.items()
        }
        return PolicyLog(
            sorted_rows.pop((QUEUE, None), ()),
            sorted_rows.pop((DEFAULT, None), ()),
            {str(channel): of_channel for (_, channel), of_channel in sorted_rows.items()},
        )

    def at(self, channel: str, at_ms: int) -> EffectivePolicy:
        """The policy of the channel at a time."""
        return _effective(_row_at(self._own(channel), at_ms), _row_at(self.default, at_ms))

    def changes(self, channel: str) -> list[Since[EffectivePolicy]]:
        """Each policy of the channel and since when it held, oldest first. The first holds since
        BEGINNING.
        """
        times = {BEGINNING, *(at for at, _ in self._own(channel)), *(at for at, _ in self.default)}
        return _without_repeats([(at, self.at(channel, at)) for at in sorted(times)])

    def queue_at(self, at_ms: int) -> QueuePolicy:
        row = _row_at(self.queue, at_ms)
        return QueuePolicy(row.get("max_concurrency") or None, bool(row.get("paused")))

    def queue_changes(self) -> list[Since[QueuePolicy]]:
        times = {BEGINNING, *(at for at, _ in self.queue)}
        return _without_repeats([(at, self.queue_at(at)) for at in sorted(times)])

    def _own(self, channel: str) -> Sequence[Since[LoggedRow]]:
        return (self.channels or {}).get(channel, ())


def milliseconds(at: datetime | int) -> int:
    return round(at.timestamp() * 1000) if isinstance(at, datetime) else int(at)


def _row_at(rows: Sequence[Since[LoggedRow]], at_ms: int) -> LoggedRow:
    """The newest row at this time; nothing if there was none yet, or if it was deleted."""
    place = bisect_right(rows, at_ms, key=lambda row: row[0])
    row: LoggedRow = rows[place - 1][1] if place else {}
    return {} if row.get("is_deleted") else row


def _effective(own: LoggedRow, default: LoggedRow) -> EffectivePolicy:
    """A limit that is missing is inherited; 0 means no limit."""
    limits = {name: default.get(name) if own.get(name) is None else own[name] for name in LIMITS}
    weight = own.get("weight")
    return EffectivePolicy(
        max_concurrency=limits["max_concurrency"] or None,
        release_interval_us=limits["release_interval_us"] or None,
        burst=limits["burst"] or 1,
        paused=bool(own.get("paused")),
        max_size=limits["max_size"] or None,
        weight=1.0 if weight is None else float(weight),
    )


def _without_repeats(changes: Iterable[Since[Policy]]) -> list[Since[Policy]]:
    kept: list[Since[Policy]] = []
    for at, policy in changes:
        if not kept or kept[-1][1] != policy:
            kept.append((at, policy))
    return kept
