"""Schedules that are stored in the queue, as its own schedules. taskiq's scheduler sends them.

Any number of scheduler processes may run: each time of a schedule creates one message. A process enqueues
with a dedupe key that names the schedule and the time, and the message holds the key for long after it has
finished. So a second process that sends the same time creates nothing, and a process that dies in between
loses nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError
from taskiq import AsyncBroker, ScheduledTask, ScheduleSource
from taskiq.exceptions import ScheduledTaskCancelledError

from lonnymq.client.calls import ask
from lonnymq.client.produce import TASK_HEADER
from lonnymq.client.times import ServerClock, milliseconds
from lonnymq.commands import ScheduleDetails, ScheduleFire, ScheduleOpen
from lonnymq.errors import InvalidArgument, NotEncodable
from lonnymq.formatting import duration
from lonnymq.message_options import DEFAULT_CHANNEL
from lonnymq.payload import HEADER, JSON
from lonnymq.taskiq.labels import channel_of, options_of
from lonnymq.taskiq.queue_source import QueueSource, Source, retried
from lonnymq.taskiq.task_message import SCHEDULE_HEADER

log = logging.getLogger("lonnymq.taskiq")

PREFIX = "taskiq/"
LABEL_PREFIX = "taskiq-label/"
MINUTE_MS = 60_000
UNIQUE_FOR_S = 3600  # longer than two schedulers can be apart
UNIQUE_FOR_ONCE_S = 7 * 86_400
"""Longer than a scheduler is away that died before it deleted what it had sent."""


@dataclass(frozen=True)
class _Sending:
    """A schedule's position before it is sent, and after."""

    name: str
    ticked_at: int
    upto: int | None


class LonnyMQScheduleSource(ScheduleSource):
    """Stores schedules in a queue, given by a DSN, a Queue, an AsyncQueue or a LonnyMQBroker. `lonnymq
    schedules` lists them, pauses them, and runs them by hand.

    With `labels_of`, the schedules in the labels of that broker's tasks are sent too: use it in place of
    taskiq's LabelScheduleSource, which sends them once per scheduler process.
    """

    def __init__(
        self, queue: Source, schema: str | None = None, *, labels_of: AsyncBroker | None = None
    ) -> None:
        self._source = QueueSource(queue, schema)
        self._labels_of = labels_of
        self._of_labels: dict[str, ScheduledTask] = {}
        self._sending: dict[str, _Sending] = {}

    async def startup(self) -> None:
        """Store the schedules in labels, so that schedulers share their positions."""
        self._of_labels = {task.schedule_id: task for task in _schedules_in_labels(self._labels_of)}
        for task in self._of_labels.values():
            await self._store(self._name(task.schedule_id), task)

    async def shutdown(self) -> None:
        """Close the connections, unless they belong to a queue or a broker."""
        await self._source.close()

    async def get_schedules(self) -> list[ScheduledTask]:
        """All schedules that are stored here, and those in labels."""
        queue, found = self._source.get(), []
        for listed in await queue.schedules():
            if listed.name.startswith(PREFIX):
                details = await queue.schedule(listed.name)
                if details is not None and (task := _read(details)) is not None:
                    found.append(task)
        return [*found, *self._of_labels.values()]

    async def add_schedule(self, schedule: ScheduledTask) -> None:
        """Store a schedule, or change the one with the same id."""
        await self._store(PREFIX + schedule.schedule_id, schedule)

    async def delete_schedule(self, schedule_id: str) -> None:
        """Delete a schedule. No scheduler sends it from now on. One in a label is stored again when a
        scheduler starts.
        """
        name = self._name(schedule_id)
        self._of_labels.pop(schedule_id, None)
        await self._source.get().delete_schedule(name)

    async def pre_send(self, task: ScheduledTask) -> None:
        """Find out whether to send the schedule now, and give its message the dedupe key of this time."""
        name = self._name(task.schedule_id)
        found = await self._current(name)
        is_once = task.cron is None and task.interval is None
        if is_once and task.schedule_id in self._of_labels and found.ticked_at != found.opened_at:
            log.debug("schedule %r has been sent before", name)
            raise ScheduledTaskCancelledError
        if is_once:
            key, upto = task.schedule_id, None
        elif task.cron is not None:
            upto = int(datetime.now(UTC).timestamp() * 1000) // MINUTE_MS * MINUTE_MS
            key = f"{task.schedule_id}@{upto}"
        else:
            found, upto = await self._wait_for_interval(name, found, _interval_ms(task))
            key = f"{task.schedule_id}@{found.ticked_at}"
        self._sending[task.schedule_id] = _Sending(name, found.ticked_at, upto)
        if task.labels.get("dedupe_key") is None or "lonnymq_tick" in task.labels:
            unique_for = UNIQUE_FOR_ONCE_S if is_once else UNIQUE_FOR_S
            task.labels.update(lonnymq_tick=key, dedupe_key=_short(key), unique_for=unique_for)

    async def post_send(self, task: ScheduledTask) -> None:
        """Move the schedule on, or delete it if it was to be sent once."""
        sending = self._sending.pop(task.schedule_id)
        queue = self._source.get()
        if task.cron is None and task.interval is None and task.schedule_id not in self._of_labels:
            await retried(lambda: queue.delete_schedule(sending.name))
            return
        upto = sending.upto if sending.upto is not None else await self._now()
        if upto > sending.ticked_at:
            # `lost` if another scheduler has moved it, `early` if this clock is ahead: the key is enough.
            moved = ScheduleFire(sending.name, sending.ticked_at, upto, [], DEFAULT_CHANNEL, b"")
            await retried(lambda: queue.perform(ask(moved)))

    async def _wait_for_interval(
        self, name: str, found: ScheduleDetails, interval_ms: int
    ) -> tuple[ScheduleDetails, int]:
        """Wait until the interval since the last time is over, by the database's clock: taskiq counts from
        the start of its own process. The first time is now.
        """
        while True:
            now = await self._now()
            due_at = now if found.ticked_at == found.opened_at else found.ticked_at + interval_ms
            if due_at <= now:
                missed = (now - due_at) // interval_ms
                return found, due_at + missed * interval_ms
            await asyncio.sleep((due_at - now) / 1000)
            found = await self._current(name)

    async def _now(self) -> int:
        """By the database's clock."""
        queue = self._source.get()
        return await retried(lambda: queue.perform(ask(ServerClock())))

    async def _current(self, name: str) -> ScheduleDetails:
        queue = self._source.get()
        found = await retried(lambda: queue.schedule(name))
        if found is None or found.is_paused:
            log.info("schedule %r is not sent: it is %s", name, "deleted" if found is None else "paused")
            raise ScheduledTaskCancelledError
        return found

    async def _store(self, name: str, task: ScheduledTask) -> None:
        options = options_of(task.labels)
        try:
            content = task.model_dump_json().encode()
        except PydanticSerializationError as error:
            raise NotEncodable(f"schedule {task.schedule_id!r} cannot be stored: {error}") from error
        headers = {TASK_HEADER: task.task_name, SCHEDULE_HEADER: task.schedule_id, HEADER: JSON}
        stored: dict[str, Any] = {"headers": headers}
        for option in ("priority", "cost", "lane", "max_attempts"):
            if (given := options.get(option)) is not None:
                stored[option] = given
        named = channel_of(task.labels)
        channel = DEFAULT_CHANNEL if named is None else named
        command = ScheduleOpen([name], [_times(task)], [_zone(task)], ["one"], [channel], [content], [stored])
        await self._source.get().perform(ask(command))

    def _name(self, schedule_id: str) -> str:
        return (LABEL_PREFIX if schedule_id in self._of_labels else PREFIX) + schedule_id


