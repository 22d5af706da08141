"""AsyncQueue. It differs from Queue by `await` alone; base.py and the calls are shared."""

from __future__ import annotations

import asyncio
import threading
import time
from asyncio import AbstractEventLoop
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from lonnymq.adapters import drivers
from lonnymq.client.base import QueueBase
from lonnymq.client.batch_block import BatchBlock
from lonnymq.client.calls import Answer, AsyncCaller, Pair, Request, walk_async
from lonnymq.client.connection_errors import (
    TRIES,
    check_is_open,
    outcome_unknown,
    refuse_connection,
    unanswered,
)
from lonnymq.client.consume import DequeueRequest
from lonnymq.client.interface import BatchCalls, ChannelCalls, DeadCalls
from lonnymq.client.interruptible_sleep import InterruptibleSleep, ListenerLost, SleepInterrupted
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
from lonnymq.client.shared_listener import AsyncSharedListener, Waiter
from lonnymq.client.times import waiting
from lonnymq.client.wait import Sleep, take_or_wait
from lonnymq.commands import Created, Delivery
from lonnymq.errors import ConnectionDropped, DatabaseUnreachable, InvalidArgument
from lonnymq.install import WAIT_S
from lonnymq.message_options import DEFAULT_CHANNEL, Duration, NewMessage
from lonnymq.statement import Command

if TYPE_CHECKING:
    from lonnymq.adapters.listener import AsyncListener
    from lonnymq.client.queue import Queue
    from lonnymq.install import Installed


LISTEN_AGAIN_MS = 30_000  # after so long without a listener, try to have one


