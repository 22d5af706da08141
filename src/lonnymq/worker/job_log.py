"""What the worker logs about messages, in one place: texts, levels and fields.

Each attempt ends with one record, written when the database has its outcome. An error is in the record once:
as `exc_info` if there is a traceback, otherwise in the text. All records have the same fields, as `extra`;
`fields_of` lists them.
"""

from __future__ import annotations

import logging
import re
import traceback
from time import monotonic
from types import TracebackType
from typing import Any

from lonnymq.client.produce import TASK_HEADER
from lonnymq.commands import Result
from lonnymq.errors import PayloadError, WrongArguments
from lonnymq.formatting import duration
from lonnymq.worker.exceptions import Fail, Retry
from lonnymq.worker.execute import Discarded, GiveBack, Rejected, handler_frames, reason_of
from lonnymq.worker.job import AnyJob, NoJob
from lonnymq.worker.leased import LeasedMessage

log = logging.getLogger("lonnymq.worker.job")

TRACE_HEADER = "traceparent"
TRACE_PARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
REASONED = (Fail, PayloadError, Retry, WrongArguments)
"""Errors whose text says it all, unless they were raised because of another one."""

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


class JobLog:
    """`queue` is the schema, which the records carry. The worker logs starts and successes only if somebody
    wants them: there is one of each per message.
    """

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self.read_levels()

    def read_levels(self) -> None:
        """Called before messages start: asking for each of them would take longer than the rest."""
        self.is_about_starts = log.isEnabledFor(logging.DEBUG)
        self.is_about_successes = log.isEnabledFor(logging.INFO)

    def taken_over(self, leased: LeasedMessage) -> None:
        """The lease of the attempt before this one ran out: its worker was killed, stuck or cut off."""
        last = leased.message.stalled_consumer
        text = "%s is taken over: the lease of attempt %d ran out%s"
        who = f"; the last consumer was {last}" if last else ""
        self._write(logging.WARNING, "taken over", leased, text, leased.message.attempts - 1, who)

    def started(self, leased: LeasedMessage) -> None:
        self._write(logging.DEBUG, "started", leased, "%s started")

    def finished(self, leased: LeasedMessage, result: Result) -> None:
        """`result` is the database's answer to the outcome of the handler."""
        took = duration((_duration_s(leased) or 0) * 1000)
        outcome = leased.outcome
        match result:
            case Result.COMPLETED:
                self._write(logging.INFO, "completed", leased, "%s completed in %s", took)
            case Result.DEAD:
                what = "is dead" if leased.started_at is None else f"failed after {took}, and is dead"
                self._failed(leased, logging.ERROR, "dead", what)
            case Result.RETRIED if isinstance(outcome, GiveBack) and outcome.error is not None:
                what = f"failed after {took}, and is retried in {duration(outcome.delay_ms or 0)}"
                self._failed(leased, logging.WARNING, "retried", what)
            case Result.RETRIED:
                self._released(leased, took)
            case Result.REJECTED:  # `unknown_tasks` logs these, for many messages at a time
                self._write(logging.DEBUG, "rejected", leased, "%s is rejected: there is no handler here")
            case Result.DISCARDED:
                reason = outcome.reason if isinstance(outcome, Discarded) else ""
                self._write(logging.WARNING, "discarded", leased, "%s is discarded: %s", reason)
            case Result.CANCELLED:
                self._write(logging.INFO, "cancelled", leased, "%s ended after %s: it was cancelled", took)
            case _:
                text = "%s lost its lease; what it did in %s does not count"
                self._write(logging.WARNING, "lost", leased, text, took)

    def not_finished(self, leased: LeasedMessage, failure: BaseException) -> None:
        """The database refuses the outcome."""
        text = "%s could not be finished, and is served again when its lease ends"
        self._write(logging.ERROR, "not finished", leased, text, error=failure)

    def not_committed(self, leased: LeasedMessage) -> None:
        """The handler completed the message, but its transaction is still open or was rolled back."""
        text = (
            "%s was completed in a transaction that is not committed, so it is served again when its lease "
            "ends. Commit the transaction before the handler returns"
        )
        self._write(logging.WARNING, "not committed", leased, text)

    def _failed(self, leased: LeasedMessage, level: int, outcome: str, what: str) -> None:
        error = leased.error
        if error is None or (isinstance(error, REASONED) and not _has_cause(error)):
            reason = leased.outcome.error if isinstance(leased.outcome, GiveBack | Rejected) else None
            self._write(level, outcome, leased, f"%s {what}: %s", reason)
        else:
            self._write(level, outcome, leased, f"%s {what}", error=error)

    def _released(self, leased: LeasedMessage, took: str) -> None:
        if leased.started_at is None:
            self._write(logging.DEBUG, "released", leased, "%s is released: it was not started")
            return
        reason = (
            leased.stop_reason or (isinstance(leased.error, Retry) and reason_of(leased.error)) or "not ready"
        )
        self._write(logging.INFO, "released", leased, "%s is released after %s: %s", took, reason)

    def _write(
        self,
        level: int,
        outcome: str,
        leased: LeasedMessage,
        text: str,
        *arguments: object,
        error: BaseException | None = None,
    ) -> None:
        if not log.isEnabledFor(level):
            return
        try:
            log.log(
                level,
                text,
                Described(leased),
                *arguments,
                exc_info=None if error is None else exc_info_of(leased, error),
                extra=fields_of(leased, self._queue, outcome),
            )
        except Exception:  # noqa: BLE001 - a filter of the app fails, which must not decide what happens to the message
            if logging.raiseExceptions:
                traceback.print_exc()


