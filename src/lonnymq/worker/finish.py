"""Completes, gives back, rejects or discards messages, many with one call, and checks those that handlers
completed. They wait here during an outage.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.calls import ask
from lonnymq.client.produce import TASK_HEADER
from lonnymq.commands import (
    MessageCompleteMany,
    MessageDiscardMany,
    MessageLeasedMany,
    MessageRejectMany,
    MessageRetryMany,
    Outcome,
    Result,
)
from lonnymq.errors import InvalidArgument
from lonnymq.payload import Payload
from lonnymq.statement import Command
from lonnymq.worker.collector import CallFailed, Collector
from lonnymq.worker.execute import (
    CompletedByHandler,
    Discarded,
    Done,
    GiveBack,
    HandlerOutcome,
    Rejected,
)
from lonnymq.worker.job_log import JobLog
from lonnymq.worker.leased import LeasedMessage, ids_and_tokens
from lonnymq.worker.outages import Outages

if TYPE_CHECKING:
    from lonnymq.prometheus.worker_metrics import WorkerMetrics

RESULTS_SIZE = 100  # messages per call, because each result can be large
DELAY_MAX_MS = 2**52  # the longest delay that the queue accepts


class Finisher:
    """`counts` is how many messages had which outcome. `on_finished` is called for each message when the
    database has it, or when nothing more can be done about it.
    """

    def __init__(
        self,
        queue: AsyncQueue,
        outages: Outages,
        job_log: JobLog,
        on_finished: Callable[[LeasedMessage], None],
        metrics: WorkerMetrics | None = None,
    ) -> None:
        self._queue = queue
        self._job_log = job_log
        self._outages = outages
        self._on_finished = on_finished
        self._metrics = metrics
        self._to_complete: Collector[LeasedMessage] = Collector(self._complete)
        self._to_complete_with_result: Collector[tuple[LeasedMessage, Payload]] = Collector(
            self._complete_with_result, RESULTS_SIZE
        )
        self._to_give_back: Collector[tuple[LeasedMessage, GiveBack]] = Collector(self._give_back)
        self._to_discard: Collector[tuple[LeasedMessage, Discarded]] = Collector(self._discard)
        self._to_verify: Collector[LeasedMessage] = Collector(self._verify)
        self._to_reject: Collector[tuple[LeasedMessage, Rejected]] = Collector(self._reject)
        self._collectors: tuple[Collector[Any], ...] = (
            *(self._to_complete, self._to_complete_with_result, self._to_give_back),
            *(self._to_discard, self._to_verify, self._to_reject),
        )
        self.counts: Counter[str] = Counter()

    def finish(self, leased: LeasedMessage, outcome: HandlerOutcome) -> None:
        leased.outcome = outcome
        if isinstance(outcome, Done):
            if outcome.result is None:
                self._to_complete.add(leased)
            else:
                self._to_complete_with_result.add((leased, outcome.result))
        elif isinstance(outcome, GiveBack):
            self._to_give_back.add((leased, outcome))
        elif isinstance(outcome, Discarded):
            self._to_discard.add((leased, outcome))
        elif isinstance(outcome, CompletedByHandler):
            self._to_verify.add(leased)
        elif isinstance(outcome, Rejected):
            self._to_reject.add((leased, outcome))
        else:
            self._count(leased, Result.LOST)
            self._on_finished(leased)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for collector in self._collectors:
                group.create_task(collector.run())

    async def wait_until_idle(self) -> None:
        for collector in self._collectors:
            await collector.wait_until_idle()

    @property
    def backlog(self) -> int:
        return sum(len(collector) for collector in self._collectors)

    async def _complete(self, messages: list[LeasedMessage]) -> None:
        await self._send(messages, MessageCompleteMany(*ids_and_tokens(messages)))

    async def _complete_with_result(self, items: list[tuple[LeasedMessage, Payload]]) -> None:
        messages = [leased for leased, _ in items]
        results = [result.content for _, result in items]
        types = [result.content_type for _, result in items]
        command = MessageCompleteMany(*ids_and_tokens(messages), results, types)
        try:
            await self._send(messages, command)
        except InvalidArgument as error:  # the result is too large, as it would be after another attempt
            [leased] = messages
            text = f"the result of {leased.handler.name} is refused: {error}"
            self.finish(leased, GiveBack(None, text, is_final=True))

    async def _give_back(self, items: list[tuple[LeasedMessage, GiveBack]]) -> None:
        messages = [leased for leased, _ in items]
        delays = [None if back.delay_ms is None else min(back.delay_ms, DELAY_MAX_MS) for _, back in items]
        errors = [back.error for _, back in items]
        are_final = [back.is_final for _, back in items] if any(back.is_final for _, back in items) else None
        ids, tokens = ids_and_tokens(messages)
        command = MessageRetryMany(ids, tokens, errors=errors, delays_ms=delays, are_final=are_final)
        await self._send(messages, command)

    async def _discard(self, items: list[tuple[LeasedMessage, Discarded]]) -> None:
        messages = [leased for leased, _ in items]
        reasons = [discarded.reason for _, discarded in items]
        await self._send(messages, MessageDiscardMany(*ids_and_tokens(messages), reasons))

    async def _reject(self, items: list[tuple[LeasedMessage, Rejected]]) -> None:
        messages = [leased for leased, _ in items]
        errors = [rejected.error for _, rejected in items]
        timeout_ms = items[0][1].timeout_ms  # the same for all messages of a worker
        if timeout_ms is not None:
            timeout_ms = min(timeout_ms, DELAY_MAX_MS)
        await self._send(messages, MessageRejectMany(*ids_and_tokens(messages), errors, timeout_ms))

    async def _verify(self, messages: list[LeasedMessage]) -> None:
        """Find out whether the transactions in which handlers completed these messages are committed."""
        await self._send(messages, MessageLeasedMany(*ids_and_tokens(messages)), self._count_verified)

    async def _send(
        self,
        messages: list[LeasedMessage],
        command: Command[list[Outcome]],
        count: Callable[[LeasedMessage, Result], None] | None = None,
    ) -> None:
        observed = [leased.message for leased in messages] if self._queue.observers else ()
        try:
            outcomes = await self._outages.retry(lambda: self._queue.perform(ask(command, None, observed)))
        except Exception as error:
            if len(messages) > 1:
                raise CallFailed from error
            if isinstance(error, InvalidArgument) and getattr(command, "results", None) is not None:
                raise
            self._job_log.not_finished(messages[0], error)
            outcomes = []
        for leased, outcome in zip(messages, outcomes, strict=False):
            (count or self._count)(leased, outcome.result)
        for leased in messages:
            leased.error = None  # its traceback refers to the message
            self._on_finished(leased)

    def _count(self, leased: LeasedMessage, result: Result) -> None:
        is_released = result is Result.RETRIED and _has_no_error(leased)
        self._add("released" if is_released else str(result), leased)
        if result is not Result.COMPLETED or self._job_log.is_about_successes:
            self._job_log.finished(leased, result)

    def _add(self, outcome: str, leased: LeasedMessage) -> None:
        self.counts[outcome] += 1
        if self._metrics is not None:
            self._metrics.finished(_task(leased), leased.message.lane, outcome, leased.duration_s)

    def _count_verified(self, leased: LeasedMessage, result: Result) -> None:
        if result is Result.NOT_FOUND:
            self._count(leased, Result.COMPLETED)
        elif result is Result.LOST:
            self._count(leased, result)
        else:
            self._add("not committed", leased)
            self._job_log.not_committed(leased)


def _task(leased: LeasedMessage) -> str:
    """The label of its metrics: the task; empty without one. Unknown tasks share a label, because there
    may be any number of them.
    """
    if isinstance(leased.outcome, Rejected):
        return "unknown"
    return str((leased.message.headers or {}).get(TASK_HEADER, ""))


def _has_no_error(leased: LeasedMessage) -> bool:
    """Whether a message went back unharmed: the database's answer is the same as for a retry."""
    return isinstance(leased.outcome, GiveBack) and leased.outcome.error is None
