"""Results and progress of tasks. The queue keeps both under the id of the task, for a time."""

from __future__ import annotations

import hashlib
import logging
from typing import Any, TypeVar

from pydantic_core import PydanticSerializationError
from taskiq import AsyncResultBackend, TaskiqResult
from taskiq.abc.serializer import TaskiqSerializer
from taskiq.depends.progress_tracker import TaskProgress
from taskiq.serializers.json_serializer import JSONSerializer

from lonnymq.client.calls import ask
from lonnymq.client.times import waiting
from lonnymq.commands import ResultLoad, ResultSave, SavedResult
from lonnymq.errors import InvalidArgument, NotEncodable, ResultUnknown
from lonnymq.message_options import Duration
from lonnymq.taskiq.queue_source import QueueSource, Source, retried
from lonnymq.taskiq.task_message import CURRENT
from lonnymq.worker.stop_reason import StopReason

log = logging.getLogger("lonnymq.taskiq")

Value = TypeVar("Value")

DAY_S = 86_400
RESULT, PROGRESS = "taskiq/", "taskiq-progress/"
NAME_MAX_BYTES = 200


class LonnyMQResultBackend(AsyncResultBackend[Value]):
    """Keeps the results of tasks in a queue, given by a DSN, a Queue, an AsyncQueue or a LonnyMQBroker, whose
    connections are then shared.

    A result is kept for `keep_result` (a day, unless given), written with `serializer` (JSON, unless given).
    If a result cannot be written, for example because it is too large, an error takes its place.
    """

    def __init__(
        self,
        queue: Source,
        schema: str | None = None,
        *,
        keep_result: Duration = DAY_S,
        serializer: TaskiqSerializer | None = None,
    ) -> None:
        self._source = QueueSource(queue, schema)
        self._keep_ms = waiting(keep_result)
        if self._keep_ms == 0:
            raise InvalidArgument(f"keep_result: {keep_result!r} keeps nothing", "give more than 0 seconds")
        self._serializer = JSONSerializer() if serializer is None else serializer
        self._mode = "json" if isinstance(self._serializer, JSONSerializer) else "python"

    async def shutdown(self) -> None:
        """Close the connections, unless they belong to a queue or a broker."""
        await self._source.close()

    async def set_result(self, task_id: str, result: TaskiqResult[Value]) -> None:
        """Save the result. taskiq completes the message even if this fails, so it is tried again while the
        database is unavailable. If the message's lease is lost, another worker runs the task, and its result
        counts.
        """
        running = CURRENT.get()
        if running is not None and running.stop_reason is StopReason.LEASE_LOST:
            log.warning("the result of task %s is not saved: its lease is lost", task_id)
            return
        try:
            await self._save(_name(RESULT, task_id), result)
        except (InvalidArgument, NotEncodable) as error:
            log.error("the result of task %s cannot be saved: %s", task_id, error)  # noqa: TRY400 - no traceback
            result.error, result.is_err = error, True
            if running is not None:
                running.result = result
            failed = TaskiqResult[Any](
                is_err=True,
                return_value=None,
                execution_time=result.execution_time,
                error=NotEncodable(f"the result cannot be saved: {error}"),
            )
            await self._save(_name(RESULT, task_id), failed)

    async def is_result_ready(self, task_id: str) -> bool:
        """Whether the result is saved, and still kept."""
        return await self._load(_name(RESULT, task_id), with_content=False) is not None

    async def get_result(self, task_id: str, with_logs: bool = False) -> TaskiqResult[Value]:  # noqa: FBT001, FBT002 - as taskiq has it
        """The result. Raises ResultUnknown if there is none, or it is not kept any more."""
        found = await self._load(_name(RESULT, task_id))
        if found is None:
            raise ResultUnknown(
                f"there is no result of task {task_id!r}, or it is not kept any more",
                "wait until is_result_ready(), or give a longer keep_result=",
            )
        read: TaskiqResult[Value] = TaskiqResult.model_validate(self._read(found))
        if not with_logs:
            read.log = None
        return read

    async def set_progress(self, task_id: str, progress: TaskProgress[Any]) -> None:
        """Save the progress. If its `meta` is a number from 0 to 1, it is the message's progress as well,
        with the state as its note.
        """
        running = CURRENT.get()
        if running is not None and running.task_id == task_id and running.outcome is None:
            meta = progress.meta
            if isinstance(meta, int | float) and 0 <= meta <= 1:
                state = getattr(progress.state, "value", progress.state)
                running.reports.report(running, float(meta), str(state))
        await self._save(_name(PROGRESS, task_id), progress)

    async def get_progress(self, task_id: str) -> TaskProgress[Any] | None:
        """What the task reported last; None if it reported nothing, or it is not kept any more."""
        found = await self._load(_name(PROGRESS, task_id))
        return None if found is None else TaskProgress[Any].model_validate(self._read(found))

    async def _save(self, name: str, value: TaskiqResult[Any] | TaskProgress[Any]) -> None:
        try:
            content = self._serializer.dumpb(value.model_dump(mode=self._mode))
        except (PydanticSerializationError, TypeError, ValueError) as error:
            raise NotEncodable(str(error), "return a value that the serializer can write") from error
        queue = self._source.get()
        await retried(lambda: queue.perform(ask(ResultSave(name, content, None, self._keep_ms))))

    async def _load(self, name: str, *, with_content: bool = True) -> SavedResult | None:
        return await self._source.get().perform(ask(ResultLoad(name, with_content)))

    def _read(self, found: SavedResult) -> Any:
        return self._serializer.loadb(found.content or b"")


def _name(kind: str, task_id: str) -> str:
    """The name of a saved result: a user may give a task an id of any length."""
    if len(task_id.encode(errors="replace")) > NAME_MAX_BYTES:
        return kind + hashlib.sha256(task_id.encode(errors="replace")).hexdigest()
    return kind + task_id
