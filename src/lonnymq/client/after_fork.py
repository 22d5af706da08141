"""Queues in a process that was forked.

A connection that two processes use gives each of them the answers of the other. So a queue with its own pool
makes a new one in the child, and never touches the connections that it inherited. A queue on a pool or engine
of the caller raises UsedAfterFork until those connections are gone.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    def after_fork(self) -> None: ...


_queues: WeakSet[Forkable] = WeakSet()
_inherited: list[object] = []


def watch(queue: Forkable) -> None:
    """Call `after_fork` of the queue, for as long as the queue exists, in every process that is forked. The
    child does not have other threads yet.
    """
    _queues.add(queue)


def keep(connections: object) -> None:
    """Keep inherited connections for as long as the process runs: destroying one could write to it, or wait
    for threads that do not exist here.
    """
    _inherited.append(connections)


def _prepare_queues() -> None:
    for queue in list(_queues):
        queue.after_fork()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_prepare_queues)
