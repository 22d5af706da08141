"""The HTTP server of a worker's metrics, in threads of its own."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.registry import Collector

from lonnymq.client.base import QueueBase
from lonnymq.client.queue import Queue
from lonnymq.errors import LonnyMQError, MetricsPortUnavailable
from lonnymq.prometheus.call_metrics import CallMetrics
from lonnymq.prometheus.queue_metrics import Channels, QueueMetrics
from lonnymq.prometheus.worker_metrics import WorkerMetrics

log = logging.getLogger("lonnymq.metrics")

POOL_SIZE = 1
CONNECT_TIMEOUT_S = 2


@dataclass(frozen=True)
class MetricsSettings:
    """Port 0: one that is free, which the log names. With `is_about_queue`, the numbers of the whole queue
    are exported, too.
    """

    port: int
    host: str = "127.0.0.1"
    channels: Channels = None
    is_about_queue: bool = True


class MetricsServer:
    """Exports the metrics of a worker that runs on `queue`, until it is closed."""

    def __init__(self, settings: MetricsSettings, queue: QueueBase) -> None:
        self._queue = queue
        registry = CollectorRegistry()
        self.worker = WorkerMetrics(registry, queue.schema)
        self._calls = CallMetrics(registry)
        self._reader = _reader(queue) if settings.is_about_queue else None
        if self._reader is not None:
            registry.register(QueueMetrics(self._reader, settings.channels))
        shown = CollectorRegistry()
        shown.register(WithoutTimes(registry))
        self._server = _listen(settings, shown)
        queue.observe(*queue.observers, self._calls)
        log.info("metrics are at http://%s:%d/metrics", settings.host, self.port)

    @property
    def port(self) -> int:
        return self._server.server_port

    def close(self) -> None:
        self._queue.observe(*(one for one in self._queue.observers if one is not self._calls))
        self._server.shutdown()
        self._server.server_close()
        if self._reader is not None:
            self._reader.close()


class WithoutTimes(Collector):
    """All metrics of a registry, but not the times when its series began, one more series for each."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [one for one in metric.samples if not one.name.endswith("_created")]
            yield metric


def _reader(queue: QueueBase) -> Queue | None:
    """A client for the numbers of the queue, with one connection of its own."""
    try:
        reader = Queue.beside(queue, pool_size=POOL_SIZE, timeout=CONNECT_TIMEOUT_S)
    except LonnyMQError as error:
        log.warning("the metrics of the whole queue cannot be read, and are not exported: %s", error)
        return None
    reader.observe()
    return reader


def _listen(settings: MetricsSettings, registry: CollectorRegistry) -> WSGIServer:
    try:
        server, _ = start_http_server(settings.port, settings.host, registry)
    except OSError as error:
        raise MetricsPortUnavailable(
            f"could not open port {settings.port} on {settings.host} for metrics: {error.strerror or error}",
            "choose another port, or stop the program that uses it",
        ) from error
    return server
