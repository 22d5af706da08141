"""A queue that has something on every page: tenants of all kinds, and traffic while a browser looks."""

import random
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from lonnymq import NewMessage, Queue
from lonnymq.client.calls import ask
from lonnymq.commands import HistoryBounds, HistoryFollow, ScheduleOpen, WorkerReport

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
QUIET = ("corner-shop", "globex", "initech", "umbrella", "wayne")
SLOW = "slow-partner"
"""Held back by its own limit, and with enough history for an estimate."""
WORKER = "mail-1:4711"
WORKER_ID = uuid.uuid4()
TASKS = ("invoice", "mail", "report")
RETRIED_ID_ERROR = "TimeoutError: bank did not answer within 5 s"


def fill(queue: Queue) -> None:
    queue.set(history=True, history_content=True)
    queue.channel("globex").set(weight=2)
    queue.channel(SLOW).set(max_concurrency=1)
    _finish_some(queue)
    queue.channel("umbrella").set(rate="50/s", burst=10)
    _fail_some(queue)
    queue.enqueue_many((message(number) for number in range(2_000)), channel="acme")
    for name in QUIET:
        queue.enqueue_many((message(number) for number in range(8)), channel=name)
    queue.enqueue_many((message(number, lane="slow") for number in range(50)), channel=SLOW)
    queue.channel("initech").set(paused=True)
    queue.dispatch()
    queue.dequeue(6, consumer=WORKER, lease=3600, lanes=["slow", "mail"])
    for number in range(3):
        queue.enqueue({"night": number}, channel="wayne", delay=3600)
    with queue.batch("nightly import", on_complete=NewMessage({"report": 1}, channel="wayne")) as batch:
        for number in range(5):
            batch.enqueue({"row": number}, channel="wayne", delay=3600)
    _schedules(queue)
    report_worker(queue)
    bounds = queue.perform(ask(HistoryBounds()))
    queue.perform(ask(HistoryFollow("lake", bounds.snapshot)))
    queue.audit_end(queue.audit_begin("bob", "channel.set", channel="globex", details={"weight": 2}), "done")
    queue.dispatch()


def message(number: int, lane: str = "mail") -> NewMessage:
    headers = {"task": TASKS[number % len(TASKS)], "traceparent": TRACE}
    payload = {"customer": number, "total": "19.90", "api_token": "hunter2", "lines": [{"article": "lamp"}]}
    return NewMessage(payload, lane=lane, headers=headers)


def report_worker(queue: Queue) -> None:
    report = WorkerReport(WORKER_ID, WORKER, "web-1", 4711, "0.1.0", 90_000, list(TASKS), 8, 6, "serving")
    queue.perform(ask(report))


def _finish_some(queue: Queue) -> None:
    """One by one: the slow tenant's limit decides how long its messages wait."""
    for name in ("acme", SLOW, *QUIET):
        queue.enqueue_many((message(number, lane="past") for number in range(30)), channel=name)
    queue.dispatch()
    while found := queue.dequeue(20, consumer=WORKER, lanes=["past"]):
        queue.complete_many(found)
        queue.dispatch()


def _fail_some(queue: Queue) -> None:
    errors = (RETRIED_ID_ERROR, "KeyError: 'customer'", "ValueError: invoice {} is broken")
    for name in ("acme", "wayne"):
        queue.enqueue_many((message(number, lane="broken") for number in range(9)), channel=name)
    queue.dispatch()
    for number, one in enumerate(queue.dequeue(18, consumer=WORKER, lanes=["broken"])):
        queue.fail(one, errors[number % 3].format(number))


def _schedules(queue: Queue) -> None:
    crons = {"nightly report": ("30 2 * * 1-5", "Europe/Berlin"), "pulse": ("*/5 * * * *", "UTC")}
    queue.perform(
        ask(
            ScheduleOpen(
                list(crons),
                [cron for cron, _ in crons.values()],
                [zone for _, zone in crons.values()],
                [WORKER] * 2,
                ["wayne"] * 2,
                [b"1"] * 2,
                [{}] * 2,
            )
        )
    )


def flood(queue: Queue, channel: str, messages: int) -> None:
    queue.enqueue_many((message(number) for number in range(messages)), channel=channel)


@contextmanager
def served_all_the_time(queue: Queue) -> Iterator[None]:
    """Quiet tenants enqueue now and then, and a consumer serves all, until the block ends."""
    stop = threading.Event()
    chance = random.Random(7)

    def run() -> None:
        while not stop.wait(0.1):
            for name in QUIET:
                if chance.random() < 0.5:
                    queue.enqueue_many([message(chance.randrange(100))], channel=name)
            queue.complete_many(queue.dequeue(12, consumer=WORKER, lanes=["mail"]))
            report_worker(queue)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
