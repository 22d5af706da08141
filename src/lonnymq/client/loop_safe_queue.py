"""An AsyncQueue that does not belong to one event loop."""

from __future__ import annotations

from functools import partial
from typing import Any

from lonnymq.client.async_queue import AsyncQueue


class LoopSafeQueue(AsyncQueue):
    """Can be used in several event loops, and closed outside of them. Only a dequeue that waits needs to be
    in one loop: it keeps a connection that listens.
    """

    def __init__(
        self,
        source: str,
        schema: str = "lonnymq",
        *,
        pool_size: int = 10,
        timeout: float = 30,
        **options: Any,
    ) -> None:
        from lonnymq.adapters.taskless_pool import own_taskless_pool

        new_pool = partial(own_taskless_pool, source, pool_size, timeout)
        super().__init__(new_pool(), schema, **options)
        self._own_pool = self._source
        self._new_pool = new_pool

    def after_fork(self) -> None:
        super().after_fork()
        self._is_open = True  # such a pool need not be opened

    def close_now(self) -> None:
        """Close it without an event loop."""
        self._is_closed = True
        if self._sync_sibling is not None:
            self._sync_sibling.close()
        while self._idle_listeners:
            self._idle_listeners.pop().close_now()
        for shared in self._result_listeners.values():
            shared.close_now()
        self._own_pool.close_now()
