"""How long messages waited, and how long they would have in a plain queue.

In a plain queue the same workers would have begun as many messages at the same times, only in the order of
arrival: the first to arrive at the first of these times, and so on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Begun(Generic[Key]):
    """A message: whose, when it was there to be served, and when a worker began. Milliseconds."""

    key: Key
    id: int
    arrived: int
    began: int


@dataclass(frozen=True)
class Waits:
    """Milliseconds, ascending."""

    real: tuple[int, ...]
    fifo: tuple[int, ...]


def waits(messages: Sequence[Begun[Key]]) -> dict[Key, Waits]:
    """
    >>> waits([Begun("a", 1, 0, 10), Begun("a", 2, 0, 30), Begun("b", 3, 5, 20)])["b"]
    Waits(real=(15,), fifo=(25,))
    """
    real: defaultdict[Key, list[int]] = defaultdict(list)
    fifo: defaultdict[Key, list[int]] = defaultdict(list)
    in_line = sorted(messages, key=lambda message: (message.arrived, message.id))
    times = sorted(message.began for message in messages)
    for message, time in zip(in_line, times, strict=True):
        real[message.key].append(max(0, message.began - message.arrived))
        fifo[message.key].append(max(0, time - message.arrived))
    return {key: Waits(tuple(sorted(real[key])), tuple(sorted(fifo[key]))) for key in real}


def part(times: Sequence[int], share: float) -> int:
    """What this share of them do not exceed.

    >>> part([1, 2, 3, 10], 0.5), part([1, 2, 3, 10], 1)
    (2, 10)
    """
    return times[max(0, -(-int(share * 100) * len(times) // 100) - 1)]
