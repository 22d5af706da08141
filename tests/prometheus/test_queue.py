"""The metrics of the whole queue."""

from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from lonnymq import Queue
from lonnymq.prometheus.queue_metrics import CACHE_S, Channels, QueueMetrics
from tests.prometheus.scrape import Samples, collected, names, value


@pytest.fixture
def queue(dsn: str) -> Iterator[Queue]:
    with Queue(dsn) as made:
        yield made


class Exporter:
    """Metrics whose time stands still until a test moves it."""

    def __init__(self, queue: Queue, channels: Channels = None) -> None:
        self.now = 0.0
        self._registry = CollectorRegistry()
        self._registry.register(QueueMetrics(queue, channels, lambda: self.now))

    def scrape(self) -> Samples:
        return collected(self._registry)


def test_one_loud_tenant_and_others(queue: Queue) -> None:
    queue.enqueue_many(range(300), channel="loud")
    queue.enqueue_many(range(2), channel="quiet")
    queue.enqueue(1, channel="mail", lane="mail")
    queue.enqueue(1, channel="paused")
    queue.enqueue(1, channel="later", delay=3600)
    queue.channel("paused").set(paused=True)
    queue.dispatch()
    dead, *_ = queue.dequeue(3)
    queue.fail(dead, "no")
    queue.dispatch()
    exporter = Exporter(queue)
    exporter.scrape()
    exporter.now += CACHE_S
    found = exporter.scrape()

    def messages(state: str, lane: str = "") -> float | None:
        return value(found, "lonnymq_messages", state=state, lane=lane)

    assert [messages("scheduled"), messages("leased"), messages("dead")] == [1, 2, 1]
    assert (messages("due", "default") or 0) + (messages("due", "mail") or 0) == 301
    assert value(found, "lonnymq_noisy_channels") == 1
    assert value(found, "lonnymq_channels", state="noisy") == 1
    assert value(found, "lonnymq_channels", state="paused") == 1
    assert value(found, "lonnymq_channels", state="scheduled") == 1
    assert value(found, "lonnymq_fairness_jain") == 1
    assert value(found, "lonnymq_served_total") == 3
    assert value(found, "lonnymq_workers") == value(found, "lonnymq_unknown_tasks") == 0
    everyone = value(found, "lonnymq_oldest_due_seconds", scope="all") or 0
    assert 0 < (value(found, "lonnymq_oldest_due_seconds", scope="quiet") or 0) <= everyone
    assert not any(name == "channel" for _, labels in found for name, _ in labels)


def test_an_empty_queue(queue: Queue) -> None:
    found = Exporter(queue).scrape()
    assert value(found, "lonnymq_queue_readable") == 1
    assert value(found, "lonnymq_messages", state="due", lane="default") == 0
    assert value(found, "lonnymq_oldest_due_seconds", scope="quiet") == 0
    assert (value(found, "lonnymq_fairness_jain"), value(found, "lonnymq_noisy_channels")) == (1, 0)


def test_numbers_are_kept_for_some_seconds(queue: Queue) -> None:
    exporter = Exporter(queue)
    for expected, step in ((1, CACHE_S / 2), (1, CACHE_S / 2), (3, 0.0)):
        queue.enqueue(1)
        queue.dispatch()
        found = exporter.scrape()
        assert value(found, "lonnymq_messages", state="due", lane="default") == expected
        exporter.now += step


@pytest.mark.parametrize(("channels", "expected"), [(1, {"b"}), (["a", "none"], {"a"}), (9, {"a", "b"})])
def test_channels_that_were_asked_for(queue: Queue, channels: Channels, expected: set[str]) -> None:
    queue.enqueue_many(range(3), channel="a")
    queue.enqueue_many(range(90), channel="b")
    queue.dispatch()
    found = Exporter(queue, channels).scrape()
    assert {dict(labels)["channel"] for name, labels in found if name == "lonnymq_channel_noisy"} == expected
    for name in expected:
        assert value(found, "lonnymq_channel_noisy", channel=name) == (name == "b")
        due = value(found, "lonnymq_channel_messages", channel=name, state="due")
        assert due == {"a": 3, "b": 90}[name]


def test_a_queue_that_cannot_be_read(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    exporter = Exporter(queue)
    exporter.scrape()
    queue.close()
    for _ in range(3):
        exporter.now += CACHE_S
        found = exporter.scrape()
    assert value(found, "lonnymq_queue_readable") == 0
    assert names(found) == {"lonnymq_queue_readable"}
    assert len([record for record in caplog.records if record.name == "lonnymq.metrics"]) == 1
