"""Queue, the synchronous client. Threads may share one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lonnymq.adapters import drivers
from lonnymq.client.base import QueueBase
from lonnymq.client.batch_block import BatchBlock
from lonnymq.client.calls import Answer, Caller, Pair, Request, walk
from lonnymq.client.connection_errors import (
    TRIES,
    check_is_open,
    outcome_unknown,
    refuse_connection,
    unanswered,
)
from lonnymq.client.interface import BatchCalls, ChannelCalls, DeadCalls
from lonnymq.client.observers import observed
from lonnymq.client.produce import (
    Chunk,
    Enqueued,
    OnFull,
    check_many,
    chunks_of,
    raises_when_full,
)
from lonnymq.client.results import Listen, Pause, check_id, wait_for_result
from lonnymq.client.shared_listener import SharedListener, Waiter
from lonnymq.client.times import waiting
from lonnymq.client.wait import Sleep, take_or_wait
from lonnymq.commands import Created, Delivery
from lonnymq.errors import ConnectionDropped, DatabaseUnreachable, InvalidArgument
from lonnymq.install import WAIT_S
from lonnymq.message_options import DEFAULT_CHANNEL, Duration, NewMessage
from lonnymq.statement import Command

if TYPE_CHECKING:
    from lonnymq.adapters.listener import Listener
    from lonnymq.client.async_queue import AsyncQueue
    from lonnymq.client.loop_safe_queue import LoopSafeQueue
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
        self._async_sibling: LoopSafeQueue | None = None
        self._forget_connections()

    def _sibling(self) -> LoopSafeQueue | None:
        return self._async_sibling

    def _forget_connections(self) -> None:
        self._idle_listeners: list[Listener] = []
        self._result_listener = SharedListener(self._connect_listener)
        self._opening = threading.Lock()

    def _listeners(self) -> list[Listener]:
        return [*self._idle_listeners, *self._result_listener.listeners()]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close what the queue opened. A pool or engine that you passed stays open."""
        self._is_closed = True
        if self._async_sibling is not None:
            self._async_sibling.close_now()
        while self._idle_listeners:
            self._idle_listeners.pop().close()
        self._result_listener.close()
        if self._own_pool is not None:
            self._own_pool.close()

    @classmethod
    def beside(cls, queue: QueueBase, pool_size: int = 10, timeout: float = 30) -> Self:
        """Another client of the same queue, with its own connections."""
        made = cls(**queue.copy_arguments(pool_size, timeout))
        made.observers = queue.observers
        return made

    def as_sync(self) -> Queue:
        """The queue itself."""
        return self

    def as_async(self) -> AsyncQueue:
        """An AsyncQueue for the same queue, with its own connections. Any event loop may use it. It is made
        once, and closed with this queue.
        """
        check_is_open(is_closed=self._is_closed)
        with self._opening:
            if self._async_sibling is None:
                from lonnymq.client.loop_safe_queue import LoopSafeQueue

                self._async_sibling = LoopSafeQueue.beside(self)
        return self._async_sibling

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
        steps: Any = take_or_wait(request, wait_ms, is_listening=listener is not None)
        if self.observers:
            steps = observed(self.observers, self.schema, steps, ())
        try:
            taken: list[Delivery] = self._walk(steps, listener=listener)
        finally:
            self._dequeued_at = time.monotonic()
            if listener is not None:
                self._idle_listeners.append(listener)
        return taken

    def wait(self, message_id: int | None, timeout: Duration | None = None) -> Any:
        """Wait until a message has finished, and return its result: what its task returned, or None.

        The message must have been enqueued with `keep_result`. A notification wakes the waiting; one
        connection, in addition to the pool's, is shared by all threads that wait. Without a `timeout`, it
        waits for as long as it takes.

        Raises NotFinished, which is a TimeoutError, when the time is over; MessageDead or MessageCancelled if
        that is how it ended; ResultUnknown if the result is not kept.

            created = queue.enqueue({"invoice": 7}, keep_result=600)
            total = queue.wait(created.id, timeout=30)
        """
        steps = wait_for_result(check_id(message_id), None if timeout is None else waiting(timeout))
        shared = self._result_listener
        waiter: Waiter[threading.Event] | None = None

        def take_step(step: Any) -> Any:
            nonlocal waiter
            if isinstance(step, Listen):
                waiter = shared.listen(step.channel, step.key)
                return waiter is not None
            if isinstance(step, Pause):
                if waiter is not None and shared.wait(waiter, step.milliseconds / 1000):
                    return True
                if waiter is None:
                    time.sleep(step.milliseconds / 1000)
                else:
                    shared.forget(waiter)
                waiter = None
                return False
            return self._run(step)

        try:
            return walk(steps, take_step)
        finally:
            if waiter is not None:
                shared.forget(waiter)

    def enqueue_many(
        self,
        values: Iterable[Any],
        *,
        channel: str = DEFAULT_CHANNEL,
        commit_each_chunk: bool = False,
        progress: Callable[[Enqueued], object] | None = None,
        on_full: OnFull = "raise",
        batch_id: int | None = None,
        conn: object | None = None,
    ) -> Enqueued:
        """Enqueue the messages of an iterable, with one chunk of them in memory at a time.

        Each is a payload for `channel`, as in enqueue, or a NewMessage with options, which goes to `channel`
        unless it names another one. All are created in one transaction. With `commit_each_chunk`, each chunk
        is committed, so that earlier chunks stay after an error. `progress` is called after each chunk with
        what was enqueued so far.

        Raises ChannelFull if a message does not fit into its channel, and creates nothing. You must then roll
        back your own transaction, as after other errors of the database. With `on_full="return"` such
        messages are left out, and counted as `full`. With a `batch_id`, the messages belong to that batch,
        unless they name another one.

            queue.enqueue_many(({"row": n} for n in range(1_000_000)), channel="import")
        """
        if conn is not None and commit_each_chunk:
            raise InvalidArgument("commit_each_chunk and conn are both given", "leave out one of them")
        check_many(values, "values")
        chunks = chunks_of(values, channel, batch_id, raise_full=raises_when_full(on_full))
        if conn is not None:
            return self._load(chunks, progress, lambda chunk: partial(self._create, chunk, conn))
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

    @contextmanager
    def batch(
        self,
        name: str,
        *,
        on_complete: NewMessage | None = None,
        on_failure: NewMessage | None = None,
        conn: object | None = None,
    ) -> Iterator[Batch]:
        """Open a batch, fill it in the block, and close it at the end: all in one transaction, which is
        rolled back if the block raises.

        Only what is enqueued through the batch belongs to it: `batch.enqueue`, `batch.enqueue_many`, or
        `task.using(batch=batch)`. When the last of its messages is finished (completed, dead, cancelled or
        discarded), the `on_complete` message is enqueued in the same transaction. When the first of them
        dies, `on_failure` is. Each is enqueued once. It finds the batch and its counts in `Job.batch`.

        With `conn`, the batch is part of your own transaction. To fill a batch in several transactions, use
        `open_batch`.

            with queue.batch("nightly import", on_complete=report.message()) as batch:
                batch.enqueue_many(import_row.message(row) for row in rows)
        """
        if conn is not None:
            batch_id = self.open_batch(name, on_complete=on_complete, on_failure=on_failure, conn=conn)
            block = BatchBlock(name, conn)
            try:
                yield Batch(self, batch_id, name, block)
            finally:
                block.end()
            self.close_batch(batch_id, conn=conn)
            return
        is_closed = False
        try:
            with drivers.transaction(self._opened()) as own:
                with self.batch(name, on_complete=on_complete, on_failure=on_failure, conn=own) as batch:
                    yield batch
                is_closed = True
        except ConnectionDropped as error:
            if is_closed:  # the commit was under way
                raise outcome_unknown("batch") from error
            raise

    def install(self, *, roles: bool = False, wait: float = WAIT_S, conn: object | None = None) -> Installed:
        """Install the queue into its schema, or upgrade it: see lonnymq.install."""
        from lonnymq.adapters.installer import install_on

        source = conn if conn is not None else self._opened()
        return install_on(source, self.schema, roles=roles, wait=wait)

    def perform(self, request: Request[Answer]) -> Answer:
        steps: Any = request.steps
        if self.observers:
            steps = observed(self.observers, self.schema, steps, request.messages)
        answer: Answer = self._walk(steps, conn=request.conn)
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
        chunks: Iterable[Chunk],
        progress: Callable[[Enqueued], object] | None,
        send: Callable[[Chunk], Callable[[], list[Created]]],
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
    ) -> Callable[[Chunk], Callable[[], list[Created]]]:
        context = copy_context()  # the thread, too, sees what the caller has set, such as a span
        return lambda chunk: sender.submit(context.run, self._create, chunk, conn).result

    def _create(self, chunk: Chunk, conn: object | None) -> list[Created]:
        return self.perform(Request(chunk.steps(), conn))

    def _opened(self) -> object:
        check_is_open(is_closed=self._is_closed)
        if self._inherited is not None:
            self._check_not_inherited()
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
        while self._idle_listeners:
            listener = self._idle_listeners.pop()
            if not listener.is_broken:
                return listener
            listener.close()
        return self._connect_listener(self.settings().notify_channel)

    def _connect_listener(self, channel: str) -> Listener | None:
        """A new listener; None if the queue cannot listen, or there is no connection at the moment."""
        if self._listen_to is None:
            return None
        from lonnymq.adapters.listener import Listener, NoListening

        try:
            return Listener.connect(self._listen_to, channel)
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


class Batch(BatchCalls, Caller):
    """A batch that is being filled. Pass its `id` as `batch_id`, and its `conn`, to calls that it does not
    have.
    """

    def __init__(self, queue: Queue, batch_id: int, name: str, block: BatchBlock) -> None:
        self._queue = queue
        self.id = batch_id
        self.name = name
        self._block = block

    @property
    def conn(self) -> object:
        """The connection of the block's transaction. Raises BatchNotOpen after the block, and UsedAfterFork
        in a child process.
        """
        return self._block.conn

    def enqueue_many(
        self,
        values: Iterable[Any],
        *,
        channel: str = DEFAULT_CHANNEL,
        progress: Callable[[Enqueued], object] | None = None,
        on_full: OnFull = "raise",
    ) -> Enqueued:
        """As Queue.enqueue_many, in the batch."""
        return self._queue.enqueue_many(
            values, channel=channel, progress=progress, on_full=on_full, batch_id=self.id, conn=self.conn
        )

    def perform(self, request: Request[Answer]) -> Answer:
        return self._queue.perform(request)


class Dead(DeadCalls, Caller):
    """The dead letters of a queue."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def perform(self, request: Request[Answer]) -> Answer:
        return self._queue.perform(request)
