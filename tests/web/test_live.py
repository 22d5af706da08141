"""The poller behind open pages."""

import threading

import pytest

from lonnymq import Queue
from lonnymq.web import live
from lonnymq.web.live import Live

WAIT_S = 20


def test_it_stops_and_starts_over(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read before a pause is not shown after it, and no rate is the average of the pause."""
    monkeypatch.setattr(live, "IDLE_S", 0.2)
    queue.enqueue(1, channel="acme")
    queue.dispatch()
    numbers = Live(queue, interval=0.05)
    never = threading.Event()
    while not numbers.snapshot().is_complete:
        never.wait(0.01)
    assert numbers.snapshot().channels["acme"].stats.due == 1
    [polling] = [one for one in threading.enumerate() if one.name == "lonnymq-web-live"]
    polling.join(WAIT_S)
    assert not polling.is_alive()
    before = len(numbers.points())
    queue.channel("acme").delete(with_messages=True)
    assert "acme" not in numbers.snapshot().channels
    assert len(numbers.points()) < before
    numbers.close()
