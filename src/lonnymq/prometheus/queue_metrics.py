"""The numbers of the whole queue. They are read from the database when somebody asks for the metrics, but not
more often than every few seconds, at the cost of one poll of `lonnymq top`.

A poll runs in a thread. If the database takes long, the numbers of the queue are missing from the answer, so
that Prometheus still gets the worker's own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from lonnymq.client.queue import Queue
from lonnymq.commands import Lane
from lonnymq.errors import ChannelForbidden, NotPermitted
from lonnymq.message_options import DEFAULT_LANE
from lonnymq.monitor.poll import Poller
from lonnymq.monitor.state import ChannelState, QueueSnapshot

log = logging.getLogger("lonnymq.metrics")

CACHE_S = 5.0  # Prometheus asks every 15 s or so; several servers may ask
POLL_TIMEOUT_S = 2.0
REFUSED_S = 60.0  # a login that may not read the numbers may be granted the role later

Channels = int | Sequence[str] | None
"""The channels that have metrics of their own: these, or this many of those with the most due messages."""


@dataclass(frozen=True)
class _Reading:
    """What one poll found."""

    snapshot: QueueSnapshot
    lanes: list[Lane]


class QueueMetrics(Collector):
    def __init__(
        self, queue: Queue, channels: Channels = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._queue = queue
        self._channels = channels
        self._clock = clock
        self._poller = Poller(queue, CACHE_S, dispatches=False)
        self._lock = threading.Lock()
        self._polling: threading.Thread | None = None
        self._reading: _Reading | None = None
        self._next_at = 0.0
        self._is_readable = False
        self._has_warned = False

    def describe(self) -> Iterable[Metric]:
        """Nothing is read when the collector is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        self._refresh()
        schema, reading = self._queue.schema, self._reading
        yield readable_family(schema, is_readable=self._is_readable)
        if reading is not None and self._is_readable:
            yield from queue_families(schema, reading.snapshot, reading.lanes)
            if self._channels is not None:
                yield from channel_families(schema, reading.snapshot, self._channels)

    def _refresh(self) -> None:
        """Poll, unless the last poll was a moment ago. Wait for it, but not for long."""
        with self._lock:
            polling = self._polling
            if polling is None or not polling.is_alive():
                if self._clock() < self._next_at:
                    return
                polling = self._polling = threading.Thread(target=self._poll, daemon=True)
                polling.start()
        polling.join(POLL_TIMEOUT_S)
        if polling.is_alive():
            self._is_readable = False

    def _poll(self) -> None:
        pause = CACHE_S
        try:
            lanes = self._queue.lanes()  # first: a login that is bound to channels may not call it
            self._reading = _Reading(self._poller.poll(), lanes)
        except Exception as error:  # noqa: BLE001 - whatever it is, the worker's own numbers are exported
            pause = REFUSED_S if isinstance(error, NotPermitted | ChannelForbidden) else CACHE_S
            self._fail(error)
        else:
            self._is_readable, self._has_warned = True, False
        self._next_at = self._clock() + pause

    def _fail(self, error: Exception) -> None:
        self._is_readable = False
        if not self._has_warned:
            self._has_warned = True
            log.warning("the metrics of the whole queue cannot be read, and are not exported: %s", error)


def readable_family(schema: str, *, is_readable: bool) -> Metric:
    text = "1 if the numbers of the queue could be read."
    return _gauge("lonnymq_queue_readable", text, ["queue"], {(schema,): float(is_readable)})


