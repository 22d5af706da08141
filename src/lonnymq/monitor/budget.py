"""How much time the calls of a poll may take."""

from __future__ import annotations

from collections import defaultdict, deque

MAX_DEBT = 30
"""After a poll that took very long, this many polls read nothing, and no more."""
CALLS_COMPARED = 5


class Budget:
    """Each poll may take some seconds. If one takes more, the next ones have less. What it leaves is lost.

    A call costs as much as the quickest of the last few calls of its kind: on a machine that is busy with
    other things, most calls wait longer than they work.

    >>> budget = Budget()
    >>> budget.begin(0.25)
    >>> budget.spend("page", 0.5), budget.left
    (0.5, -0.25)
    >>> budget.begin(0.25)
    >>> budget.left
    0.0
    >>> budget.spend("page", 2.0)
    0.5
    """

    def __init__(self) -> None:
        self.left = 0.0
        """Seconds; negative if polls took more than they may."""
        self._recent: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=CALLS_COMPARED))

    def begin(self, seconds: float) -> None:
        """Begin a poll, which may take so many seconds."""
        self.left = max(min(self.left, 0.0), -MAX_DEBT * seconds) + seconds

    def spend(self, kind: str, seconds: float) -> float:
        """Returns the cost of a call that took so long."""
        self._recent[kind].append(seconds)
        cost = min(self._recent[kind])
        self.left -= cost
        return cost
