"""A handler is run for a message, and what came of it is told."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from lonnymq.errors import PayloadError
from lonnymq.worker.backoff import delay_ms
from lonnymq.worker.exceptions import Discard, JobStopped, LeaseLost, Retry
from lonnymq.worker.job import AsyncJob, Desk, Job
from lonnymq.worker.leased import Holding, Stop
from lonnymq.worker.threads import Threads

log = logging.getLogger("lonnymq.worker")

ERROR_MAX = 16_000  # characters


@dataclass(frozen=True, slots=True)
class Done:
    """The message goes."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """It is not this worker's any more, or its handler completes it."""


@dataclass(frozen=True, slots=True)
class Discarded:
    reason: str


@dataclass(frozen=True, slots=True)
class PutBack:
    """To be served again after so long; None: where it stood. With an error, an attempt is used up."""

    delay_ms: int | None = None
    error: str | None = None


Ending = Done | GivenUp | Discarded | PutBack
DONE, GIVEN_UP, HANDED_BACK = Done(), GivenUp(), PutBack()
FOR_STOP: dict[Stop | None, Ending] = {Stop.LOST: GIVEN_UP, Stop.CANCELLED: DONE, Stop.SHUTDOWN: HANDED_BACK}


async def run(holding: Holding, desk: Desk, threads: Threads) -> tuple[Ending, BaseException | None]:
    """What came of it, and what was raised. Whatever a handler does has some ending."""
    if holding.stopped is not None:  # before there was anything to interrupt
        return _ending_of(holding, JobStopped())
    handler = holding.handler
    timer = None
    try:
        call = handler.call_for(holding.message)
        if (timeout := handler.policy.timeout_s) is not None:
            timer = asyncio.get_running_loop().call_later(timeout, holding.stop, Stop.TIMEOUT)
        if handler.is_async:
            await _in_the_loop(holding, call, desk)
        else:
            await _in_a_thread(holding, call, desk, threads)
    except BaseException as error:  # noqa: BLE001 - a handler's sys.exit() must not end the worker
        return _ending_of(holding, error)
    finally:
        if timer is not None:
            timer.cancel()
    return (GIVEN_UP if holding.is_left_to_handler else DONE), None


async def _in_the_loop(holding: Holding, call: Callable[[], Any], desk: Desk) -> None:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - each message has one of its own
    holding.interrupt = task.cancel
    AsyncJob(holding.message, desk).begin()
    try:
        await call()
    finally:
        holding.interrupt = None


async def _in_a_thread(holding: Holding, call: Callable[[], Any], desk: Desk, threads: Threads) -> None:
    Job(holding.message, desk).begin()
    work = threads.start(call)
    holding.interrupt = partial(threads.interrupt, work)
    try:
        result = await work.answer
    except JobStopped:
        if holding.stopped is Stop.TIMEOUT and not work.is_begun:
            raise Retry("so many handlers hang that no thread is left", counts=False) from None
        raise
    finally:
        holding.interrupt = None
    if asyncio.iscoroutine(result):
        result.close()
        raise TypeError(f"{holding.handler.name} returned a coroutine: declare it with async def")


def _ending_of(holding: Holding, error: BaseException) -> tuple[Ending, BaseException]:
    message, policy, name = holding.message, holding.handler.policy, holding.handler.name
    if isinstance(error, asyncio.CancelledError | JobStopped):
        if holding.stopped is not None and holding.stopped in FOR_STOP:
            log.warning("message %s of %s was given up: %s", message.id, name, holding.stopped.value)
            return FOR_STOP[holding.stopped], error
        if holding.stopped is Stop.TIMEOUT:
            error = TimeoutError(f"{name} took longer than {policy.timeout_s:g} s")
    elif isinstance(error, LeaseLost):
        log.warning(
            "message %s of %s was given up: %s", message.id, name, (holding.stopped or Stop.LOST).value
        )
        return FOR_STOP.get(holding.stopped, GIVEN_UP), error
    elif isinstance(error, Discard):
        return Discarded(written(str(error))), error
    elif isinstance(error, Retry) and not error.counts:
        return PutBack(_after_ms(holding, error)), error
    text = _text(error)
    log.warning("attempt %s of message %s of %s failed: %s", message.attempts, message.id, name, text)
    return PutBack(_after_ms(holding, error), text), error


def _after_ms(holding: Holding, error: BaseException) -> int:
    if isinstance(error, Retry) and error.after_ms is not None:
        return error.after_ms
    return delay_ms(holding.handler.policy.backoff, holding.message.attempts)


def _text(error: BaseException) -> str:
    """The traceback, without what lies between the worker and the handler; of a Retry, its reason."""
    if isinstance(error, Retry):
        return written(str(error)) or "the handler asked for another attempt"
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__package__") == __package__:
        frames = frames.tb_next
    if isinstance(error, PayloadError):
        frames = None
    return written("".join(traceback.format_exception(type(error), error, frames)).rstrip())


def written(text: str) -> str:
    """As the database takes it: it has no NUL and no half of a character, and would cut off the end, which
    says the most.
    """
    if len(text) > ERROR_MAX:
        text = f"{text[: ERROR_MAX // 4]}\n...\n{text[-ERROR_MAX * 3 // 4 :]}"
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()