def queue_families(schema: str, snapshot: QueueSnapshot, lanes: Sequence[Lane]) -> Iterator[Metric]:
    stats = snapshot.queue
    if stats is None:
        return
    messages = GaugeMetricFamily(
        "lonnymq_messages",
        "Messages by state. Those that are due are counted per lane, as of the last dispatch.",
        labels=["queue", "state", "lane"],
    )
    for lane in lanes:
        messages.add_metric([schema, "due", lane.lane], lane.waiting)
    if not lanes:  # nothing was dispatched yet
        messages.add_metric([schema, "due", DEFAULT_LANE], stats.due or 0)
    for state, count in (("scheduled", stats.scheduled), ("leased", stats.leased), ("dead", stats.dead)):
        messages.add_metric([schema, state, ""], count or 0)
    yield messages
    oldest = GaugeMetricFamily(
        "lonnymq_oldest_due_seconds",
        "How long the oldest due message has waited: of all channels, and of those that are not noisy.",
        labels=["queue", "scope"],
    )
    oldest.add_metric([schema, "all"], (stats.oldest_due_ms or 0) / 1000)
    oldest.add_metric([schema, "quiet"], (snapshot.oldest_quiet_ms or 0) / 1000)
    yield oldest
    states = Counter((schema, channel_state(snapshot, one)) for one in snapshot.channels.values())
    yield _gauge("lonnymq_channels", "Channels by state.", ["queue", "state"], states)
    for name, text, value in (
        ("lonnymq_noisy_channels", "Channels that are noisy.", len(snapshot.noisy)),
        ("lonnymq_fairness_jain", "Jain's index of the channels that compete.", snapshot.jain),
        (
            "lonnymq_misallocated_ratio",
            "Part of what is served that others should get.",
            snapshot.misallocated,
        ),
        (
            "lonnymq_competing_channels",
            "Channels that could be served more, but for others.",
            snapshot.competing,
        ),
        ("lonnymq_workers", "Worker processes that are alive.", stats.workers),
        ("lonnymq_unknown_tasks", "Tasks that workers have met and none knows.", len(stats.unknown_tasks)),
    ):
        yield _gauge(name, text, ["queue"], {(schema,): value})
    served = CounterMetricFamily("lonnymq_served", "Messages that consumers have leased.", labels=["queue"])
    served.add_metric([schema], stats.served)
    yield served


def channel_families(schema: str, snapshot: QueueSnapshot, channels: int | Sequence[str]) -> Iterator[Metric]:
    """One series per channel, so only for channels that were asked for."""
    if isinstance(channels, int):
        loudest = sorted(snapshot.channels.values(), key=lambda one: (-one.load.messages, one.name))
        chosen = loudest[:channels]
    else:
        chosen = [snapshot.channels[name] for name in channels if name in snapshot.channels]
    messages = GaugeMetricFamily(
        "lonnymq_channel_messages", "Messages of some channels.", labels=["queue", "channel", "state"]
    )
    served = CounterMetricFamily(
        "lonnymq_channel_served", "Messages leased, of some channels.", labels=["queue", "channel"]
    )
    for channel in chosen:
        messages.add_metric([schema, channel.name, "due"], channel.stats.due)
        messages.add_metric([schema, channel.name, "leased"], channel.stats.leased)
        served.add_metric([schema, channel.name], channel.stats.served)
    yield messages
    yield served
    yield _gauge(
        "lonnymq_channel_oldest_due_seconds",
        "How long the oldest due message has waited, of some channels.",
        ["queue", "channel"],
        {(schema, channel.name): (channel.stats.oldest_due_ms or 0) / 1000 for channel in chosen},
    )
    yield _gauge(
        "lonnymq_channel_noisy",
        "1 if the channel is noisy, of some channels.",
        ["queue", "channel"],
        {(schema, channel.name): float(channel.name in snapshot.noisy) for channel in chosen},
    )


def channel_state(snapshot: QueueSnapshot, channel: ChannelState) -> str:
    """As in `lonnymq top`, in words that suit a label."""
    state = "noisy" if channel.state == "ready" and channel.name in snapshot.noisy else channel.state
    return state.replace(" ", "_")


def _gauge(name: str, text: str, labels: Sequence[str], values: Mapping[Any, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for names, value in values.items():
        family.add_metric(names, value)
    return family
