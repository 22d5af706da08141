"""A pytest plugin: taskiq's tests use a LonnyMQ broker and result backend wherever they use one in memory.

taskiq's suite has two brokers for tests. InMemoryBroker runs a task when it is kicked, in the same process,
and AsyncQueueBroker is listened to. Here, both send their tasks through a queue in PostgreSQL, each on a lane
of its own, and receive them from there. The result backend of the first one is LonnyMQResultBackend.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any

import taskiq
import taskiq.brokers.inmemory_broker
from taskiq.abc.middleware import TaskiqMiddleware
from taskiq.events import TaskiqEvents
from taskiq.exceptions import UnknownTaskError
from taskiq.message import BrokerMessage
from taskiq.receiver import Receiver
from taskiq.serializers import PickleSerializer
from taskiq.utils import maybe_awaitable

from lonnymq.client.loop_safe_queue import LoopSafeQueue
from lonnymq.taskiq import LonnyMQBroker, LonnyMQResultBackend
from tests import utils

DSN = os.environ["LONNYMQ_SUITE_DSN"]
# One for all tests, each of which has an event loop of its own. So it cannot listen: that needs one loop.
queue = LoopSafeQueue(DSN, listen=False)


class BrokerThatRuns(LonnyMQBroker):
    """In place of InMemoryBroker, with its options: runs what it sends."""

    def __init__(
        self,
        sync_tasks_pool_size: int = 4,
        max_stored_results: int = 100,  # noqa: ARG002 - as taskiq's has it
        cast_types: bool = True,  # noqa: FBT001, FBT002
        max_async_tasks: int = 30,
        max_async_tasks_jitter: int = 0,
        propagate_exceptions: bool = True,  # noqa: FBT001, FBT002
        await_inplace: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        super().__init__(queue, lane=uuid.uuid4().hex)
        self.result_backend: LonnyMQResultBackend[Any] = LonnyMQResultBackend(
            self, serializer=PickleSerializer()
        )
        self.executor = ThreadPoolExecutor(sync_tasks_pool_size)
        self.receiver = Receiver(
            broker=self,
            executor=self.executor,
            validate_params=cast_types,
            max_async_tasks=max_async_tasks,
            max_async_tasks_jitter=max_async_tasks_jitter,
            propagate_exceptions=propagate_exceptions,
        )
        self.await_inplace = await_inplace
        self._running_tasks: set[asyncio.Task[None]] = set()

    async def kick(self, message: BrokerMessage) -> None:
        if self.find_task(message.task_name) is None:
            raise UnknownTaskError(task_name=message.task_name)
        labels = {name: value for name, value in message.labels.items() if name != "delay"}  # as in memory
        await super().kick(message.model_copy(update={"labels": labels}))
        running = asyncio.create_task(self._run_one())
        self._running_tasks.add(running)
        running.add_done_callback(self._running_tasks.discard)
        if self.await_inplace:
            await running

    async def _run_one(self) -> None:
        async with aclosing(super().listen()) as messages:
            message = await anext(messages)
        await self.receiver.callback(message)

    async def wait_all(self) -> None:
        for task in list(self._running_tasks):
            await task

    async def startup(self) -> None:
        await self._tell("startup", TaskiqEvents.CLIENT_STARTUP, TaskiqEvents.WORKER_STARTUP)
        await self.result_backend.startup()

    async def shutdown(self) -> None:
        await self._tell("shutdown", TaskiqEvents.CLIENT_SHUTDOWN, TaskiqEvents.WORKER_SHUTDOWN)
        if self._consumer is not None:
            await self._consumer.stop()
        await self.result_backend.shutdown()
        self.executor.shutdown()

    async def _tell(self, method: str, *events: TaskiqEvents) -> None:
        """It is client and worker at once."""
        for event in events:
            for handler in self.event_handlers.get(event, []):
                await maybe_awaitable(handler(self.state))
        for middleware in self.middlewares:
            if getattr(type(middleware), method) != getattr(TaskiqMiddleware, method):
                await maybe_awaitable(getattr(middleware, method)())


class SentMessages:
    """In place of AsyncQueueBroker's asyncio.Queue, which tests read themselves."""

    def __init__(self, broker: BrokerToListenTo) -> None:
        self._broker = broker

    async def get(self) -> bytes:
        async with aclosing(self._broker.listen()) as messages:
            message = await anext(messages)
        await message.ack()
        return message.data


class BrokerToListenTo(LonnyMQBroker):
    """In place of AsyncQueueBroker."""

    def __init__(self) -> None:
        super().__init__(DSN, channel=f"test-{uuid.uuid4().hex}", lane=uuid.uuid4().hex)

    @property
    def queue(self) -> Any:  # noqa: ANN401 - not an AsyncQueue
        return SentMessages(self)

    async def wait_tasks(self) -> None:
        """Wait until all tasks have been acknowledged."""
        while True:
            stats = await self._source.get().channel(str(self._channel)).stats()
            if not stats.waiting and not stats.leased:
                return
            await asyncio.sleep(0.01)


taskiq.InMemoryBroker = BrokerThatRuns  # type: ignore[assignment,misc]
taskiq.brokers.inmemory_broker.InMemoryBroker = BrokerThatRuns  # type: ignore[assignment,misc]
utils.AsyncQueueBroker = BrokerToListenTo
