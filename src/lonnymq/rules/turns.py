"""Whose turn it is: virtual time between channels, and the order within one.

Each message gets a tag, and the lowest tag is served first. Within a channel, tags rise by cost / weight, so
that channels advance together. Each lane has its own virtual time, which is the tag that is served now.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

Step = TypeVar("Step", float, Fraction)


def place(priority: int, dequeue_at: int, message_id: int) -> tuple[int, int, int]:
    """The order within a channel: the lowest first. A negative `dequeue_at` is urgent."""
    return -priority, dequeue_at, message_id


def tag_step(cost: int, weight: Step) -> Step:
    """By how much a message advances the tag of its channel.

    >>> tag_step(3, 2.0)
    1.5
    """
    return cost / weight


def first_tag(next_tag: float, virtual_time: float, weight: float) -> float:
    """The tag of the next message of a channel that was empty. It joins one step after virtual time, so that
    a channel gains nothing by becoming empty; but if it was served a moment ago, it continues where it was.

    >>> first_tag(next_tag=0.0, virtual_time=10.0, weight=2.0), first_tag(10.25, 10.0, 2.0)
    (10.5, 10.25)
    """
    return next_tag if next_tag >= virtual_time else virtual_time + tag_step(1, weight)
