"""PostgreSQL's snapshots, and the transactions between two of them.

A row is new if the later snapshot sees the transaction that wrote it and the earlier one did not. That holds
in whatever order transactions began and committed. The ids of messages could not tell which rows are new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from lonnymq.errors import InvalidArgument

WRITTEN = re.compile(r"([0-9]{1,20}):([0-9]{1,20}):((?:[0-9]{1,20}(?:,[0-9]{1,20})*)?)")
LAST_XID = 2**63 - 1  # the largest BIGINT; no cluster gets that far


def _is_unused(xid: int) -> bool:
    """PostgreSQL never uses an id whose lower 32 bits are 0, and no snapshot may begin or end at one."""
    return xid % 2**32 == 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Sees the transactions below `xmax`, except those that were still `open`."""

    xmin: int
    xmax: int
    open: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """
        >>> Snapshot.parse("10:20:10,14")
        Snapshot(xmin=10, xmax=20, open=(10, 14))
        """
        found = WRITTEN.fullmatch(text)
        if found is None:
            raise _not_a_snapshot(text)
        xmin, xmax, listed = int(found[1]), int(found[2]), [int(xid) for xid in found[3].split(",") if xid]
        if not 1 <= xmin <= xmax <= LAST_XID or any(not xmin <= xid < xmax for xid in listed):
            raise _not_a_snapshot(text)
        if _is_unused(xmin) or _is_unused(xmax):
            raise _not_a_snapshot(text)
        return cls(xmin, xmax, tuple(sorted(set(listed))))

    @classmethod
    def of(cls, xmax: int, still_open: Iterable[int] = ()) -> Self:
        """
        >>> str(Snapshot.of(20, [14, 10]))
        '10:20:10,14'
        """
        xids = tuple(sorted(set(still_open)))
        xmax += _is_unused(xmax)
        return cls(xids[0] if xids else xmax, xmax, xids)

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, self.open))}"

    def sees(self, xid: int) -> bool:
        return xid < self.xmax and xid not in self.open

    def is_within(self, later: Snapshot) -> bool:
        """Whether the later snapshot sees everything that this one sees.

        >>> Snapshot.parse("10:20:10,14").is_within(Snapshot.parse("14:30:14,22"))
        True
        >>> Snapshot.parse("14:20:14").is_within(Snapshot.parse("10:30:10,14"))
        False
        """
        return self.xmax <= later.xmax and all(not self.sees(xid) for xid in later.open)

    def committed_by(self, later: Snapshot) -> tuple[int, ...]:
        """The transactions that were open in this snapshot and that the later one sees."""
        return tuple(xid for xid in self.open if later.sees(xid))

    def until(self, later: Snapshot, xid: int) -> Snapshot:
        """The snapshot that sees what this one sees, and of the later one only what is below `xid`.

        >>> str(Snapshot.parse("10:20:10,14").until(Snapshot.parse("22:30:22"), 25))
        '22:25:22'
        >>> str(Snapshot.parse("10:20:10,14").until(Snapshot.parse("30:30:"), 14))
        '14:20:14'
        """
        xmax = max(self.xmax, xid)
        not_yet = [x for x in self.open if x >= xid]
        still_open = [x for x in later.open if x < xmax]
        return Snapshot.of(xmax, [*not_yet, *still_open])


EARLIEST = Snapshot.of(1)
"""Sees nothing, so every row is after it."""


def _not_a_snapshot(text: str) -> InvalidArgument:
    return InvalidArgument(f"{text[:100]!r} is not a snapshot", "a snapshot looks like 731:735:731,733")
