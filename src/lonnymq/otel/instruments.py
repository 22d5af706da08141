"""The four metrics of the messaging conventions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.metrics import Meter

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)


class Instruments:
    def __init__(self, meter: Meter) -> None:
        self._operation_duration = meter.create_histogram(
            "messaging.client.operation.duration",
            unit="s",
            description="Duration of messaging operation initiated by a producer or consumer client.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self._process_duration = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Duration of processing operation.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self._sent = meter.create_counter(
            "messaging.client.sent.messages",
            unit="{message}",
            description="Number of messages producer attempted to send to the broker.",
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages",
            unit="{message}",
            description="Number of messages that were delivered to the application.",
        )

    def operation(self, seconds: float, attributes: Mapping[str, Any]) -> None:
        self._operation_duration.record(seconds, attributes)

    def processed(self, seconds: float, attributes: Mapping[str, Any]) -> None:
        self._process_duration.record(seconds, attributes)

    def sent(self, messages: int, attributes: Mapping[str, Any]) -> None:
        self._sent.add(messages, attributes)

    def consumed(self, messages: int, attributes: Mapping[str, Any]) -> None:
        self._consumed.add(messages, attributes)
