"""What needs attention, in words."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from lonnymq.commands import ListedWorker
from lonnymq.monitor.state import QueueSnapshot
from lonnymq.web.attention import attention
from lonnymq.web.summary import summarise
from tests.cli.snapshots import channel, queue, snapshot

CHANNELS = [
    channel("loud", due=900, leased=10, oldest_due_ms=60_000),
    channel("quiet", due=2, oldest_due_ms=12_000),
    channel("starved", due=50, oldest_due_ms=9_000),
    channel("capped", due=5, leased=2, max_concurrency=2, blocked_by="concurrency", oldest_due_ms=90_000),
    channel("slow", due=5, rate="2/min", blocked_by="rate", oldest_due_ms=30_000),
    channel("off", due=1, paused=True, blocked_by="paused", oldest_due_ms=7_200_000),
    channel("off-too", due=1, paused=True, blocked_by="paused", oldest_due_ms=20_000),
    channel("full", leased=4, max_size=4),
]
SERVED = {"loud": 100, "quiet": 100, "starved": 3}


def polled(**numbers: Any) -> QueueSnapshot:
    after = [replace(one, served=SERVED.get(one.channel, 0)) for one in CHANNELS]
    found = snapshot(CHANNELS, after)
    return replace(found, queue=queue(**numbers))


def worker(name: str, **values: Any) -> ListedWorker:
    fields: dict[str, Any] = {
        "id": UUID(int=1),
        "name": name,
        "host": "h",
        "pid": 1,
        "version": "1",
        "started_at": 0,
        "seen_at": 0,
        "is_alive": True,
        "state": "serving",
        "requested": "serving",
        "concurrency": 1,
        "running": 0,
        "lanes": None,
        "tasks": [],
        "unknown_tasks": [],
    }
    return ListedWorker(**fields | values)


def test_everything_at_once() -> None:
    found = polled(
        due=900,
        workers=1,
        dead=3,
        unknown_tasks=["bill", "", "c", "d"],
        blocked_by="queue limit",
        max_concurrency=10,
    )
    workers = [worker("a", is_alive=False), worker("b", requested="paused"), worker("c", is_alive=False)]
    said = [(str(one.urgency), one.text, one.page) for one in attention(summarise(found), workers)]
    assert said == [
        ("now", "No worker has a handler for the task bill.", "/workers"),
        ("now", "No worker has a handler for messages without a task.", "/workers"),
        ("now", "No worker has a handler for the task c.", "/workers"),
        ("now", "No worker has a handler for 1 more task.", "/workers"),
        ("now", "2 workers stopped reporting: dead, or cut off from the database.", "/workers"),
        ("now", "starved gets 5.7 % of its entitlement.", "/tenant?name=starved"),
        ("now", "full is full: it may hold 4 messages, and more are refused.", "/tenant?name=full"),
        (
            "now",
            "A quiet tenant has waited for 12 s, although others make the load.",
            "/tenants?sort=oldest",
        ),
        ("soon", "The whole queue runs as many messages as it may: 10.", "/health"),
        ("soon", "Worker b is paused.", "/workers"),
        ("soon", "loud is noisy: 94 % of the load is its own, while 2 others wait.", "/tenant?name=loud"),
        ("soon", "off is paused: 1 message due, the oldest for 2 h.", "/tenant?name=off"),
        (
            "soon",
            "capped is at its limit of 2 running: 5 messages due, the oldest for 90 s.",
            "/tenant?name=capped",
        ),
        (
            "soon",
            "slow is held to its rate of 2/min: 5 messages due, the oldest for 30 s.",
            "/tenant?name=slow",
        ),
        ("soon", "1 more tenant is held back by their own limits or a pause.", "/tenants?sort=blocked"),
        ("soon", "3 messages failed for good and became dead letters.", "/dead"),
    ]


def test_a_paused_queue() -> None:
    said = [one.text for one in attention(summarise(polled(due=9, paused=True)), [])]
    assert said[0] == "The whole queue is paused: nothing is served."
    assert not any("off" in text or "No worker" in text for text in said)


def test_nothing() -> None:
    assert attention(summarise(replace(snapshot([]), queue=queue())), []) == []
    assert attention(summarise(snapshot([channel("acme")])), []) == []


def test_a_channel_that_was_noisy_lately() -> None:
    calm = snapshot([channel("loud", due=900, oldest_due_ms=5), channel("quiet")])
    assert summarise(calm).noisy == frozenset()
    summary = summarise(calm, frozenset({"loud", "gone"}))
    assert (summary.noisy, summary.quiet_waiting_count, summary.oldest_quiet_ms) == (
        frozenset({"loud"}),
        0,
        None,
    )
    assert summary.loudest[0].channel == "loud"
