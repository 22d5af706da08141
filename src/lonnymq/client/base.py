"""What the synchronous and the asynchronous queue are made of."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any, ClassVar

from lonnymq.adapters import drivers
from lonnymq.client.consume import QUIET_MS, DequeueRequest, check_limit, names_of
from lonnymq.client.interface import QueueCalls
from lonnymq.client.times import Duration
from lonnymq.errors import InvalidArgument, UnsuitableConnection
from lonnymq.install.sql_text import check_schema_name


class QueueBase(QueueCalls):
    """Everything but input and output."""

    _is_async: ClassVar[bool]

    def __init__(
        self,
        source: object,
        schema: str = "lonnymq",
        *,
        async_commit: bool = True,
        listen: bool | str = True,
        pool_size: int = 10,
        timeout: float = 30,
    ) -> None:
        """The source is a DSN, for which the queue keeps a pool of its own of up to `pool_size` connections,
        each waited for up to `timeout` seconds; or a pool or an engine that you have already.

        `async_commit`: dequeues do not wait for the disk when they commit, except where a limit, an interval
        or the history depends on it. What a crash then undoes is served again, as after any crash.

        `listen` says where to be notified of new messages while waiting for some: True, at the same address,
        if the source has one; a DSN, on a connection that goes around a pooler; False, not at all, but to
        look every second. Each dequeue that waits has a connection of its own for that, beside the pool's.
        """
        check_schema_name(schema)
        if type(pool_size) is not int or pool_size < 1:
            raise InvalidArgument(
                f"pool_size: {pool_size!r} is not a whole number of 1 or more", "give an int, such as 10"
            )
        if type(timeout) not in {int, float} or not 0 < timeout < math.inf:
            raise InvalidArgument(
                f"timeout: {timeout!r} is not a number of seconds above 0", "give a number, such as 30"
            )
        self.schema = schema
        self._async_commit = async_commit
        self._listen = listen
        self._own_pool: Any = None
        if isinstance(source, str):
            from lonnymq.adapters.psycopg_pool import own_async_pool, own_pool

            make = own_async_pool if self._is_async else own_pool
            source = self._own_pool = make(source, pool_size, timeout)
        drivers.check_is_pool(source, is_async=self._is_async)
        self._source = source
        self._is_open = self._own_pool is None
        self._is_closed = False
        self._dequeued_at = -math.inf
        self._equip()
        self._listen_to = listen if isinstance(listen, str) else drivers.address(source) if listen else None

    def _equip(self) -> None:
        """Make what each kind has in its own way."""
        raise NotImplementedError

    def like_this(self, pool_size: int, timeout: float) -> dict[str, Any]:
        """What another queue is made with that is to be this one too, on connections of its own."""
        if (found := drivers.address(self._source)) is None:
            raise UnsuitableConnection(
                f"{type(self._source).__name__} does not tell its address", "make the queue on a DSN"
            )
        options = {"async_commit": self._async_commit, "listen": self._listen}
        return {"source": found, "schema": self.schema, "pool_size": pool_size, "timeout": timeout, **options}

    def _wish(
        self, limit: int, lease: Duration | None, consumer: str | None, lanes: Iterable[str] | None
    ) -> DequeueRequest:
        check_limit(limit)
        is_busy = time.monotonic() - self._dequeued_at < QUIET_MS / 1000
        return DequeueRequest(limit, lease, consumer, names_of(lanes), self._async_commit, is_busy)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.schema!r} on {type(self._source).__name__}>"
