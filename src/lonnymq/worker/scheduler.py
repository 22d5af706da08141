"""Fires schedules when they are due, beside any number of others who do.

All of them see the same ticks come, by the database's clock, and try to move the schedule's row from where
they know it to stand; one does, and the message is created in that transaction. So it does no harm to try
again, whatever may have happened: this goes on until it is told to stop.
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
from lonnymq.worker.catch_up import Move, next_move
from lonnymq.worker.cron import Cron
from lonnymq.worker.outages import PASSING, PAUSES, Outages

log = logging.getLogger("lonnymq.worker")

RETRIES = Backoff(first=1, longest=60)  # of what may not pass by itself
LOOK_SECONDS = 60.0  # at least so often, see what the clock says and where the schedules stand
AHEAD_MS = 5_000  # so far may a schedule stand ahead of a clock that was set right by a little


async def tend(
    queue: AsyncQueue, crons: Sequence[Cron], stop: asyncio.Event, outages: Outages | None = None
) -> None:
    """Create the message of each tick when it is due, until `stop` is set.

    What the database refuses from the beginning is raised: a schema that is missing or too old, rights that
    the role does not have. Later on everything is logged and tried again.
    """
    names = [cron.name for cron in crons]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidArgument(
            f"two schedules have the name {twice[0]!r}",
            "name them apart, or one would take the other's ticks",
        )
    if crons:
        await _Tending(queue, crons, stop, outages or Outages()).run()


class _ServerClock:
    """As it was last told. The answer was on its way meanwhile, so it is late by that, and never early."""

    def __init__(self) -> None:
        self.set(0)

    def set(self, now: int) -> None:
        self._told, self._since = now, time.monotonic()

    @property
    def now(self) -> int:
        return self._told + int((time.monotonic() - self._since) * 1000)


class _Entry:
    """A schedule, and what is known of it."""

    def __init__(self, cron: Cron) -> None:
        self.cron = cron
        self.stands_at: int | None = None
        self.due_at: int | None = None  # by the server's clock; None: never
        self.rests_until = 0.0  # by this machine's
        self.failures = 0

    def stand(self, ticked_at: int) -> None:
        self.stands_at = ticked_at
        self.due_at = self.cron.ticks.after(ticked_at)

    def seconds_left(self, now: int) -> float:
        if self.due_at is None:
            return LOOK_SECONDS
        return max((self.due_at - now) / 1000, self.rests_until - time.monotonic())


class _Tending:
    def __init__(
        self, queue: AsyncQueue, crons: Sequence[Cron], stop: asyncio.Event, outages: Outages
    ) -> None:
        self._queue = queue
        # In an order of its own: who fires many at the same time as others does not wait for them at each.
        self._entries = {cron.name: _Entry(cron) for cron in random.sample(crons, len(crons))}
        self._stop = stop
        self._outages = outages
        self._clock = _ServerClock()
        self._look_at = 0.0  # by this machine's clock: the server's may be set back
        self._is_known = False

    async def run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            pause = None
            try:
                await self._round()
            except PASSING as error:
                self._outages.begin(error)
                pause = PAUSES(failures + 1)
            except Exception as error:
                if isinstance(error, QueueClosed) or not self._is_known:
                    raise
                log.exception("schedules could not be looked up, and are looked up again soon")
                pause = RETRIES(failures + 1)
            if pause is not None:
                failures += 1
            elif failures:
                failures = 0
                self._outages.end()
            await self._sleep(self._seconds_left() if pause is None else pause)

    async def _round(self) -> None:
        if self._look_at <= time.monotonic():
            await self._look()
        for entry in self._entries.values():
            if entry.seconds_left(self._clock.now) <= 0 and not self._stop.is_set():
                await self._fire(entry)

    async def _look(self) -> None:
        for found in await self._queue.perform(ask(ScheduleOpen(list(self._entries)))):
            self._clock.set(found.now_at)
            entry = self._entries[found.name]
            if entry.stands_at != found.ticked_at:
                entry.stand(found.ticked_at)
                self._say_if_ahead(entry.cron, found.ticked_at)
        self._look_at = time.monotonic() + LOOK_SECONDS
        self._is_known = True

    async def _fire(self, entry: _Entry) -> None:
        cron, stands_at = entry.cron, entry.stands_at
        if stands_at is None:
            return
        move = next_move(cron.ticks, cron.catch_up, stands_at, self._clock.now)
        if move is None:
            return
        message = cron.message
        command = ScheduleFire(
            *(cron.name, stands_at, move.upto, move.ticks),
            *(message.channel, message.content, dict(message.options)),
        )
        try:
            fired = await self._queue.perform(ask(command))
        except (QueueClosed, *PASSING):
            raise
        except Exception:  # it may be this one's alone: the others go on
            entry.failures += 1
            pause = RETRIES(entry.failures)
            entry.rests_until = time.monotonic() + pause
            log.exception("schedule %r could not fire, and is tried again in %.0f s", cron.name, pause)
            return
        entry.failures = 0
        self._clock.set(fired.now_at)
        _say(cron, move, stands_at, fired)
        if fired.ticked_at is None:
            self._look_at = 0  # somebody deleted it
        elif fired.ticked_at != stands_at:
            entry.stand(fired.ticked_at)

    def _seconds_left(self) -> float:
        now = self._clock.now
        due = min(entry.seconds_left(now) for entry in self._entries.values())
        return max(0, min(due, self._look_at - time.monotonic()))

    async def _sleep(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    def _say_if_ahead(self, cron: Cron, ticked_at: int) -> None:
        if ticked_at > self._clock.now + AHEAD_MS:
            log.warning(
                "schedule %r stands at %s, ahead of the database's clock, which was set back: nothing fires "
                "before that time; schedule_delete(%r) lets it begin anew",
                *(cron.name, _text(ticked_at), cron.name),
            )


def _say(cron: Cron, move: Move, stood_at: int, fired: Fired) -> None:
    if fired.refused:
        log.error(
            "schedule %r: channel %r is full, and %d of the ticks up to %s made no message",
            *(cron.name, cron.message.channel, fired.refused, _text(move.upto)),
        )
    if fired.result in {Result.FIRED, Result.SKIPPED}:
        first = cron.ticks.after(stood_at)
        if first is not None and first not in move.ticks:
            log.warning(
                "schedule %r missed ticks from %s on; of those up to %s, catch_up=%r fired %d",
                *(cron.name, _text(first), _text(move.upto), cron.catch_up, len(move.ticks)),
            )
        log.debug("schedule %r %s, up to %s", cron.name, fired.result, _text(move.upto))


def _text(at: int) -> str:
    try:
        return (EPOCH + at * MILLISECOND).isoformat(timespec="seconds")
    except OverflowError:
        return str(at)
