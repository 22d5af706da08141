"""Runs a handler for a leased message, and turns what it returned or raised into an outcome."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

from lonnymq.client.observers import handler_starts, safely
from lonnymq.errors import BrokenContent, NotEncodable, PayloadError, UnknownContentType, WrongArguments
from lonnymq.payload import Payload, encode
from lonnymq.worker.backoff import delay_ms
from lonnymq.worker.exceptions import Discard, Fail, JobStopped, LeaseLost, Retry
from lonnymq.worker.job import AsyncJob, Job, JobContext
from lonnymq.worker.leased import LeasedMessage
from lonnymq.worker.stop_reason import StopReason
from lonnymq.worker.task import Handler
from lonnymq.worker.threads import Threads

ERROR_MAX_CHARS = 16_000
UNUSABLE = (BrokenContent, UnknownContentType, WrongArguments)  # another attempt would find the same message


@dataclass(frozen=True, slots=True)
class Done:
    """Complete the message, with its result if one is kept."""

    result: Payload | None = None


@dataclass(frozen=True, slots=True)
class CompletedByHandler:
    """The handler completed the message in a transaction of its own, which should be committed by now."""


@dataclass(frozen=True, slots=True)
class LeaveAlone:
    """Do nothing: the lease is lost."""


@dataclass(frozen=True, slots=True)
class Discarded:
    """Remove the message without another attempt."""

    reason: str


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Give the message back, to be served again after a delay, or at its old place if the delay is None.

    With an error it is a retry, which uses up an attempt; without one it is a release, which does not. If it
    is final, the message is dead instead, whatever attempts are left.
    """

    delay_ms: int | None = None
    error: str | None = None
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Rejected:
    """Give the message back, because there is no handler for it here. It becomes a dead letter with this
    error once nobody has handled it for `timeout_ms`; None: never.
    """

    error: str
    timeout_ms: int | None


HandlerOutcome = Done | CompletedByHandler | LeaveAlone | Discarded | GiveBack | Rejected
DONE, RELEASE = Done(), GiveBack()
LOST, COMPLETED_BY_HANDLER = LeaveAlone(), CompletedByHandler()
OUTCOME_OF_STOP: dict[StopReason | None, HandlerOutcome] = {
    StopReason.LEASE_LOST: LOST,
    StopReason.CANCELLED: DONE,
    StopReason.SHUTDOWN: RELEASE,
}


async def run(
    leased: LeasedMessage, context: JobContext, threads: Threads
) -> tuple[HandlerOutcome, BaseException | None]:
    """Run the handler. Returns the outcome, whatever the handler does, and what it raised."""
    if leased.is_interrupted:  # before there was anything to interrupt
        return _outcome_of_error(leased, JobStopped())
    handler = leased.handler
    timer = None
    ended: tuple[HandlerOutcome, BaseException | None]
    try:
        call = handler.call_for(leased.message)
    except UNUSABLE as error:
        return _failed_for_good(leased, error), error
    except Exception as error:  # noqa: BLE001 - whatever is wrong, it is one failed attempt
        return _outcome_of_error(leased, error)
    ends = handler_starts(context.observers, context.schema, leased.message, handler.name)
    try:
        if (timeout := handler.policy.timeout_s) is not None:
            timer = asyncio.get_running_loop().call_later(timeout, leased.interrupt, StopReason.TIMEOUT)
        if handler.is_async:
            value = await _run_in_loop(leased, call, context)
        else:
            value = await _run_in_thread(leased, call, context, threads)
    except BaseException as error:  # noqa: BLE001 - a handler's sys.exit() must not stop the worker
        ended = _outcome_of_error(leased, error)
    else:
        ended = _outcome_of_value(leased, value)
    finally:
        if timer is not None:
            timer.cancel()
    for end in ends:
        safely(end, ended[1] if _has_failed(ended[0]) else None)
    return ended


def _has_failed(outcome: HandlerOutcome) -> bool:
    """Whether the attempt counts as failed, or is lost."""
    return isinstance(outcome, LeaveAlone) or (isinstance(outcome, GiveBack) and outcome.error is not None)


def _outcome_of_value(leased: LeasedMessage, value: Any) -> tuple[HandlerOutcome, BaseException | None]:
    if leased.is_completed_by_handler:
        return COMPLETED_BY_HANDLER, None
    if value is None or leased.message.keep_result_ms is None:
        return DONE, None
    try:
        return Done(encode(value)), None
    except PayloadError as found:  # the work is done: another attempt would do it again, for the same value
        error = NotEncodable(
            f"{leased.handler.name} returned a {type(value).__name__}, which cannot be kept as its result:"
            f" {found.message}",
            found.hint or "return plain values, or leave out keep_result",
        )
        return _failed_for_good(leased, error), error


