"""The metrics of the whole queue as text, from numbers that a program has read already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from lonnymq.commands import Lane
from lonnymq.monitor.state import QueueSnapshot
from lonnymq.prometheus.queue_metrics import queue_families, readable_family


@dataclass(frozen=True, slots=True)
class MetricsText:
    content: bytes
    content_type: str


def queue_text(
    schema: str, snapshot: QueueSnapshot | None, lanes: Sequence[Lane], accept: str = ""
) -> MetricsText:
    """In the format that the header `Accept` asks for. Without a snapshot, it says that the numbers could not
    be read.
    """
    registry = CollectorRegistry()
    registry.register(_Read(schema, snapshot, lanes))
    encode, content_type = choose_encoder(accept)
    return MetricsText(encode(registry), content_type)


@dataclass(frozen=True, slots=True, eq=False)  # a registry keeps its collectors in a dict
class _Read(Collector):
    schema: str
    snapshot: QueueSnapshot | None
    lanes: Sequence[Lane]

    def collect(self) -> Iterator[Metric]:
        yield readable_family(self.schema, is_readable=self.snapshot is not None)
        if self.snapshot is not None:
            yield from queue_families(self.schema, self.snapshot, self.lanes)
