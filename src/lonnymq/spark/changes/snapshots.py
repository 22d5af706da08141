"""What PostgreSQL's snapshots say, and what lies between two of them.

Rows that carry the transaction that wrote them are followed by snapshot: a row is new if its transaction is
to be seen now and was not before, in whatever order transactions began and committed. Ids do not tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from lonnymq.errors import InvalidArgument

WRITTEN = re.compile(r"([0-9]{1,20}):([0-9]{1,20}):((?:[0-9]{1,20}(?:,[0-9]{1,20})*)?)")
LAST_XID = 2**63 - 1  # as far as a BIGINT goes, and further than any cluster gets


def _is_nobodys(xid: int) -> bool:
    """No transaction has a number whose lower half is 0, and no snapshot may begin or end at one."""
    return xid % 2**32 == 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Sees the transactions below `xmax`, except those that were `open`."""

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
            raise _no_snapshot(text)
        xmin, xmax, listed = int(found[1]), int(found[2]), [int(xid) for xid in found[3].split(",") if xid]
        if not 1 <= xmin <= xmax <= LAST_XID or any(not xmin <= xid < xmax for xid in listed):
            raise _no_snapshot(text)
        if _is_nobodys(xmin) or _is_nobodys(xmax):
            raise _no_snapshot(text)
        return cls(xmin, xmax, tuple(sorted(set(listed))))

    @classmethod
    def of(cls, xmax: int, left_open: Iterable[int] = ()) -> Self:
        """
        >>> str(Snapshot.of(20, [14, 10]))
        '10:20:10,14'
        """
        xids = tuple(sorted(set(left_open)))
        xmax += _is_nobodys(xmax)
        return cls(xids[0] if xids else xmax, xmax, xids)

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, self.open))}"

    def sees(self, xid: int) -> bool:
        return xid < self.xmax and xid not in self.open

    def is_within(self, later: Snapshot) -> bool:
        """Whether the other sees all that this one does.

        >>> Snapshot.parse("10:20:10,14").is_within(Snapshot.parse("14:30:14,22"))
        True
        >>> Snapshot.parse("14:20:14").is_within(Snapshot.parse("10:30:10,14"))
        False
        """
        return self.xmax <= later.xmax and all(not self.sees(xid) for xid in later.open)

    def ended(self, later: Snapshot) -> tuple[int, ...]:
        """Those that were open and are to be seen in the other."""
        return tuple(xid for xid in self.open if later.sees(xid))

    def until(self, later: Snapshot, xid: int) -> Snapshot:
        """Sees what this one does, and of what the other does that which lies below a transaction.

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
"""Sees nothing: behind it is all there is."""


def _no_snapshot(text: str) -> InvalidArgument:
    return InvalidArgument(f"{text[:100]!r} is no snapshot", "it looks like 731:735:731,733")