async def _run_in_loop(leased: LeasedMessage, call: Callable[[], Any], context: JobContext) -> Any:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - each message has its own task
    leased.interrupt_handler = task.cancel
    AsyncJob(leased.message, context).make_current()
    try:
        return await call()
    finally:
        leased.interrupt_handler = None


async def _run_in_thread(
    leased: LeasedMessage, call: Callable[[], Any], context: JobContext, threads: Threads
) -> Any:
    Job(leased.message, context).make_current()
    thread_call = threads.start(call)
    leased.interrupt_handler = partial(threads.interrupt, thread_call)
    try:
        result = await thread_call.answer
    except JobStopped:
        if leased.stop_reason is StopReason.TIMEOUT and not thread_call.is_started:
            raise Retry("all threads are occupied by stuck handlers", counts=False) from None
        raise
    finally:
        leased.interrupt_handler = None
    if asyncio.iscoroutine(result):
        result.close()
        raise TypeError(f"{leased.handler.name} returned a coroutine: declare it with async def")
    return result


def _outcome_of_error(leased: LeasedMessage, error: BaseException) -> tuple[HandlerOutcome, BaseException]:
    if (stopped := _outcome_of_stop(leased, error)) is not None:
        return stopped, error
    if leased.stop_reason is StopReason.TIMEOUT and isinstance(error, asyncio.CancelledError | JobStopped):
        error = TimeoutError(f"{leased.handler.name} took longer than {leased.handler.policy.timeout_s:g} s")
    if isinstance(error, Discard):
        return Discarded(reason_of(error)), error
    if isinstance(error, Retry) and not error.counts:
        return GiveBack(_retry_delay_ms(leased, error)), error
    if isinstance(error, Fail):
        return _failed_for_good(leased, error), error
    most = leased.handler.policy.max_failures
    if most is not None and leased.message.attempts >= most:
        return _failed_for_good(leased, error), error
    return GiveBack(_retry_delay_ms(leased, error), _error_text(leased.handler, error)), error


def _failed_for_good(leased: LeasedMessage, error: BaseException) -> GiveBack:
    return GiveBack(None, _error_text(leased.handler, error), is_final=True)


def _outcome_of_stop(leased: LeasedMessage, error: BaseException) -> HandlerOutcome | None:
    """The outcome if the handler ended because it was stopped, or stopped by itself when it was asked to."""
    if isinstance(error, JobStopped) and leased.stop_reason is StopReason.SHUTDOWN:
        reason: StopReason | None = StopReason.SHUTDOWN
    elif isinstance(error, Retry | Fail | Discard):
        reason = None
    else:  # whatever an interrupted handler raises, it does so because it was interrupted
        reason = leased.stop_reason if leased.is_interrupted else None
    if isinstance(error, LeaseLost) and reason not in OUTCOME_OF_STOP:
        reason = StopReason.LEASE_LOST
    if reason is None or reason not in OUTCOME_OF_STOP:
        return None
    return OUTCOME_OF_STOP[reason]


def _retry_delay_ms(leased: LeasedMessage, error: BaseException) -> int:
    if isinstance(error, Retry) and error.after_ms is not None:
        return error.after_ms
    return delay_ms(leased.handler.policy.backoff, leased.message.attempts)


def _error_text(handler: Handler, error: BaseException) -> str:
    """The traceback without the worker's own frames; for a Retry or a Fail, its reason."""
    if isinstance(error, Retry):
        return reason_of(error) or "the handler asked for another attempt"
    if isinstance(error, Fail):
        return reason_of(error) or "the handler asked for no further attempt"
    frames = None if isinstance(error, PayloadError | WrongArguments) else handler_frames(handler, error)
    return storable("".join(traceback.format_exception(type(error), error, frames)).rstrip())


def handler_frames(handler: Handler, error: BaseException) -> TracebackType | None:
    """The traceback without the frames that come before those of the user's function: the worker's, and those
    of the packages that the handler names.
    """
    hidden = (__package__, *handler.calling_packages)
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__package__") in hidden:
        frames = frames.tb_next
    return frames


def reason_of(error: BaseException) -> str:
    """The text of an exception, whose class may belong to the app."""
    try:
        return storable(str(error))
    except Exception:  # noqa: BLE001 - it must not decide what happens to the message
        return f"{type(error).__name__}, whose text cannot be read"


def storable(text: str) -> str:
    """The text as the database can store it: NUL characters and lone surrogates escaped, and the middle cut
    out if it is too long. The database would cut off its end, which says the most.
    """
    if len(text) > ERROR_MAX_CHARS:
        text = f"{text[: ERROR_MAX_CHARS // 4]}\n...\n{text[-ERROR_MAX_CHARS * 3 // 4 :]}"
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()
