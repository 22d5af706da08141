"""A queue whose spans and metrics stay in memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.test.test_base import TestBase

from lonnymq import Queue


@dataclass
class Telemetry:
    """What was exported. `providers` are the arguments of `instrument` that send it here."""

    tracer_provider: TracerProvider
    exporter: Any
    meter_provider: Any
    reader: Any

    @property
    def providers(self) -> dict[str, Any]:
        return {"tracer_provider": self.tracer_provider, "meter_provider": self.meter_provider}

    def spans(self, name: str | None = None) -> list[ReadableSpan]:
        """The spans that have ended, in the order of their start."""
        found = sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time)
        return [span for span in found if name is None or span.name.split()[0] == name]

    def points(self) -> dict[str, list[Any]]:
        """The data points of each metric."""
        found: dict[str, list[Any]] = {}
        for resource in self.reader.get_metrics_data().resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    found[metric.name] = list(metric.data.data_points)
        return found


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    tracers, exporter = TestBase.create_tracer_provider()  # type: ignore[no-untyped-call]
    meters, reader = TestBase.create_meter_provider()
    yield Telemetry(tracers, exporter, meters, reader)
    tracers.shutdown()
    meters.shutdown()


@pytest.fixture
def queue(dsn: str) -> Iterator[Queue]:
    with Queue(dsn) as made:
        yield made
