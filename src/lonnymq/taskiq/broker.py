"""The broker: kicks tasks into the queue, and gives leased messages to taskiq's receiver."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from taskiq import AckableMessage, AsyncBroker, BrokerMessage, TaskiqMessage

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.consume import check_limit
from lonnymq.client.produce import TASK_HEADER, check_work_options
from lonnymq.client.times import milliseconds
from lonnymq.commands import Delivery, Result
from lonnymq.errors import InvalidArgument, InvalidLease, SchemaError
from lonnymq.message_options import DEFAULT_CHANNEL, Duration
from lonnymq.taskiq.consumer import Consumer, ConsumerSettings, log
from lonnymq.taskiq.labels import channel_of, options_of
from lonnymq.taskiq.queue_source import QueueSource, Source
from lonnymq.taskiq.run_middleware import RunMiddleware
from lonnymq.taskiq.task_message import SCHEDULE_HEADER, TASK_ID_HEADER
from lonnymq.worker.worker_settings import UNKNOWN_TASK_TIMEOUT_S, consumer_name, lanes_to_serve

SCHEMA_AGAIN_S = 2.0

ChannelOf = Callable[[BrokerMessage], str]


class LonnyMQBroker(AsyncBroker):
    """A taskiq broker on a queue, given by a DSN, a Queue or an AsyncQueue.

    Each task goes to the channel that its label `channel` names, else to `channel`: a name, or a function of
    the message; and to the lane that its label `lane` names, else to `lane`. Its other labels may be
    `priority`, `cost`, `delay` (seconds), `run_at`, `dedupe_key`, `unique_while`, `unique_for` and
    `max_attempts`, as in Queue.enqueue.

    A worker serves the channels in turn: all lanes, or those of `lanes`, which is `lane` unless given. It
    leases `batch` messages at a time, for the duration of the `lease` (the queue's setting, unless given),
    and extends their leases until they are acknowledged. If the worker dies, another one gets them when their
    leases end.

    A task that raised, and that nothing retries, becomes a dead letter; with `dead_letters=False` its message
    is completed. A message whose task is not known here is rejected, so that another worker gets it. It
    becomes a dead letter when no worker has known it for `unknown_task_timeout`; None: never.
    """

    def __init__(
        self,
        queue: Source,
        schema: str | None = None,
        *,
        channel: str | ChannelOf = DEFAULT_CHANNEL,
        lane: str | None = None,
        lanes: list[str] | None = None,
        lease: Duration | None = None,
        batch: int = 1,
        dead_letters: bool = True,
        unknown_task_timeout: Duration | None = UNKNOWN_TASK_TIMEOUT_S,
        name: str | None = None,
    ) -> None:
        super().__init__()
        check_limit(batch)
        if lease is not None and milliseconds(lease) <= 0:
            raise InvalidLease(f"lease: {lease!r} is not a positive duration", "give more than 0 seconds")
        if not isinstance(channel, str) and not callable(channel):
            raise InvalidArgument(f"channel: {channel!r} is not a name", "give a name, or a function")
        self._source = QueueSource(queue, schema)
        self._channel = channel
        check_work_options({"lane": lane})
        self._lane = lane
        self._lanes = lanes_to_serve([lane] if lanes is None and lane is not None else lanes)
        self._lease_s = None if lease is None else milliseconds(lease) / 1000
        self._batch = batch
        self._dead_letters = dead_letters
        self._unknown_task_timeout_s = (
            None if unknown_task_timeout is None else milliseconds(unknown_task_timeout) / 1000
        )
        self._name = name
        self._conn: ContextVar[object | None] = ContextVar("lonnymq_taskiq_conn", default=None)
        self._consumer: Consumer | None = None
        self._runs = RunMiddleware()
        self.add_middlewares(self._runs)

    @property
    def queue(self) -> AsyncQueue:
        """The queue. If the broker was made with a DSN, it is closed by `shutdown`."""
        return self._source.get()

    @contextmanager
    def transaction(self, conn: object) -> Iterator[None]:
        """Tasks that are kicked in the block are part of your transaction: they exist once it commits. `conn`
        is an asynchronous connection or session, as `conn=` of AsyncQueue.enqueue.

            async with engine.begin() as conn:
                await conn.execute(insert(invoice).values(id=7))
                with broker.transaction(conn):
                    await send_invoice.kiq(7)
        """
        token = self._conn.set(conn)
        try:
            yield
        finally:
            self._conn.reset(token)

    async def kick(self, message: BrokerMessage) -> None:
        """Enqueue a task. If a message holds its dedupe key, none is created."""
        channel = channel_of(message.labels)
        if channel is None:
            channel = self._channel if isinstance(self._channel, str) else self._channel(message)
        options = options_of(message.labels)
        options.setdefault("lane", self._lane)
        options["headers"] = {TASK_HEADER: message.task_name, TASK_ID_HEADER: message.task_id}
        created = await self._source.get().enqueue(
            message.message, channel=channel, conn=self._conn.get(), **options
        )
        if created.result == Result.DUPLICATE:
            log.info(
                "task %s with id %s was not sent: message %d has its dedupe key",
                *(message.task_name, message.task_id, created.id),
            )

    async def startup(self) -> None:
        """Begin to serve, if this is a worker; tell event handlers, middlewares and the result backend."""
        if self.is_worker_process:
            with suppress(SchemaError):  # `listen` says so, and waits
                await self._started()
        await super().startup()

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        """The messages for this worker, each leased until it is acknowledged."""
        messages = (await self._started_with_schema()).listen()
        try:
            async for message in messages:
                yield message
        finally:
            await messages.aclose()

    async def shutdown(self) -> None:
        """Release what is not acknowledged, and close the connections. `startup` opens new ones."""
        if self._consumer is not None:
            stopping, self._consumer = self._consumer, None
            await stopping.stop()
            self._runs.consumer = None
        await super().shutdown()
        await self._source.close()

    async def _started_with_schema(self) -> Consumer:
        """Wait until the schema is installed and fits: taskiq would start a process that ends here again and
        again.
        """
        is_reported = False
        while True:
            try:
                return await self._started()
            except SchemaError as error:
                if not is_reported:
                    log.error("waiting, because the worker cannot start: %s", error)
                is_reported = True
            await asyncio.sleep(SCHEMA_AGAIN_S)

    async def _started(self) -> Consumer:
        if self._consumer is None:
            settings = ConsumerSettings(
                consumer_name(self._name),
                self._lanes,
                self._lease_s,
                self._batch,
                self._dead_letters,
                self._unknown_task_timeout_s,
                is_known=lambda task: self.find_task(task) is not None,
                read=self._read,
                is_readable=self._is_readable,
            )
            consumer = Consumer(self._source.get(), settings, self.get_all_tasks())
            await consumer.start()
            self._consumer = self._runs.consumer = consumer
        return self._consumer

    def _read(self, message: Delivery) -> tuple[str, bytes] | None:
        headers = message.headers or {}
        if TASK_ID_HEADER in headers:
            return str(headers[TASK_ID_HEADER]), message.content
        if SCHEDULE_HEADER in headers:
            return self._run_by_hand(message, str(headers[SCHEDULE_HEADER]))
        return None

    def _is_readable(self, data: bytes) -> bool:
        try:
            self.formatter.loads(data).parse_labels()
        except Exception:  # noqa: BLE001 - whatever a formatter raises
            return False
        return True

    def _run_by_hand(self, message: Delivery, schedule_id: str) -> tuple[str, bytes]:
        """What `lonnymq schedules run` enqueues is the schedule itself."""
        found: dict[str, Any] = json.loads(message.content)
        labels = {**found["labels"], "schedule_id": schedule_id}
        run = TaskiqMessage(
            task_id=f"{schedule_id}-{message.id}",
            task_name=found["task_name"],
            labels=labels,
            args=found["args"],
            kwargs=found["kwargs"],
        )
        return run.task_id, self.formatter.dumps(run).message
