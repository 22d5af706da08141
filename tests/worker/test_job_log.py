"""What the worker logs about messages: levels, fields and errors."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from lonnymq import App, AsyncJob, Discard, Fail, Job, JobStopped, Queue, Retry
from lonnymq.worker.job_log import TRACE_HEADER, trace_id_of
from lonnymq.worker.leased import LeasedMessage
from tests.worker.serving import TIMEOUT_S, drain, serving, until

LOGGER = "lonnymq.worker.job"
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TRACE_PARENT = f"00-{TRACE_ID}-b7ad6b7169203331-01"
FIELDS = {
    "queue",
    "lane",
    "channel",
    "message_id",
    "task",
    "attempt",
    "outcome",
    "duration_ms",
    "trace_id",
}


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Iterator[list[Any]]:
    """Those about messages."""
    found: list[Any] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    handler = Collect()
    logger = logging.getLogger(LOGGER)
    logger.addHandler(handler)
    with caplog.at_level(logging.DEBUG, LOGGER):
        yield found
    logger.removeHandler(handler)


def test_a_success(queue: Queue, app: App, records: list[Any]) -> None:
    @app.task()
    def send(invoice: int) -> None: ...

    created = send.using(channel="acme", lane="mails", headers={TRACE_HEADER: TRACE_PARENT}).enqueue(7)
    drain(app)
    assert [(each.levelname, each.outcome) for each in records] == [
        ("DEBUG", "started"),
        ("INFO", "completed"),
    ]
    for record in records:
        assert (record.queue, record.lane, record.channel) == ("lonnymq", "mails", "acme")
        assert (record.message_id, record.task, record.attempt) == (created.id, "send", 1)
        assert record.trace_id == TRACE_ID
    assert 0 <= records[1].duration_ms < 10_000
    text = records[1].getMessage()
    assert text.startswith(f"send (message {created.id}, channel acme, attempt 1) completed in ")


def test_failures_have_their_exception_and_are_logged_once(
    queue: Queue, app: App, records: list[Any]
) -> None:
    reasons = ["the bank ", "is closed"]

    @app.task(max_attempts=2, backoff=0)
    def charge() -> None:
        raise ValueError("".join(reasons))

    charge.enqueue()
    drain(app)
    ends = [each for each in records if each.outcome != "started"]
    assert [(each.levelname, each.outcome, each.attempt) for each in ends] == [
        ("WARNING", "retried", 1),
        ("ERROR", "dead", 2),
    ]
    formatter = logging.Formatter("%(levelname)s %(message)s")
    for record in ends:
        kind, error, _ = record.exc_info
        assert (kind, str(error)) == (ValueError, "the bank is closed")
        text = formatter.format(record)
        assert text.count("the bank is closed") == 1
        assert "in charge\n" in text
        assert "lonnymq/worker" not in text
    assert ends[0].getMessage().endswith(" ms, and is retried in 0 ms")
    assert vars(ends[0]).keys() >= FIELDS


@pytest.mark.parametrize(
    ("error", "level", "outcome", "text"),
    [
        (Retry("not yet", after=3600), "WARNING", "retried", "and is retried in 60 min: not yet"),
        (Retry("not yet", after=3600, counts=False), "INFO", "released", "not yet"),
        (Fail("no such customer"), "ERROR", "dead", "and is dead: no such customer"),
        (Discard("no such customer"), "WARNING", "discarded", "is discarded: no such customer"),
    ],
)
def test_what_a_handler_asks_for_is_logged_without_a_traceback(
    queue: Queue,
    app: App,
    records: list[Any],
    error: Exception,
    level: str,
    outcome: str,
    text: str,
) -> None:
    @app.task()
    async def charge() -> None:
        raise error

    charge.enqueue()
    drain(app)
    _, record = records
    assert (record.levelname, record.outcome, record.exc_info) == (level, outcome, None)
    assert record.getMessage().endswith(text)


def test_a_retry_because_of_an_error_is_logged_with_that_error(
    queue: Queue, app: App, records: list[Any]
) -> None:
    @app.task()
    async def charge() -> None:
        try:
            connect()
        except OSError as error:
            raise Retry("the bank is down", after=3600) from error

    charge.enqueue()
    drain(app)
    text = logging.Formatter().format(records[1])
    assert "OSError: no route" in text
    assert "the bank is down" not in records[1].getMessage()
    assert text.endswith("Retry: the bank is down")


def connect() -> None:
    raise OSError("no route")


def test_a_takeover(queue: Queue, app: App, records: list[Any]) -> None:
    @app.task()
    def send() -> None: ...

    created = send.enqueue()
    [taken] = queue.dequeue(lease=0.05, consumer="worker-1", wait=5)
    assert taken.stalled_consumer is None

    async def main() -> None:
        async with serving(app):
            await until(queue.history)

    asyncio.run(main())
    first = records[0]
    assert (first.levelname, first.outcome, first.attempt) == ("WARNING", "taken over", 2)
    assert first.getMessage() == (
        f"send (message {created.id}, channel default, attempt 2) is taken over:"
        " the lease of attempt 1 ran out; the last consumer was worker-1"
    )


def test_a_lost_lease(conn: psycopg.Connection, queue: Queue, app: App, records: list[Any]) -> None:
    """Found when the lease is extended, and when the message is completed."""

    @app.task()
    async def waits() -> None:
        conn.execute("UPDATE lonnymq.lease SET token = gen_random_uuid()")
        await asyncio.sleep(2 * TIMEOUT_S)

    @app.task()
    async def returns() -> None:
        conn.execute("UPDATE lonnymq.lease SET token = gen_random_uuid()")

    async def main() -> None:
        async with serving(app, lease=1):
            waits.enqueue()
            await until(lambda: len(records) == 2)
            returns.enqueue()
            await until(lambda: len(records) == 4)

    asyncio.run(main())
    lost = [each for each in records if each.outcome != "started"]
    assert [(each.levelname, each.outcome, each.task) for each in lost] == [
        ("WARNING", "lost", "waits"),
        ("WARNING", "lost", "returns"),
    ]


def test_a_shutdown_and_a_cancelled_message(queue: Queue, app: App, records: list[Any]) -> None:
    @app.task()
    def stops() -> None:
        job = Job.current()
        while not job.should_stop:
            time.sleep(0.01)
        raise JobStopped

    @app.task()
    async def is_cancelled() -> None:
        queue.cancel(AsyncJob.current().id)
        await asyncio.sleep(2 * TIMEOUT_S)

    async def main() -> None:
        async with serving(app, lease=1):
            is_cancelled.enqueue()
            await until(queue.history)
            stops.enqueue()
            await until(lambda: len(records) == 3)

    asyncio.run(main())
    ends = [(each.levelname, each.outcome, each.task) for each in records if each.levelname != "DEBUG"]
    assert ends == [("INFO", "cancelled", "is_cancelled"), ("INFO", "released", "stops")]
    assert any(each.getMessage().endswith(": shutdown") for each in records)


def test_each_attempt_ends_with_one_record(queue: Queue, app: App, records: list[Any]) -> None:
    @app.task(max_attempts=3, backoff=0)
    async def sends(number: int) -> None:
        if number % 5 == 0:
            raise ValueError(number)

    queue.enqueue_many(sends.message(number) for number in range(100))
    drain(app)
    counts = Counter(each.outcome for each in records)
    assert counts == {"started": 140, "completed": 80, "retried": 40, "dead": 20}
    assert len({(each.message_id, each.attempt, each.outcome) for each in records}) == len(records)


def test_nothing_is_made_that_is_not_logged(queue: Queue, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fields of a record cost time, at thousands of messages per second."""
    made: list[str] = []

    def fields_of(_leased: LeasedMessage, _queue: str, outcome: str) -> dict[str, Any]:
        made.append(outcome)
        return {}

    monkeypatch.setattr("lonnymq.worker.job_log.fields_of", fields_of)
    logging.getLogger(LOGGER).setLevel(logging.WARNING)
    try:

        @app.task(max_attempts=1)
        async def sends(number: int) -> None:
            if number == 3:
                raise ValueError(number)
            if number == 4:
                raise Retry(after=3600, counts=False)

        queue.enqueue_many(sends.message(number) for number in range(10))
        drain(app)
    finally:
        logging.getLogger(LOGGER).setLevel(logging.NOTSET)
    assert made == ["dead"]


