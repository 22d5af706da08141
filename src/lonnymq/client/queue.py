"""Queue, the synchronous client. Threads may share one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lonnymq.adapters import drivers
from lonnymq.client.base import QueueBase
from lonnymq.client.calls import Answer, Caller, Pair, Request, walk
from lonnymq.client.connection_errors import (
    TRIES,
    check_is_open,
    outcome_unknown,
    refuse_connection,
    unanswered,
)
from lonnymq.client.interface import ChannelCalls, DeadCalls
from lonnymq.client.produce import (
    Batch,
    Enqueued,
    OnFull,
    batches,
    check_many,
    raises_when_full,
)
from lonnymq.client.times import waiting
from lonnymq.client.wait import Sleep, take_or_wait
from lonnymq.commands import Created, Delivery
from lonnymq.errors import ConnectionDropped, DatabaseUnreachable, InvalidArgument
from lonnymq.install import WAIT_S
from lonnymq.message_options import DEFAULT_CHANNEL, Duration
from lonnymq.statement import Command

if TYPE_CHECKING:
    from lonnymq.adapters.listener import Listener
    from lonnymq.install import Installed


class Queue(QueueBase, Caller):
    """A queue in a schema of a database, on a DSN, a pool of psycopg, or an engine of SQLAlchemy.

    ```python
    with Queue("postgresql://localhost/shop") as queue:
        queue.enqueue({"invoice": 7}, channel="acme")
    ```
    """

    _is_async = False

    def _set_up(self) -> None:
        self.dead = Dead(self)
        self._idle_listeners: list[Listener] = []
        self._opening = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close what the queue opened. A pool or engine that you passed stays open."""
        self._is_closed = True
        while self._idle_listeners:
            self._idle_listeners.pop().close()
        if self._own_pool is not None:
            self._own_pool.close()

    def channel(self, name: str) -> Channel:
        """The channel with this name. It need not exist yet."""
        return Channel(self, name)

    def dequeue(
        self,
        limit: int = 1,
        *,
        lease: Duration | None = None,
        consumer: str | None = None,
        lanes: Iterable[str] | None = None,
        wait: Duration = 0,
        conn: None = None,
    ) -> list[Delivery]:
        """Lease up to `limit` due messages, in fair order over the channels.

        They are yours until the `lease` ends (the queue's setting, unless given). Extend it if you need more
        time, and complete or retry each message. If none is due, `wait` up to this long for some. `consumer`
        is a name that people see beside the leases. `lanes` are the lanes to serve, all unless given.

        It does not take a connection: it commits at once, on a connection of the queue.

            for message in queue.dequeue(10, wait=5):
                handle(message.payload)
                queue.complete(message)
        """
        refuse_connection(conn)
        wait_ms = waiting(wait)
        listener = self._listener() if wait_ms > 0 else None
        request = self._request(limit, lease, consumer, lanes)
        steps = take_or_wait(request, wait_ms, is_listening=listener is not None)
        try:
            taken: list[Delivery] = self._walk(steps, listener=listener)
        finally:
            self._dequeued_at = time.monotonic()
            if listener is not None:
                self._idle_listeners.append(listener)
        return taken

    def enqueue_many(
        self,
        values: Iterable[Any],
        *,
        channel: str = DEFAULT_CHANNEL,
        commit_each_chunk: bool = False,
        progress: Callable[[Enqueued], object] | None = None,
        on_full: OnFull = "raise",
        conn: object | None = None,
    ) -> Enqueued:
        """Enqueue the messages of an iterable, with one chunk of them in memory at a time.

        Each is a payload for `channel`, as in enqueue, or a NewMessage with options. All are created in one
        transaction. With `commit_each_chunk`, each chunk is committed, so that earlier chunks stay after an
        error. `progress` is called after each chunk with what was enqueued so far.

        Raises ChannelFull if a message does not fit into its channel, and creates nothing. You must then roll
        back your own transaction, as after other errors of the database. With `on_full="return"` such
        messages are left out, and counted as `full`.

            queue.enqueue_many(({"row": n} for n in range(1_000_000)), channel="import")
        """
        if conn is not None and commit_each_chunk:
            raise InvalidArgument("commit_each_chunk and conn are both given", "leave out one of them")
        check_many(values, "values")
        chunks = batches(values, channel, raise_full=raises_when_full(on_full))
        if conn is not None:
            return self._load(chunks, progress, lambda batch: partial(self._create, batch, conn))
        if commit_each_chunk:
            with ThreadPoolExecutor(1) as sender:
                return self._load(chunks, progress, self._sent_by(sender))
        is_loaded = False
        try:
            with drivers.transaction(self._opened()) as own, ThreadPoolExecutor(1) as sender:
                done = self._load(chunks, progress, self._sent_by(sender, own))
                is_loaded = True
        except ConnectionDropped as error:
            if is_loaded:  # the commit was under way
                raise outcome_unknown("enqueue_many") from error
            raise
        return done

    def install(self, *, roles: bool = False, wait: float = WAIT_S, conn: object | None = None) -> Installed:
        """Install the queue into its schema, or upgrade it: see lonnymq.install."""
        from lonnymq.adapters.installer import install_on

        source = conn if conn is not None else self._opened()
        return install_on(source, self.schema, roles=roles, wait=wait)

    def perform(self, request: Request[Answer]) -> Answer:
        answer: Answer = self._walk(request.steps, conn=request.conn)
        return answer

    def _walk(self, steps: Any, *, conn: object | None = None, listener: Listener | None = None) -> Any:
        return walk(steps, lambda step: self._take_step(step, conn, listener))

    def _take_step(
        self, step: Command[Any] | Pair[Any] | Sleep, conn: object | None, listener: Listener | None
    ) -> Any:
        if isinstance(step, Sleep):
            return self._sleep(step.milliseconds / 1000, listener)
        if isinstance(step, Pair):
            return self._run_pair(step)
        if conn is None:
            return self._run(step)
        drivers.check_has_transaction(conn)
        return drivers.run(conn, self.schema, step)

    def _sleep(self, seconds: float, listener: Listener | None) -> bool:
        if listener is None:
            time.sleep(seconds)
            return False
        return listener.wait(seconds)

    def _run_pair(self, pair: Pair[Answer]) -> Answer:
        try:
            return drivers.run_pair(self._opened(), self.schema, pair.first, pair.second)
        except ConnectionDropped:
            self._run(pair.first)
            return self._run(pair.second)

    def _run(self, command: Command[Answer]) -> Answer:
        """Run a command on a connection of the queue. If the connection breaks, repeat it if that is safe."""
        broken = None
        for _ in range(TRIES):
            try:
                answer = drivers.run(self._opened(), self.schema, command)
            except ConnectionDropped as error:
                broken = error
                if not command.may_repeat():
                    break
            except DatabaseUnreachable:
                if broken is None or command.is_harmless:
                    raise
                break
            else:
                if broken is None or command.tells_all(answer):
                    return answer
                break
        raise unanswered(command) from broken

    def _load(
        self,
        chunks: Iterable[Batch],
        progress: Callable[[Enqueued], object] | None,
        send: Callable[[Batch], Callable[[], list[Created]]],
    ) -> Enqueued:
        """Prepare each chunk while the one before is sent. Count what was sent, even after an error."""
        so_far = Enqueued()
        answer: Callable[[], list[Created]] = list
        try:
            for chunk in chunks:
                last, answer = answer, list  # asked once, also if it raises: a lazy one would be sent again
                so_far = so_far.plus(last(), progress)
                answer = send(chunk)
        finally:
            so_far = so_far.plus(answer(), progress)
        return so_far

    def _sent_by(
        self, sender: Executor, conn: object | None = None
    ) -> Callable[[Batch], Callable[[], list[Created]]]:
        return lambda batch: sender.submit(self._create, batch, conn).result

    def _create(self, batch: Batch, conn: object | None) -> list[Created]:
        return self.perform(Request(batch.steps(), conn))

    def _opened(self) -> object:
        check_is_open(is_closed=self._is_closed)
        if not self._is_open:
            from lonnymq.adapters.psycopg_pool import open_pool

            with self._opening:
                if not self._is_open:
                    open_pool(self._own_pool)
                    self._is_open = True
        return self._source

    def _listener(self) -> Listener | None:
        """A listener for this call alone; None if the queue cannot listen."""
        if self._listen_to is None:
            return None
        from lonnymq.adapters.listener import Listener, NoListening

        while self._idle_listeners:
            listener = self._idle_listeners.pop()
            if not listener.is_broken:
                return listener
            listener.close()
        try:
            return Listener.connect(self._listen_to, self.settings().notify_channel)
        except NoListening:
            self._listen_to = None
            return None


class Channel(ChannelCalls, Caller):
    """One channel of a queue."""

    def __init__(self, queue: Queue, name: str) -> None:
        self._queue = queue
        self.name = name

    def perform(self, request: Request[Answer]) -> Answer:
        return self._queue.perform(request)


class Dead(DeadCalls, Caller):
    """The dead letters of a queue."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def perform(self, request: Request[Answer]) -> Answer:
        return self._queue.perform(request)