class Described:
    """A message in a text; it is formatted only if the record is."""

    __slots__ = ("_leased",)

    def __init__(self, leased: LeasedMessage) -> None:
        self._leased = leased

    def __str__(self) -> str:
        message = self._leased.message
        return (
            f"{self._leased.handler.name} (message {message.id}, channel {message.channel},"
            f" attempt {message.attempts})"
        )


def fields_of(leased: LeasedMessage, queue: str, outcome: str) -> dict[str, Any]:
    message = leased.message
    duration_s = _duration_s(leased)
    return {
        "queue": queue,
        "lane": message.lane,
        "channel": message.channel,
        "message_id": message.id,
        "task": (message.headers or {}).get(TASK_HEADER) or leased.handler.name,
        "attempt": message.attempts,
        "outcome": outcome,
        "duration_ms": None if duration_s is None else round(duration_s * 1000, 1),
        "trace_id": trace_id_of(message.headers),
    }


def _duration_s(leased: LeasedMessage) -> float | None:
    """How long its handler took, or has been running; None if it was not started."""
    if leased.duration_s is None and leased.started_at is not None:
        return monotonic() - leased.started_at
    return leased.duration_s


def fields_of_current_job() -> dict[str, Any]:
    """The same fields, as far as they are known, for what a handler itself logs; none outside of handlers."""
    try:
        job = AnyJob.current()
    except NoJob:
        return {}
    return {
        "queue": job.schema,
        "lane": job.message.lane,
        "channel": job.channel,
        "message_id": job.id,
        "task": job.task,
        "attempt": job.attempt,
        "trace_id": trace_id_of(job.message.headers),
    }


def trace_id_of(headers: dict[str, Any] | None) -> str | None:
    """The id of the trace that the message belongs to, from a W3C `traceparent` header."""
    found = TRACE_PARENT.fullmatch(str((headers or {}).get(TRACE_HEADER, "")))
    return None if found is None else found.group(1)


def exc_info_of(leased: LeasedMessage, error: BaseException) -> ExcInfo:
    return type(error), error, handler_frames(leased.handler, error)


def _has_cause(error: BaseException) -> bool:
    return error.__cause__ is not None or (error.__context__ is not None and not error.__suppress_context__)