@pytest.mark.parametrize(
    ("headers", "trace_id"),
    [
        (None, None),
        ({}, None),
        ({TRACE_HEADER: TRACE_PARENT}, TRACE_ID),
        ({TRACE_HEADER: TRACE_PARENT + "-more"}, TRACE_ID),
        ({TRACE_HEADER: "00-short-b7ad6b7169203331-01"}, None),
        ({TRACE_HEADER: 7}, None),
    ],
)
def test_the_trace_of_a_message(headers: dict[str, Any] | None, trace_id: str | None) -> None:
    assert trace_id_of(headers) == trace_id


def test_a_record_that_cannot_be_written_changes_nothing(
    queue: Queue, app: App, records: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    class Unreadable(Retry):
        def __str__(self) -> str:
            raise KeyError("text")

    @app.task()
    def not_ready() -> None:
        raise Unreadable(after=100, counts=False)

    @app.task()
    def send() -> None: ...

    def refuse(record: logging.LogRecord) -> bool:
        if record.__dict__["task"] == "send":
            raise ZeroDivisionError
        return True

    waits = not_ready.enqueue()
    for _ in range(3):
        send.enqueue()
    logging.getLogger(LOGGER).addFilter(refuse)
    try:
        drain(app)  # it ends only when all outcomes are counted
    finally:
        logging.getLogger(LOGGER).removeFilter(refuse)
    assert queue.status(waits.id).status == "scheduled"
    assert queue.stats().waiting == 1
    assert "Unreadable" in records[-1].getMessage()
    assert "ZeroDivisionError" in capsys.readouterr().err
