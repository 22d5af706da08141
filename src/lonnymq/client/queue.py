"""The queue, synchronous. Safe to share between threads."""

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
from lonnymq.client.calls import Answer, Caller, Pair, Request
from lonnymq.client.connection_errors import TRIES, check_is_open, doubt, refuse_connection, unanswered
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
from lonnymq.client.wait import Nap, take_or_wait
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

    def _equip(self) -> None:
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
        """Close what the queue opened; a pool or engine of yours stays as it is."""
        self._is_closed = True
        while self._idle_listeners:
            self._idle_listeners.pop().close()
        if self._own_pool is not None:
            self._own_pool.close()

    def channel(self, name: str) -> Channel:
        """The channel of this name, whether or not anything is in it yet."""
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
        """Lease up to `limit` messages that are due, in fair turns over the channels.

        They are yours until the `lease` ends (the queue's own setting unless given); extend it if need be,
        and complete, or retry, each of them. If there are none, `wait` for so long until there are.
        `consumer` is a name for people who look at what is leased by whom. `lanes` are those to serve, all
        unless given.

        Takes no connection of yours: it commits at once, on one of the queue's own.

            for message in queue.dequeue(10, wait=5):
                handle(message.payload)
                queue.complete(message)
        """
        refuse_connection(conn)
        wait_ms = waiting(wait)
        listener = self._listener() if wait_ms > 0 else None
        wish = self._wish(limit, lease, consumer, lanes)
        steps = take_or_wait(wish, wait_ms, is_listening=listener is not None)
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
        """Queue many messages, of any iterable, holding no more than a chunk of them.

        Each is a value for `channel`, as in enqueue, or a NewMessage that says more. All are created in one
        transaction, or with `commit_each_chunk` each chunk in one of its own, so that what came before an
        error stays. `progress` is called after each chunk with what was enqueued so far.

        Raises ChannelFull when a message does not fit into its channel, and creates nothing: a transaction
        of yours must then be rolled back, as after other errors of the database. With `on_full="return"`
        such messages are left out, and counted as `full`.

            queue.enqueue_many(({"row": n} for n in range(1_000_000)), channel="import")
        """
        if conn is not None and commit_each_chunk:
            raise InvalidArgument(
                "commit_each_chunk is not for a transaction of yours", "leave out conn, or commit_each_chunk"
            )
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
                raise doubt("enqueue_many") from error
            raise
        return done

    def install(self, *, roles: bool = False, wait: float = WAIT_S, conn: object | None = None) -> Installed:
        """Install the queue into its schema, or bring it up to date: see lonnymq.install."""
        from lonnymq.adapters.installer import install_on

        source = conn if conn is not None else self._opened()
        return install_on(source, self.schema, roles=roles, wait=wait)

    def perform(self, request: Request[Answer]) -> Answer:
        answer: Answer = self._walk(request.steps, conn=request.conn)
        return answer

    def _walk(self, steps: Any, *, conn: object | None = None, listener: Listener | None = None) -> Any:
        """Take the steps, and hand each its answer or its error."""
        proceed, answer = steps.send, None
        while True:
            try:
                step = proceed(answer)
            except StopIteration as end:
                return end.value
            try:
                proceed, answer = steps.send, self._take_step(step, conn, listener)
            except Exception as error:  # noqa: BLE001 - it is raised there, and comes out unless it is caught
                proceed, answer = steps.throw, error

    def _take_step(
        self, step: Command[Any] | Pair[Any] | Nap, conn: object | None, listener: Listener | None
    ) -> Any:
        if isinstance(step, Nap):
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
        """On a connection of the queue's own; again where the connection broke, if that is safe."""
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
        """While one chunk is on its way, the next is made. What was sent is told of in any case."""
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
        """One for this call alone; None where there is none to be had."""
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
