"""Runs a handler for a leased message, and turns what it returned or raised into an outcome."""

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
from lonnymq.worker.job import AsyncJob, Job, JobContext
from lonnymq.worker.leased import LeasedMessage, StopReason
from lonnymq.worker.threads import Threads

log = logging.getLogger("lonnymq.worker")

ERROR_MAX_CHARS = 16_000


@dataclass(frozen=True, slots=True)
class Done:
    """Complete the message."""


@dataclass(frozen=True, slots=True)
class LeaveAlone:
    """Do nothing: the lease is lost, or the handler completed the message. It is counted under this name."""

    counted_as: str


@dataclass(frozen=True, slots=True)
class Discarded:
    """Remove the message without another attempt."""

    reason: str


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Give the message back, to be served again after a delay, or at its old place if the delay is None.

    With an error it is a retry, which uses up an attempt; without one it is a release, which does not.
    """

    delay_ms: int | None = None
    error: str | None = None


HandlerOutcome = Done | LeaveAlone | Discarded | GiveBack
DONE, RELEASE = Done(), GiveBack()
LOST, COMPLETED_BY_HANDLER = LeaveAlone("lost"), LeaveAlone("completed by the handler")
OUTCOME_OF_STOP: dict[StopReason | None, HandlerOutcome] = {
    StopReason.LOST: LOST,
    StopReason.CANCELLED: DONE,
    StopReason.SHUTDOWN: RELEASE,
}


async def run(
    leased: LeasedMessage, context: JobContext, threads: Threads
) -> tuple[HandlerOutcome, BaseException | None]:
    """Run the handler. Returns the outcome, whatever the handler does, and what it raised."""
    if leased.stop_reason is not None:  # it was stopped before there was anything to interrupt
        return _outcome_of_error(leased, JobStopped())
    handler = leased.handler
    timer = None
    try:
        call = handler.call_for(leased.message)
        if (timeout := handler.policy.timeout_s) is not None:
            timer = asyncio.get_running_loop().call_later(timeout, leased.stop, StopReason.TIMEOUT)
        if handler.is_async:
            await _run_in_loop(leased, call, context)
        else:
            await _run_in_thread(leased, call, context, threads)
    except BaseException as error:  # noqa: BLE001 - a handler's sys.exit() must not stop the worker
        return _outcome_of_error(leased, error)
    finally:
        if timer is not None:
            timer.cancel()
    return (COMPLETED_BY_HANDLER if leased.is_completed_by_handler else DONE), None


async def _run_in_loop(leased: LeasedMessage, call: Callable[[], Any], context: JobContext) -> None:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - each message has its own task
    leased.interrupt = task.cancel
    AsyncJob(leased.message, context).make_current()
    try:
        await call()
    finally:
        leased.interrupt = None


async def _run_in_thread(
    leased: LeasedMessage, call: Callable[[], Any], context: JobContext, threads: Threads
) -> None:
    Job(leased.message, context).make_current()
    thread_call = threads.start(call)
    leased.interrupt = partial(threads.interrupt, thread_call)
    try:
        result = await thread_call.answer
    except JobStopped:
        if leased.stop_reason is StopReason.TIMEOUT and not thread_call.is_started:
            raise Retry("all threads are occupied by stuck handlers", counts=False) from None
        raise
    finally:
        leased.interrupt = None
    if asyncio.iscoroutine(result):
        result.close()
        raise TypeError(f"{leased.handler.name} returned a coroutine: declare it with async def")


def _outcome_of_error(leased: LeasedMessage, error: BaseException) -> tuple[HandlerOutcome, BaseException]:
    message, policy, name = leased.message, leased.handler.policy, leased.handler.name
    if isinstance(error, asyncio.CancelledError | JobStopped):
        if leased.stop_reason is not None and leased.stop_reason in OUTCOME_OF_STOP:
            _log_stopped(leased, leased.stop_reason)
            return OUTCOME_OF_STOP[leased.stop_reason], error
        if leased.stop_reason is StopReason.TIMEOUT:
            error = TimeoutError(f"{name} took longer than {policy.timeout_s:g} s")
    elif isinstance(error, LeaseLost):
        _log_stopped(leased, leased.stop_reason or StopReason.LOST)
        return OUTCOME_OF_STOP.get(leased.stop_reason, LOST), error
    elif isinstance(error, Discard):
        return Discarded(storable(str(error))), error
    elif isinstance(error, Retry) and not error.counts:
        return GiveBack(_retry_delay_ms(leased, error)), error
    text = _error_text(error)
    log.warning("attempt %s of message %s of %s failed: %s", message.attempts, message.id, name, text)
    return GiveBack(_retry_delay_ms(leased, error), text), error


def _log_stopped(leased: LeasedMessage, reason: StopReason) -> None:
    log.warning("%s was stopped on message %s: %s", leased.handler.name, leased.message.id, reason.value)


def _retry_delay_ms(leased: LeasedMessage, error: BaseException) -> int:
    if isinstance(error, Retry) and error.after_ms is not None:
        return error.after_ms
    return delay_ms(leased.handler.policy.backoff, leased.message.attempts)


def _error_text(error: BaseException) -> str:
    """The traceback without the worker's own frames; for a Retry, its reason."""
    if isinstance(error, Retry):
        return storable(str(error)) or "the handler asked for another attempt"
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__package__") == __package__:
        frames = frames.tb_next
    if isinstance(error, PayloadError):
        frames = None
    return storable("".join(traceback.format_exception(type(error), error, frames)).rstrip())


def storable(text: str) -> str:
    """The text as the database can store it: NUL characters and lone surrogates escaped, and the middle cut
    out if it is too long. The database would cut off its end, which says the most.
    """
    if len(text) > ERROR_MAX_CHARS:
        text = f"{text[: ERROR_MAX_CHARS // 4]}\n...\n{text[-ERROR_MAX_CHARS * 3 // 4 :]}"
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()