class AsyncQueue(QueueBase, AsyncCaller):
    """A queue in a schema of a database, on a DSN, a pool of psycopg or asyncpg, or an engine of SQLAlchemy.

    ```python
    async with AsyncQueue("postgresql://localhost/shop") as queue:
        await queue.enqueue({"invoice": 7}, channel="acme")
    ```
    """

    _is_async = True

    def _set_up(self) -> None:
        self.dead = AsyncDead(self)
        self._sync_sibling: Queue | None = None
        self._forget_connections()

    def _sibling(self) -> Queue | None:
        return self._sync_sibling

    def _forget_connections(self) -> None:
        self._idle_listeners: list[AsyncListener] = []
        self._result_listeners: WeakKeyDictionary[AbstractEventLoop, AsyncSharedListener] = (
            WeakKeyDictionary()
        )
        self._opening = asyncio.Lock()
        self._making_sibling = threading.Lock()

    def _listeners(self) -> list[AsyncListener]:
        shared = [each for one in self._result_listeners.values() for each in one.listeners()]
        return [*self._idle_listeners, *shared]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close what the queue opened. A pool or engine that you passed stays open."""
        self._is_closed = True
        if self._sync_sibling is not None:
            await asyncio.to_thread(self._sync_sibling.close)
        while self._idle_listeners:
            await self._idle_listeners.pop().close()
        for shared in self._result_listeners.values():
            shared.close_now()
        if self._own_pool is not None:
            await self._own_pool.close()

    @classmethod
    def beside(cls, queue: QueueBase, pool_size: int = 10, timeout: float = 30) -> Self:
        """Another client of the same queue, with its own connections."""
        made = cls(**queue.copy_arguments(pool_size, timeout))
        made.observers = queue.observers
        return made

    def as_async(self) -> AsyncQueue:
        """The queue itself."""
        return self

    def as_sync(self) -> Queue:
        """A Queue for the same queue, with its own connections. It is made once, and closed with this
        queue. Its calls block: in an event loop, use this queue.
        """
        check_is_open(is_closed=self._is_closed)
        with self._making_sibling:
            if self._sync_sibling is None:
                from lonnymq.client.queue import Queue

                self._sync_sibling = Queue.beside(self)
        return self._sync_sibling

    def channel(self, name: str) -> AsyncChannel:
        """The channel with this name. It need not exist yet."""
        return AsyncChannel(self, name)

    async def dequeue(
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

            for message in await queue.dequeue(10, wait=5):
                await handle(message.payload)
                await queue.complete(message)
        """
        refuse_connection(conn)
        return await self._dequeue(self._request(limit, lease, consumer, lanes), waiting(wait), None)

    async def dequeue_until(
        self,
        stop: asyncio.Event,
        limit: int = 1,
        *,
        lease: Duration | None = None,
        consumer: str | None = None,
        lanes: Iterable[str] | None = None,
    ) -> list[Delivery]:
        """Like dequeue, but wait until there are messages, or until `stop` is set: then return none.

        Cancelling a dequeue can lose what it has just leased. Setting `stop` only ends its sleep.

            while messages := await queue.dequeue_until(stop, 10):
                await handle(messages)
        """
        request = self._request(limit, lease, consumer, lanes)
        while not stop.is_set():
            try:
                if taken := await self._dequeue(request, None, stop):
                    return taken
            except ListenerLost:
                continue
            except SleepInterrupted:
                break
        return []

    async def wait(self, message_id: int | None, timeout: Duration | None = None) -> Any:  # noqa: ASYNC109
        """Wait until a message has finished, and return its result: what its task returned, or None.

        The message must have been enqueued with `keep_result`. A notification wakes the waiting; one
        connection, in addition to the pool's, is shared by all that wait. Without a `timeout`, it waits for
        as long as it takes.

        Raises NotFinished, which is a TimeoutError, when the time is over; MessageDead or MessageCancelled if
        that is how it ended; ResultUnknown if the result is not kept.

            created = await queue.enqueue({"invoice": 7}, keep_result=600)
            total = await queue.wait(created.id, timeout=30)
        """
        steps = wait_for_result(check_id(message_id), None if timeout is None else waiting(timeout))
        shared = self._result_listeners.setdefault(
            asyncio.get_running_loop(), AsyncSharedListener(self._connect_listener)
        )
        waiter: Waiter[asyncio.Event] | None = None

        async def take_step(step: Any) -> Any:
            nonlocal waiter
            if isinstance(step, Listen):
                waiter = await shared.listen(step.channel, step.key)
                return waiter is not None
            if isinstance(step, Pause):
                if waiter is not None and await shared.wait(waiter, step.milliseconds / 1000):
                    return True
                if waiter is None:
                    await asyncio.sleep(step.milliseconds / 1000)
                else:
                    shared.forget(waiter)
                waiter = None
                return False
            return await self._run(step)

        try:
            return await walk_async(steps, take_step)
        finally:
            if waiter is not None:
                shared.forget(waiter)

    async def enqueue_many(
        self,
        values: Iterable[Any] | AsyncIterable[Any],
        *,
        channel: str = DEFAULT_CHANNEL,
        commit_each_chunk: bool = False,
        progress: Callable[[Enqueued], object] | None = None,
        on_full: OnFull = "raise",
        batch_id: int | None = None,
        conn: object | None = None,
    ) -> Enqueued:
        """Enqueue the messages of an iterable or async iterable, with one chunk of them in memory at a time.

        Each is a payload for `channel`, as in enqueue, or a NewMessage with options, which goes to `channel`
        unless it names another one. All are created in one transaction. With `commit_each_chunk`, each chunk
        is committed, so that earlier chunks stay after an error. `progress` is called after each chunk with
        what was enqueued so far.

        Raises ChannelFull if a message does not fit into its channel, and creates nothing. You must then roll
        back your own transaction, as after other errors of the database. With `on_full="return"` such
        messages are left out, and counted as `full`. With a `batch_id`, the messages belong to that batch,
        unless they name another one.

            await queue.enqueue_many(({"row": n} for n in range(1_000_000)), channel="import")
        """
        if conn is not None and commit_each_chunk:
            raise InvalidArgument("commit_each_chunk and conn are both given", "leave out one of them")
        if not isinstance(values, AsyncIterable):
            check_many(values, "values")
        chunks = _chunks_of(values, channel, batch_id, raise_full=raises_when_full(on_full))
        if conn is not None or commit_each_chunk:
            return await self._load(chunks, progress, conn, is_in_turn=conn is not None)
        is_loaded = False
        try:
            async with drivers.transaction_async(await self._opened()) as own:
                done = await self._load(chunks, progress, own)
                is_loaded = True
        except ConnectionDropped as error:
            if is_loaded:  # the commit was under way
                raise outcome_unknown("enqueue_many") from error
            raise
        return done

    @asynccontextmanager
    async def batch(
        self,
        name: str,
        *,
        on_complete: NewMessage | None = None,
        on_failure: NewMessage | None = None,
        conn: object | None = None,
    ) -> AsyncIterator[AsyncBatch]:
        """Open a batch, fill it in the block, and close it at the end: all in one transaction, which is
        rolled back if the block raises.

        Only what is enqueued through the batch belongs to it: `batch.enqueue`, `batch.enqueue_many`, or
        `task.using(batch=batch)`. When the last of its messages is finished (completed, dead, cancelled or
        discarded), the `on_complete` message is enqueued in the same transaction. When the first of them
        dies, `on_failure` is. Each is enqueued once. It finds the batch and its counts in `Job.batch`.

        With `conn`, the batch is part of your own transaction. To fill a batch in several transactions, use
        `open_batch`.

            async with queue.batch("nightly import", on_complete=report.message()) as batch:
                await batch.enqueue_many(import_row.message(row) for row in rows)
        """
        if conn is not None:
            batch_id = await self.open_batch(name, on_complete=on_complete, on_failure=on_failure, conn=conn)
            block = BatchBlock(name, conn)
            try:
                yield AsyncBatch(self, batch_id, name, block)
            finally:
                block.end()
            await self.close_batch(batch_id, conn=conn)
            return
        is_closed = False
        try:
            async with drivers.transaction_async(await self._opened()) as own:
                async with self.batch(
                    name, on_complete=on_complete, on_failure=on_failure, conn=own
                ) as batch:
                    yield batch
                is_closed = True
        except ConnectionDropped as error:
            if is_closed:  # the commit was under way
                raise outcome_unknown("batch") from error
            raise

    async def _dequeue(
        self, request: DequeueRequest, wait_ms: int | None, stop: asyncio.Event | None
    ) -> list[Delivery]:
        listener = await self._listener() if wait_ms != 0 else None
        if wait_ms is None and listener is None and self._listen_to is not None:
            wait_ms = LISTEN_AGAIN_MS
        steps: Any = take_or_wait(request, wait_ms, is_listening=listener is not None)
        if self.observers:
            steps = observed(self.observers, self.schema, steps, ())
        try:
            taken: list[Delivery] = await self._walk(steps, sleeping=InterruptibleSleep(listener, stop))
        finally:
            self._dequeued_at = time.monotonic()
            if listener is not None:
                self._idle_listeners.append(listener)
        return taken

    async def install(
        self, *, roles: bool = False, wait: float = WAIT_S, conn: object | None = None
    ) -> Installed:
        """Install the queue into its schema, or upgrade it: see lonnymq.install."""
        from lonnymq.adapters.installer import install_on_async

        return await install_on_async(
            conn if conn is not None else await self._opened(), self.schema, roles=roles, wait=wait
        )

    async def perform(self, request: Request[Answer]) -> Answer:
        steps: Any = request.steps
        if self.observers:
            steps = observed(self.observers, self.schema, steps, request.messages)
        answer: Answer = await self._walk(steps, conn=request.conn)
        return answer

    async def _walk(
        self, steps: Any, *, conn: object | None = None, sleeping: InterruptibleSleep | None = None
    ) -> Any:
        return await walk_async(steps, lambda step: self._take_step(step, conn, sleeping))

    async def _take_step(
        self, step: Command[Any] | Pair[Any] | Sleep, conn: object | None, sleeping: InterruptibleSleep | None
    ) -> Any:
        if isinstance(step, Sleep):
            return await (sleeping or InterruptibleSleep()).sleep(step.milliseconds / 1000)
        if isinstance(step, Pair):
            return await self._run_pair(step)
        if conn is None:
            return await self._run(step)
        drivers.check_has_transaction(conn)
        return await drivers.run_async(conn, self.schema, step)

    async def _run_pair(self, pair: Pair[Answer]) -> Answer:
        try:
            return await drivers.run_pair_async(await self._opened(), self.schema, pair.first, pair.second)
        except ConnectionDropped:
            await self._run(pair.first)
            return await self._run(pair.second)

    async def _run(self, command: Command[Answer]) -> Answer:
        """Run a command on a connection of the queue. If the connection breaks, repeat it if that is safe."""
        broken = None
        for _ in range(TRIES):
            try:
                answer = await drivers.run_async(await self._opened(), self.schema, command)
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

    async def _load(
        self,
        chunks: AsyncIterable[Chunk],
        progress: Callable[[Enqueued], object] | None,
        conn: object | None,
        *,
        is_in_turn: bool = False,
    ) -> Enqueued:
        """Prepare each chunk while the one before is sent, unless both may use the same connection. Count
        what was sent, even after an error.
        """
        so_far = Enqueued()
        answer: asyncio.Task[list[Created]] | None = None
        try:
            async for chunk in chunks:
                if answer is not None:
                    created, answer = await answer, None
                    so_far = so_far.plus(created, progress)
                answer = asyncio.create_task(self._create(chunk, conn))
                await (asyncio.wait([answer]) if is_in_turn else asyncio.sleep(0))  # so that it is sent
        finally:
            if answer is not None:
                so_far = so_far.plus(await answer, progress)
        return so_far

    async def _create(self, chunk: Chunk, conn: object | None) -> list[Created]:
        return await self.perform(Request(chunk.steps(), conn))

    async def _opened(self) -> object:
        check_is_open(is_closed=self._is_closed)
        if self._inherited is not None:
            self._check_not_inherited()
        if not self._is_open:
            from lonnymq.adapters.psycopg_pool import open_async_pool

            async with self._opening:
                if not self._is_open:
                    await open_async_pool(self._own_pool)
                    self._is_open = True
        return self._source

    async def _listener(self) -> AsyncListener | None:
        """A listener for this call alone; None if the queue cannot listen."""
        if self._listen_to is None:
            return None
        while self._idle_listeners:
            listener = self._idle_listeners.pop()
            if not listener.is_broken:
                return listener
            await listener.close()
        return await self._connect_listener((await self.settings()).notify_channel)

    async def _connect_listener(self, channel: str) -> AsyncListener | None:
        """A new listener; None if the queue cannot listen, or there is no connection at the moment."""
        if self._listen_to is None:
            return None
        from lonnymq.adapters.listener import AsyncListener, NoListening

        try:
            return await AsyncListener.connect(self._listen_to, channel)
        except NoListening:
            self._listen_to = None
            return None


