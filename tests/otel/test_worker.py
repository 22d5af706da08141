"""The spans of a worker."""

import asyncio
import threading
from typing import Any

import psycopg
import pytest
from opentelemetry import trace
from opentelemetry.semconv._incubating.attributes import messaging_attributes as messaging
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.semconv.attributes import error_attributes
from opentelemetry.trace import SpanKind, StatusCode

from lonnymq import App, AsyncQueue, Job, Queue
from lonnymq.otel import instrument
from tests.otel.conftest import Telemetry
from tests.otel.test_conventions import Operation, attribute, check, context_text, linked
from tests.worker.serving import drain, serving, until


def test_a_task(queue: Queue, telemetry: Telemetry) -> None:
    instrument(queue, **telemetry.providers)
    app = App(queue)
    seen: list[Any] = []

    @app.task(channel="acme")
    def outer() -> None:
        seen.append(trace.get_current_span().get_span_context().span_id)
        inner.enqueue()

    @app.task
    async def inner() -> None:
        seen.append(trace.get_current_span().get_span_context().span_id)
        await asyncio.sleep(0)

    outer.enqueue()
    drain(app)
    sends, processes = telemetry.spans("send"), telemetry.spans("process")
    assert [attribute(span, "lonnymq.task") for span in processes] == ["outer", "inner"]
    assert [span.context.span_id for span in processes if span.context] == seen
    for process, send in zip(processes, sends, strict=True):
        check(process, Operation.PROCESS, SpanKind.CONSUMER)
        assert (process.parent, linked(process)) == (None, [context_text(send)])
        assert attribute(process, "lonnymq.attempt") == 1
        assert attribute(process, messaging.MESSAGING_MESSAGE_ID) == attribute(
            send, messaging.MESSAGING_MESSAGE_ID
        )
    assert attribute(processes[0], "lonnymq.channel") == "acme"
    assert sends[1].parent is not None
    assert sends[1].parent.span_id == seen[0]  # what a handler enqueues is a child of its span
    settles = telemetry.spans("settle")
    assert [linked(span) for span in settles] == [[context_text(send)] for send in sends]
    assert telemetry.spans("receive") == []  # by the conventions: a worker fetches in advance
    points = telemetry.points()
    (consumed,) = points[messaging_metrics.MESSAGING_CLIENT_CONSUMED_MESSAGES]
    (processed,) = points[messaging_metrics.MESSAGING_PROCESS_DURATION]
    assert (consumed.value, processed.count) == (2, 2)


def test_as_parent_and_child(queue: Queue, telemetry: Telemetry) -> None:
    instrument(queue, parent_child=True, **telemetry.providers)
    app = App(queue)

    @app.task
    def work() -> None: ...

    work.enqueue()
    drain(app)
    (send,), (process,) = telemetry.spans("send"), telemetry.spans("process")
    assert process.parent is not None
    assert send.context is not None
    assert process.parent.span_id == send.context.span_id
    assert linked(process) == [context_text(send)]


def test_failures(queue: Queue, telemetry: Telemetry) -> None:
    instrument(queue, **telemetry.providers)
    app = App(queue)

    @app.task(max_attempts=1)
    def work(number: int) -> None:
        raise KeyError(number)

    work.enqueue(7)
    work.using(headers={"x": 1}).enqueue(8)
    drain(app)
    for process in telemetry.spans("process"):
        assert process.status.status_code is StatusCode.ERROR
        assert attribute(process, error_attributes.ERROR_TYPE) == "KeyError"
    (processed,) = telemetry.points()[messaging_metrics.MESSAGING_PROCESS_DURATION]
    assert processed.attributes[error_attributes.ERROR_TYPE] == "KeyError"


def test_a_handler_that_completes_in_its_own_transaction(
    queue: Queue, dsn: str, telemetry: Telemetry
) -> None:
    instrument(queue, **telemetry.providers)
    app = App(queue)

    @app.task
    def work() -> None:
        with psycopg.connect(dsn) as conn:
            Job.current().complete(conn=conn)

    work.enqueue()
    assert drain(app) == [None]
    (send,), (process,), (settle,) = (telemetry.spans(name) for name in ("send", "process", "settle"))
    assert settle.parent is not None
    assert process.context is not None
    assert settle.parent.span_id == process.context.span_id
    assert linked(settle) == [context_text(send)]


def test_no_span_before_the_handler_starts(dsn: str, telemetry: Telemetry) -> None:
    """The worker has leased both messages, and only one slot."""

    async def main() -> None:
        async with AsyncQueue(dsn) as queue:
            instrument(queue, **telemetry.providers)
            app = App(queue)
            go_on, started = threading.Event(), []

            @app.task
            def work(number: int) -> None:
                started.append(number)
                go_on.wait(20)

            for number in range(3):
                await work.enqueue_async(number)
            async with serving(app, concurrency=1, prefetch=1000):
                await until(lambda: started)
                (stats,) = [await queue.stats()]
                assert stats.leased >= 1
                assert telemetry.spans("process") == []
                points = telemetry.points()
                (consumed,) = points[messaging_metrics.MESSAGING_CLIENT_CONSUMED_MESSAGES]
                assert consumed.value == len(started) == 1
                go_on.set()
                await until(lambda: len(telemetry.spans("process")) == 3)

    asyncio.run(main())
    starts = [span.start_time or 0 for span in telemetry.spans("process")]
    ends = [span.end_time or 0 for span in telemetry.spans("process")]
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))


@pytest.mark.parametrize("broken", ["Tracing.start_span", "Followed._end", "Receive.succeed", "failed"])
def test_a_broken_exporter_does_not_stop_the_queue(
    queue: Queue,
    telemetry: Telemetry,
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    instrument(queue, **telemetry.providers)
    app = App(queue)

    @app.task
    def work() -> None: ...

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no")

    monkeypatch.setattr(f"lonnymq.otel.tracing.{broken}", fail)
    work.enqueue()
    assert drain(app) == [None]
    assert "an observer failed" in caplog.text
