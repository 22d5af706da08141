"""The block in which a batch is filled, which is one transaction."""

from __future__ import annotations

import os

from lonnymq.errors import BatchNotOpen, UsedAfterFork


class BatchBlock:
    """`name` is that of the batch, `conn` the connection of the transaction."""

    def __init__(self, name: str, conn: object) -> None:
        self._name = name
        self._conn: object | None = conn
        self._pid = os.getpid()

    @property
    def conn(self) -> object:
        if self._pid != os.getpid():
            raise UsedAfterFork(
                f"the batch {self._name!r} is filled in a transaction of the parent process",
                "use open_batch, and give its id to the children as batch_id",
            )
        if self._conn is None:  # others may use the connection by now
            raise BatchNotOpen(
                f"the block of the batch {self._name!r} has ended",
                "enqueue in the block, or use open_batch to fill it in several transactions",
            )
        return self._conn

    def end(self) -> None:
        self._conn = None