class AsyncChannel(ChannelCalls, AsyncCaller):
    """One channel of a queue."""

    def __init__(self, queue: AsyncQueue, name: str) -> None:
        self._queue = queue
        self.name = name

    async def perform(self, request: Request[Answer]) -> Answer:
        return await self._queue.perform(request)


class AsyncBatch(BatchCalls, AsyncCaller):
    """A batch that is being filled. Pass its `id` as `batch_id`, and its `conn`, to calls that it does not
    have.
    """

    def __init__(self, queue: AsyncQueue, batch_id: int, name: str, block: BatchBlock) -> None:
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

    async def enqueue_many(
        self,
        values: Iterable[Any] | AsyncIterable[Any],
        *,
        channel: str = DEFAULT_CHANNEL,
        progress: Callable[[Enqueued], object] | None = None,
        on_full: OnFull = "raise",
    ) -> Enqueued:
        """As AsyncQueue.enqueue_many, in the batch."""
        return await self._queue.enqueue_many(
            values, channel=channel, progress=progress, on_full=on_full, batch_id=self.id, conn=self.conn
        )

    async def perform(self, request: Request[Answer]) -> Answer:
        return await self._queue.perform(request)


class AsyncDead(DeadCalls, AsyncCaller):
    """The dead letters of a queue."""

    def __init__(self, queue: AsyncQueue) -> None:
        self._queue = queue

    async def perform(self, request: Request[Answer]) -> Answer:
        return await self._queue.perform(request)


async def _chunks_of(
    values: Iterable[Any] | AsyncIterable[Any], channel: str, batch_id: int | None, *, raise_full: bool
) -> AsyncIterator[Chunk]:
    if not isinstance(values, AsyncIterable):
        for chunk in chunks_of(values, channel, batch_id, raise_full=raise_full):
            yield chunk
        return
    chunk = Chunk(channel, batch_id, raise_full=raise_full)
    async for value in values:
        if chunk.add(value):
            yield chunk
            chunk = Chunk(channel, batch_id, raise_full=raise_full)
    if len(chunk):
        yield chunk
