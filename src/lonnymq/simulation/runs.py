"""The attempts of a history, as the simulation takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple


class Run(NamedTuple):
    """One attempt. Times are in Unix milliseconds.

    `number` counts the attempts of a message from 0. `due_at` is when the attempt could begin: when its
    message was due and created, and the attempt before had ended. `dequeue_at` is the message's own time,
    which orders a channel and may be negative. Only counted attempts enter the waits: the first of a message,
    if its due time is known. An attempt that was running when the simulation begins is not decided by it.
    """

    message: int
    number: int
    channel: str
    lane: str
    priority: int
    cost: int
    dequeue_at: int
    due_at: int
    began_at: int
    ended_at: int
    is_counted: bool = True
    is_running: bool = False
    consumer: str | None = None

    @property
    def wait_ms(self) -> int:
        return max(0, self.began_at - self.due_at)

    @property
    def took_ms(self) -> int:
        return max(0, self.ended_at - self.began_at)


PastRun = tuple[int, int, int]
"""When an attempt was due, was dequeued, and ended."""


def message_runs(
    message: int,
    channel: str,
    *,
    created_at: int,
    past_runs: Sequence[PastRun],
    last_run: PastRun,
    attempts: int = 1,
    lane: str = "default",
    priority: int = 0,
    cost: int = 1,
    consumer: str | None = None,
) -> Iterator[Run]:
    """The runs of one message, oldest first. If earlier attempts are not recorded, its first due time is not
    known, and the wait of its last attempt does not count.
    """
    is_known = bool(past_runs) or attempts <= 1
    free_at = created_at
    for number, (dequeue_at, began_at, ended_at) in enumerate((*past_runs, last_run)):
        yield Run(
            message,
            number,
            channel,
            lane,
            priority,
            cost,
            dequeue_at,
            max(dequeue_at, free_at),
            began_at,
            ended_at,
            is_counted=is_known and number == 0,
            consumer=consumer,
        )
        free_at = ended_at


def followers(runs: Sequence[Run]) -> list[int | None]:
    """For each run, the place in the list of the next attempt of the same message. A dead letter that was
    retried has the same message and begins again with number 0.
    """
    order = sorted(range(len(runs)), key=lambda place: (runs[place].message, runs[place].began_at))
    found: list[int | None] = [None] * len(runs)
    for place, following in pairwise(order):
        one, two = runs[place], runs[following]
        if one.message == two.message and one.number + 1 == two.number:
            found[place] = following
    return found


def most_at_once(runs: Iterable[Run]) -> int:
    """How many attempts ever ran at the same time."""
    changes = [change for run in runs for change in ((run.began_at, 1), (run.ended_at, -1))]
    most = running = 0
    for _, change in sorted(changes):  # an end goes before a begin at the same time
        running += change
        most = max(most, running)
    return most
