"""Creates the messages of schedules when they are due. Any number of workers can do this at once.

The database has one row per schedule, with the time up to which it is handled. All workers see the same times
become due, by the database's clock, and try to advance the row from where they last saw it. One of them
succeeds, and creates the message in the same transaction. So it is always safe to try again.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from contextlib import suppress

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.calls import ask
from lonnymq.client.times import EPOCH, MILLISECOND
from lonnymq.commands import Fired, Result, ScheduleFire, ScheduleOpen
from lonnymq.errors import InvalidArgument, QueueClosed
from lonnymq.worker.backoff import Backoff
from lonnymq.worker.catch_up import Firing, next_firing
from lonnymq.worker.cron import Cron
from lonnymq.worker.cron_times import zone_name
from lonnymq.worker.outages import RETRY_DELAYS, TRANSIENT, Outages

log = logging.getLogger("lonnymq.worker")

ERROR_DELAYS = Backoff(first=1, longest=60)  # after errors that are not transient
REFRESH_S = 60.0  # how often to read the schedules and the clock of the database, at least
PAUSED_S = 5.0  # how often to look whether a paused schedule that is due has been resumed
AHEAD_MS = 5_000  # a schedule may be ahead of the clock by this much, after a small correction of the clock


async def run_schedules(
    queue: AsyncQueue, crons: Sequence[Cron], stop: asyncio.Event, outages: Outages | None = None
) -> None:
    """Create the messages of the schedules when they are due, until `stop` is set."""
    if crons:
        scheduler = Scheduler(queue, crons, stop, outages or Outages())
        await scheduler.open()
        await scheduler.run()


class _ServerClock:
    """The database's clock, as of its last answer. It is late by the time that the answer took, and never
    early.
    """

    def __init__(self) -> None:
        self.set(0)

    def set(self, now: int) -> None:
        self._reported, self._reported_at = now, time.monotonic()

    @property
    def now(self) -> int:
        return self._reported + int((time.monotonic() - self._reported_at) * 1000)


class _ScheduleState:
    """A schedule, and what is known about its row."""

    def __init__(self, cron: Cron) -> None:
        self.cron = cron
        self.handled_until: int | None = None
        self.due_at: int | None = None  # by the database's clock; None if never
        self.retry_at = 0.0  # by this machine's clock
        self.failures = 0

    def set_handled_until(self, handled_until: int) -> None:
        self.handled_until = handled_until
        self.due_at = self.cron.times.after(handled_until)

    def seconds_left(self, now: int) -> float:
        if self.due_at is None:
            return REFRESH_S
        return max((self.due_at - now) / 1000, self.retry_at - time.monotonic())


class Scheduler:
    """Call `open` first, and then `run`."""

    def __init__(
        self, queue: AsyncQueue, crons: Sequence[Cron], stop: asyncio.Event, outages: Outages
    ) -> None:
        names = [cron.name for cron in crons]
        if duplicates := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidArgument(
                f"two schedules have the name {duplicates[0]!r}",
                "give them different names: schedules with the same name share their times",
            )
        self._queue = queue
        # In random order: workers that fire many schedules at the same time seldom wait for each other.
        self._schedules = {cron.name: _ScheduleState(cron) for cron in random.sample(crons, len(crons))}
        self._stop = stop
        self._outages = outages
        self._clock = _ServerClock()
        self._refresh_at = 0.0  # by this machine's clock: the database's may be set back
        self._has_refreshed = False
        self._failures = 0

    async def open(self) -> None:
        """Read the schedules. Raises what is wrong with the schema or the privileges; a database that is
        unavailable is left to `run`.
        """
        try:
            await self._refresh()
        except TRANSIENT as error:
            self._outages.begin(error)
            self._failures = 1

    async def run(self) -> None:
        """Create messages until `stop` is set. Errors are logged and retried."""
        while not self._stop.is_set():
            pause = None
            try:
                await self._fire_due()
            except TRANSIENT as error:
                self._outages.begin(error)
                pause = RETRY_DELAYS(self._failures + 1)
            except Exception as error:
                if isinstance(error, QueueClosed) or not self._has_refreshed:
                    raise
                log.exception("could not read the schedules, trying again")
                pause = ERROR_DELAYS(self._failures + 1)
            if pause is not None:
                self._failures += 1
            elif self._failures:
                self._failures = 0
                self._outages.end()
            await self._sleep(self._seconds_left() if pause is None else pause)

    async def _fire_due(self) -> None:
        if self._refresh_at <= time.monotonic():
            await self._refresh()
        for schedule in self._schedules.values():
            if schedule.seconds_left(self._clock.now) <= 0 and not self._stop.is_set():
                await self._fire(schedule)

    async def _refresh(self) -> None:
        for found in await self._queue.perform(ask(_opening([s.cron for s in self._schedules.values()]))):
            self._clock.set(found.now_at)
            schedule = self._schedules[found.name]
            if schedule.handled_until != found.ticked_at:
                schedule.set_handled_until(found.ticked_at)
                self._warn_if_ahead(schedule.cron, found.ticked_at)
        self._refresh_at = time.monotonic() + REFRESH_S
        self._has_refreshed = True

    async def _fire(self, schedule: _ScheduleState) -> None:
        cron, handled_until = schedule.cron, schedule.handled_until
        if handled_until is None:
            return
        firing = next_firing(cron.times, cron.catch_up, handled_until, self._clock.now)
        if firing is None:
            return
        message = cron.message
        command = ScheduleFire(
            *(cron.name, handled_until, firing.upto, firing.times),
            *(message.channel, message.content, dict(message.options)),
        )
        try:
            fired = await self._queue.perform(ask(command))
        except (QueueClosed, *TRANSIENT):
            raise
        except Exception:  # it may concern only this schedule, so the others continue
            schedule.failures += 1
            pause = ERROR_DELAYS(schedule.failures)
            schedule.retry_at = time.monotonic() + pause
            log.exception("schedule %r could not fire; trying again in %.0f s", cron.name, pause)
            return
        schedule.failures = 0
        self._clock.set(fired.now_at)
        if fired.result is Result.PAUSED:
            schedule.retry_at = time.monotonic() + PAUSED_S
        _log_firing(cron, firing, handled_until, fired)
        if fired.ticked_at is None:
            self._refresh_at = 0  # the schedule was deleted
        elif fired.ticked_at != handled_until:
            schedule.set_handled_until(fired.ticked_at)

    def _seconds_left(self) -> float:
        now = self._clock.now
        due = min(schedule.seconds_left(now) for schedule in self._schedules.values())
        return max(0, min(due, self._refresh_at - time.monotonic()))

    async def _sleep(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    def _warn_if_ahead(self, cron: Cron, handled_until: int) -> None:
        if handled_until > self._clock.now + AHEAD_MS:
            log.warning(
                "schedule %r has fired up to %s, ahead of the database's clock, which was set back. It waits "
                "until then; schedule_delete(%r) makes it start now",
                *(cron.name, _text(handled_until), cron.name),
            )


def _opening(crons: Sequence[Cron]) -> ScheduleOpen:
    """With the definitions, so that people can see them, and run a schedule by hand."""
    return ScheduleOpen(
        [cron.name for cron in crons],
        [cron.times.expression for cron in crons],
        [zone_name(cron.times.tz) for cron in crons],
        [cron.catch_up for cron in crons],
        [cron.message.channel for cron in crons],
        [cron.message.content for cron in crons],
        [dict(cron.message.options) for cron in crons],
    )


def _log_firing(cron: Cron, firing: Firing, handled_until: int, fired: Fired) -> None:
    if fired.refused:
        log.error(
            "schedule %r: channel %r is full, so %d of its times up to %s created no message",
            *(cron.name, cron.message.channel, fired.refused, _text(firing.upto)),
        )
    if fired.result in {Result.FIRED, Result.SKIPPED}:
        first = cron.times.after(handled_until)
        if first is not None and first not in firing.times:
            log.warning(
                "schedule %r missed times from %s to %s; catch_up=%r fired %d of them",
                *(cron.name, _text(first), _text(firing.upto), cron.catch_up, len(firing.times)),
            )
        log.debug("schedule %r %s, up to %s", cron.name, fired.result, _text(firing.upto))


def _text(at: int) -> str:
    try:
        return (EPOCH + at * MILLISECOND).isoformat(timespec="seconds")
    except OverflowError:
        return str(at)
