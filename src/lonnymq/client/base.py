"""What Queue and AsyncQueue share."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from lonnymq.adapters import drivers
from lonnymq.adapters.address import conninfo
from lonnymq.client import after_fork
from lonnymq.client.consume import QUIET_MS, DequeueRequest, check_limit, lane_names
from lonnymq.client.interface import QueueCalls
from lonnymq.client.observers import Observer
from lonnymq.errors import InvalidArgument, UnsuitableConnection
from lonnymq.message_options import Duration
from lonnymq.schema_name import check_schema_name

if TYPE_CHECKING:
    from lonnymq.adapters.listener import AsyncListener, Listener


class QueueBase(QueueCalls):
    """A queue, except for input and output."""

    _is_async: ClassVar[bool]
    observers: tuple[Observer, ...] = ()
    """What follows its calls: see `observe`."""

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
        """`source` is a DSN, or a pool or an engine that you already have. For a DSN, the queue makes a pool
        of up to `pool_size` connections, and waits up to `timeout` seconds for one.

        With `async_commit`, dequeues do not wait for the disk when they commit, except where a limit, an
        interval or the history depends on it. If a crash undoes one, its messages are served again, as after
        any crash.

        `listen` says where a waiting dequeue is notified of new messages. True: at the address of the source,
        if it has one. A DSN: on a connection that bypasses a pooler. False: nowhere; it polls once per
        second. Each waiting dequeue uses one connection for this, in addition to the pool's.
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
        self._listen = listen = conninfo(listen) if isinstance(listen, str) else listen
        self._own_pool: Any = None
        self._new_pool: Callable[[], Any]
        self._inherited: object | None = None
        if isinstance(source, str):
            from lonnymq.adapters.psycopg_pool import own_async_pool, own_pool

            make: Any = own_async_pool if self._is_async else own_pool
            self._new_pool = partial(make, source, pool_size, timeout)
            source = self._own_pool = self._new_pool()
        drivers.check_is_pool(source, is_async=self._is_async)
        self._source = source
        self._is_open = self._own_pool is None
        self._is_closed = False
        self._dequeued_at = -math.inf
        self._set_up()
        self._listen_to = listen if isinstance(listen, str) else drivers.address(source) if listen else None
        after_fork.watch(self)

    def observe(self, *observers: Observer) -> None:
        """Let these follow the calls of this queue, and the workers that are started on it from now on; none
        ends it. `lonnymq.otel` and `lonnymq.prometheus` use it.
        """
        self.observers = observers
        if (sibling := self._sibling()) is not None:
            sibling.observers = observers

    def _sibling(self) -> QueueBase | None:
        """The queue of the other kind that goes with this one, if it was made."""
        raise NotImplementedError

    def _set_up(self) -> None:
        """Create what Queue and AsyncQueue each have in their own way."""
        raise NotImplementedError

    def _forget_connections(self) -> None:
        """Start without listeners, and with locks that nobody holds."""
        raise NotImplementedError

    def _listeners(self) -> Sequence[Listener | AsyncListener]:
        """Its connections for notifications, except those that a call uses now."""
        raise NotImplementedError

    def after_fork(self) -> None:
        """Leave the connections to the parent. Called in the child when the process is forked."""
        listeners = self._listeners()
        after_fork.keep((self._own_pool, listeners))
        for listener in listeners:
            listener.leave_to_parent()
        if self._own_pool is None:
            self._inherited = drivers.open_connections(self._source)
        else:
            self._source = self._own_pool = self._new_pool()
            self._is_open = False
        self._forget_connections()

    def _check_not_inherited(self) -> None:
        """Raise UsedAfterFork if the pool or engine still has the connections of the parent process."""
        if self._inherited is not None and drivers.open_connections(self._source) is self._inherited:
            raise drivers.used_after_fork(self._source)
        self._inherited = None

    def address(self) -> str | None:
        """The address of the database, as far as the source knows it. It may contain a password."""
        return drivers.address(self._source)

    def copy_arguments(self, pool_size: int, timeout: float) -> dict[str, Any]:
        """The arguments that make another queue like this one, with its own connections."""
        found = self.address() or (self._listen if isinstance(self._listen, str) else None)
        if found is None:
            raise UnsuitableConnection(
                f"a {type(self._source).__name__} has no address",
                "make the queue with a DSN, or give the address as listen=",
            )
        options = {"async_commit": self._async_commit, "listen": self._listen}
        return {"source": found, "schema": self.schema, "pool_size": pool_size, "timeout": timeout, **options}

    def _request(
        self, limit: int, lease: Duration | None, consumer: str | None, lanes: Iterable[str] | None
    ) -> DequeueRequest:
        check_limit(limit)
        is_busy = time.monotonic() - self._dequeued_at < QUIET_MS / 1000
        return DequeueRequest(limit, lease, consumer, lane_names(lanes), self._async_commit, is_busy)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.schema!r} on {type(self._source).__name__}>"
