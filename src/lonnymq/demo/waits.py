"""How long messages waited, and how long they would have waited in a FIFO queue.

In a FIFO queue the same workers would have started as many messages at the same times, but in the order of
arrival: the first message to arrive at the first of these times, and so on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class StartedMessage(Generic[Key]):
    """`arrived`: when it became due. `started`: when a worker started it. Both in milliseconds."""

    key: Key
    id: int
    arrived: int
    started: int


@dataclass(frozen=True)
class Waits:
    """Milliseconds, ascending."""

    real: tuple[int, ...]
    fifo: tuple[int, ...]


def waits(messages: Sequence[StartedMessage[Key]]) -> dict[Key, Waits]:
    """
    >>> a = StartedMessage("a", 1, 0, 10), StartedMessage("a", 2, 0, 30)
    >>> waits([*a, StartedMessage("b", 3, 5, 20)])["b"]
    Waits(real=(15,), fifo=(25,))
    """
    real: defaultdict[Key, list[int]] = defaultdict(list)
    fifo: defaultdict[Key, list[int]] = defaultdict(list)
    by_arrival = sorted(messages, key=lambda message: (message.arrived, message.id))
    times = sorted(message.started for message in messages)
    for message, time in zip(by_arrival, times, strict=True):
        real[message.key].append(max(0, message.started - message.arrived))
        fifo[message.key].append(max(0, time - message.arrived))
    return {key: Waits(tuple(sorted(real[key])), tuple(sorted(fifo[key]))) for key in real}
