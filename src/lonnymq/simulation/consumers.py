"""Who serves the queue, and how quickly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lonnymq.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Pool:
    """Consumers that serve the same lanes. `count` is how many messages they work on at once."""

    count: int
    lanes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Consumers:
    """`turnaround_ms`: the time between the end of one message and the next dequeue. `dispatch_ms`: the time
    between two dispatches while all consumers are busy. `pickup_ms`: how long an idle consumer needs until it
    has a message that became due.
    """

    pools: tuple[Pool, ...]
    turnaround_ms: float = 0
    dispatch_ms: float = 40
    pickup_ms: float = 0

    @property
    def count(self) -> int:
        return sum(pool.count for pool in self.pools)

    def with_count(self, count: int) -> Consumers:
        """As many in total. Pools keep their proportions, and none becomes empty."""
        if count < len(self.pools):
            raise InvalidArgument(
                f"{count} consumers cannot serve {len(self.pools)} separate groups of lanes",
                f"give {len(self.pools)} or more: the history shows consumers that serve different lanes",
            )
        counts = [max(1, count * pool.count // self.count) for pool in self.pools]
        while (missing := count - sum(counts)) != 0:
            # The pool that is furthest from its proportion.
            gaps = [
                count * pool.count / self.count - had for pool, had in zip(self.pools, counts, strict=True)
            ]
            one = 1 if missing > 0 else -1
            able = [place for place, had in enumerate(counts) if had + one >= 1]
            counts[max(able, key=lambda place: one * gaps[place])] += one
        pools = (replace(pool, count=had) for pool, had in zip(self.pools, counts, strict=True))
        return replace(self, pools=tuple(pools))


def lane_groups(served: Iterable[tuple[str, str | None]]) -> list[frozenset[str]]:
    """The lanes that have consumers in common, from pairs of a lane and a consumer's name. Consumers without
    a name may be the same one.

    >>> [sorted(group) for group in lane_groups([("a", "x"), ("b", "x"), ("c", "y")])]
    [['a', 'b'], ['c']]
    """
    groups: list[tuple[set[str], set[str | None]]] = []
    for lane, consumer in served:
        same = [group for group in groups if lane in group[0] or consumer in group[1]]
        merged = ({lane}.union(*(one[0] for one in same)), {consumer}.union(*(one[1] for one in same)))
        groups = [group for group in groups if group not in same] + [merged]
    return [frozenset(lanes) for lanes, _ in groups]
