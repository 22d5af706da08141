"""What a worker tells about itself: what became of its messages, how long they waited and took, and its
slots.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from lonnymq.commands import Delivery

WAIT_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0)
PROCESS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


class WorkerMetrics:
    """The worker's event loop calls it."""

    def __init__(self, registry: CollectorRegistry, schema: str) -> None:
        self._schema = schema
        kinds = ["queue", "task", "lane"]
        self._totals = {
            "completed": Counter("lonnymq_completed", "Messages completed.", kinds, registry=registry),
            "retried": Counter("lonnymq_retried", "Failed attempts to be retried.", kinds, registry=registry),
            "dead": Counter("lonnymq_dead", "Messages that became dead letters.", kinds, registry=registry),
        }
        self._wait = Histogram(
            "lonnymq_wait_seconds",
            "Time from when a message was due until its handler started.",
            ["queue", "lane"],
            buckets=WAIT_SECONDS,
            registry=registry,
        )
        self._process = Histogram(
            "lonnymq_process_seconds",
            "Duration of handlers, by what became of the message.",
            ["queue", "task", "outcome"],
            buckets=PROCESS_SECONDS,
            registry=registry,
        )
        self._running = Gauge(
            "lonnymq_worker_running", "Handlers that run now.", ["queue"], registry=registry
        )
        self._capacity = Gauge(
            "lonnymq_worker_capacity", "Handlers that may run at a time.", ["queue"], registry=registry
        )
        self._up = Gauge(
            "lonnymq_worker_up",
            "1 while the worker serves; 0 while it is paused, drains, or cannot reach the database.",
            ["queue"],
            registry=registry,
        )

    def watch(self, running: Callable[[], int], is_up: Callable[[], bool], *, capacity: int) -> None:
        """Read these whenever somebody asks for the metrics."""
        self._running.labels(self._schema).set_function(running)
        self._up.labels(self._schema).set_function(is_up)
        self._capacity.labels(self._schema).set(capacity)

    def started(self, message: Delivery, since_dequeue_s: float) -> None:
        waited_s = (message.waited_ms or 0) / 1000 + since_dequeue_s
        self._wait.labels(self._schema, message.lane).observe(waited_s)

    def finished(self, task: str, lane: str, outcome: str, duration_s: float | None) -> None:
        """`duration_s` is None if the handler was not started."""
        if (total := self._totals.get(outcome)) is not None:
            total.labels(self._schema, task, lane).inc()
        if duration_s is not None:
            self._process.labels(self._schema, task, outcome.replace(" ", "_")).observe(duration_s)