def _schedules_in_labels(broker: AsyncBroker | None) -> list[ScheduledTask]:
    """Their ids are the same in every process: given, or made from the task and its schedule."""
    found = []
    for name, task in ({} if broker is None else broker.get_all_tasks()).items():
        if task.broker is not broker:
            continue  # another scheduler sends it
        for given in task.labels.get("schedule") or []:
            if not {"cron", "interval", "time"} & given.keys():
                continue
            text = json.dumps([name, given], default=str, sort_keys=True)
            schedule_id = (
                given.get("schedule_id") or f"{name}#{hashlib.sha256(text.encode()).hexdigest()[:12]}"
            )
            labels = {key: value for key, value in task.labels.items() if key != "schedule"}
            found.append(
                ScheduledTask(
                    task_name=name,
                    labels={**given.get("labels", {}), **labels},
                    args=given.get("args", []),
                    kwargs=given.get("kwargs", {}),
                    schedule_id=schedule_id,
                    cron=given.get("cron"),
                    cron_offset=given.get("cron_offset"),
                    time=given.get("time"),
                    interval=given.get("interval"),
                )
            )
    return found


def _read(details: ScheduleDetails) -> ScheduledTask | None:
    try:
        return ScheduledTask.model_validate_json(details.content or b"")
    except ValidationError as error:
        log.error("schedule %r cannot be read, and is not sent: %s", details.name, error)  # noqa: TRY400
        return None


def _times(task: ScheduledTask) -> str:
    """In words, unless it is a cron expression."""
    if task.cron is not None:
        return task.cron
    if task.interval is not None:
        return f"every {duration(_interval_ms(task))}"
    return f"once, at {_aware(task.time):%Y-%m-%d %H:%M:%S %Z}"


def _zone(task: ScheduledTask) -> str:
    offset = task.cron_offset
    if isinstance(offset, str):
        return offset
    if offset is None:
        return "UTC"
    minutes = round(offset / timedelta(minutes=1))
    return f"UTC{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _aware(time: datetime | None) -> datetime:
    if time is None:
        raise InvalidArgument("the schedule has no time", "give cron, interval or time")
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def _interval_ms(task: ScheduledTask) -> int:
    return milliseconds(task.interval or 0)


def _short(key: str) -> str:
    """As a dedupe key, which has at most 255 bytes."""
    return key if len(key.encode()) <= 200 else hashlib.sha256(key.encode()).hexdigest()  # noqa: PLR2004
