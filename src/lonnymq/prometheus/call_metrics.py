"""What the calls of a queue tell: how many messages this process has created, and how long dispatches
take.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram

from lonnymq.client.observers import Observer, Operation
from lonnymq.client.produce import TASK_HEADER
from lonnymq.commands import (
    Created,
    Delivery,
    Dispatch,
    Fired,
    MessageCreate,
    MessageCreateMany,
    Result,
    ScheduleFire,
)
from lonnymq.message_options import DEFAULT_LANE

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class CallMetrics(Observer):
    def __init__(self, registry: CollectorRegistry) -> None:
        self.created = Counter(
            "lonnymq_created",
            "Messages that this process created.",
            ["queue", "task", "lane"],
            registry=registry,
        )
        self.dispatch = Histogram(
            "lonnymq_dispatch_seconds",
            "Duration of the dispatches of this process, as calls of their own.",
            ["queue"],
            buckets=SECONDS,
            registry=registry,
        )

    def begin(self, schema: str, step: Any, messages: Sequence[Delivery]) -> Operation | None:  # noqa: ARG002
        if isinstance(step, MessageCreate | MessageCreateMany | ScheduleFire):
            return _Create(self, schema, step)
        if isinstance(step, Dispatch):
            return _Dispatch(self, schema, step)
        return None


class _Create:
    def __init__(self, metrics: CallMetrics, schema: str, step: Any) -> None:
        self._metrics = metrics
        self._schema = schema
        self.step = step

    def succeed(self, answer: Any) -> None:
        for (task, lane), count in _created(self.step, answer).items():
            self._metrics.created.labels(self._schema, task, lane).inc(count)

    def fail(self, error: BaseException) -> None:
        """Nothing was created."""


class _Dispatch:
    def __init__(self, metrics: CallMetrics, schema: str, step: Dispatch) -> None:
        self._metrics = metrics
        self._schema = schema
        self._began = perf_counter()
        self.step = step

    def succeed(self, answer: bool) -> None:  # noqa: ARG002, FBT001 - what dispatch returns
        self._metrics.dispatch.labels(self._schema).observe(perf_counter() - self._began)

    def fail(self, error: BaseException) -> None:
        """A dispatch that failed says nothing about how long dispatches take."""


def _created(step: Any, answer: Any) -> Counts[tuple[str, str]]:
    """How many messages of which task and lane were created."""
    if isinstance(step, ScheduleFire):
        options: Mapping[str, Any] = step.options or {}
        fired: Fired = answer
        return Counts({_kind(options.get("headers"), options.get("lane")): fired.created})
    if isinstance(step, MessageCreate):
        return Counts([_kind(step.headers, step.lane)] if answer.result is Result.CREATED else [])
    made: Sequence[Created] = answer
    return Counts(
        _kind(
            None if step.headers is None else step.headers[n], None if step.lanes is None else step.lanes[n]
        )
        for n, one in enumerate(made)
        if one.result is Result.CREATED
    )


def _kind(headers: Mapping[str, Any] | None, lane: str | None) -> tuple[str, str]:
    task = (headers or {}).get(TASK_HEADER)
    return (task if isinstance(task, str) else ""), lane or DEFAULT_LANE
