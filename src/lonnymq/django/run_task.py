"""Runs one attempt of a task, and sends Django's signals.

Connections are closed before and after an attempt as Django does it for a request. A receiver of a signal
that raises is logged, and does not change what happens to the task. Whether a failed attempt is the last one
is decided by the task's policy, as the worker itself decides it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from inspect import iscoroutinefunction
from traceback import format_exception
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections, connections, reset_queries
from django.db.transaction import TransactionManagementError
from django.utils import timezone

from lonnymq.commands import Delivery
from lonnymq.django.backend import LonnyMQBackend
from lonnymq.django.completion import running
from lonnymq.django.task_framework import (
    AnyResult,
    AnyTask,
    TaskContext,
    TaskError,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from lonnymq.django.task_results import Call, of_delivery, of_message
from lonnymq.errors import BrokenContent, PayloadError
from lonnymq.worker.exceptions import Discard, Fail, JobStopped, Retry
from lonnymq.worker.execute import handler_frames
from lonnymq.worker.job import AnyJob
from lonnymq.worker.stop_reason import StopReason

log = logging.getLogger("lonnymq.django")

INTERRUPTIONS = (JobStopped, asyncio.CancelledError)


class TaskHandler:
    """What a worker runs for the messages of one task of a backend."""

    calling_packages = (__package__, "django_tasks", "django.tasks")

    def __init__(self, name: str, task: AnyTask, backend: LonnyMQBackend, worker: str) -> None:
        self.name = name
        self.policy = backend.policy_of(task)
        self.is_async = iscoroutinefunction(task.func)
        self.backend = backend
        self.worker = worker

    def call_for(self, message: Delivery) -> Callable[[], Any]:
        """Raises BrokenContent if the message is not a call: another attempt would find the same."""
        try:
            call = Call.of(message)
        except (KeyError, TypeError) as error:
            raise BrokenContent(f"message {message.id} is not a call of a task: {error!r}") from error
        attempt = Attempt(self, message, call)
        return attempt.run_async if self.is_async else attempt.run


class Attempt:
    """One attempt. Its `result` is what signals and the context of the task get."""

    def __init__(self, handler: TaskHandler, message: Delivery, call: Call) -> None:
        self._handler = handler
        self._message = message
        self._call = call
        self._task = call.task()
        self._sender = type(handler.backend)
        self._result: AnyResult
        self._is_completed = False

    def run(self) -> Any:
        _prepare_connections()
        try:
            result = self._begin()
            task_started.send_robust(self._sender, task_result=result)
            self._result = result
            current = running.set(self)
            try:
                value = self._task.call(*self._arguments(result), **result.kwargs)
                _check_no_transaction()
                kept = None if self._is_completed else self._succeed(result, value)
            except BaseException as error:
                if self._fail(result, error):
                    task_finished.send_robust(self._sender, task_result=result)
                raise
            finally:
                running.reset(current)
            task_finished.send_robust(self._sender, task_result=result)
            return kept
        finally:
            _release_connections()

    @property
    def database(self) -> str:
        """The alias of the database that has the queue."""
        return self._handler.backend.settings.database

    def completed_with(self, value: Any) -> dict[str, Any]:
        """What is kept when the function completes the task itself."""
        kept = self._succeed(self._result, value)
        self._is_completed = True
        return kept

    async def run_async(self) -> Any:
        await sync_to_async(_prepare_connections)()
        try:
            result = await sync_to_async(self._begin)()
            await task_started.asend_robust(self._sender, task_result=result)
            try:
                kept = self._succeed(
                    result, await self._task.acall(*self._arguments(result), **result.kwargs)
                )
            except BaseException as error:
                if self._fail(result, error):
                    await task_finished.asend_robust(self._sender, task_result=result)
                raise
            await task_finished.asend_robust(self._sender, task_result=result)
            return kept
        finally:
            await sync_to_async(_release_connections)()

    def _begin(self) -> AnyResult:
        now = timezone.now()
        result = of_delivery(self._message, self._call, self._task, self._handler.worker, now)
        if self._message.attempts > 1 and (before := self._before()) is not None:
            object.__setattr__(result, "started_at", before.started_at or now)
            result.errors.extend(before.errors)
        return result

    def _before(self) -> AnyResult | None:
        """What earlier attempts did, which a delivery does not tell. The task runs without it if it cannot be
        read.
        """
        try:
            stored = self._handler.backend.queue.get(self._message.id)
        except Exception:
            log.warning("could not read the earlier attempts of %s", self._call.path, exc_info=True)
            return None
        return None if stored is None else of_message(stored)

    def _arguments(self, result: AnyResult) -> list[Any]:
        context = [TaskContext(task_result=result)] if self._task.takes_context else []
        return [*context, *result.args]

    def _succeed(self, result: AnyResult, value: Any) -> dict[str, Any]:
        """Another attempt would do the work again and return the same, so a value that cannot be kept is
        final.
        """
        try:
            plain = normalize_json(value)
        except (TypeError, ValueError) as error:
            raise Fail(
                f"TypeError: the task returned a {type(value).__name__}, which is not JSON serializable:"
                f" {error}"
            ) from None
        self._finish(result, TaskResultStatus.SUCCESSFUL)
        object.__setattr__(result, "_return_value", plain)
        return self._call.kept(plain, result)

    def _fail(self, result: AnyResult, error: BaseException) -> bool:
        """Note the error in the result. Returns whether the task has failed for good."""
        if not self._is_final(error):
            return False
        self._finish(result, TaskResultStatus.FAILED)
        kind = type(error)
        text = "".join(format_exception(kind, error, handler_frames(self._handler, error)))
        path = f"{kind.__module__}.{kind.__qualname__}"
        result.errors.append(TaskError(exception_class_path=path, traceback=text))
        return True

    def _is_final(self, error: BaseException) -> bool:
        job = AnyJob.current()
        is_asked_for = isinstance(error, Retry | Fail | Discard)
        if isinstance(error, INTERRUPTIONS) or (job.is_interrupted and not is_asked_for):
            if job.stop_reason is StopReason.CANCELLED:
                return True
            if job.stop_reason is not StopReason.TIMEOUT:
                return False
        if isinstance(error, Fail | Discard | PayloadError):
            return True
        if isinstance(error, Retry) and not error.counts:
            return False
        return self._message.attempts >= (self._handler.policy.max_failures or 1)

    def _finish(self, result: AnyResult, status: Any) -> None:
        now: datetime = timezone.now()
        object.__setattr__(result, "finished_at", now)
        object.__setattr__(result, "status", status)


def _prepare_connections() -> None:
    """With DEBUG, connections collect their queries, which would fill the memory of a worker."""
    reset_queries()
    close_old_connections()


def _check_no_transaction() -> None:
    """What a task wrote in a transaction that it left open is rolled back, so it has failed."""
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:
            raise TransactionManagementError(
                f"the task left a transaction of the database {connection.alias!r} open: use "
                "`with transaction.atomic():`"
            )


def _release_connections() -> None:
    """A task that was interrupted may have left a transaction open: the next task in this thread must not
    become part of it.
    """
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:
            connection.close()
            del connections[connection.alias]
    close_old_connections()
