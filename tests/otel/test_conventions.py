"""The spans and metrics are those of the published messaging conventions."""

import asyncio
import subprocess
import sys
from typing import Any

import psycopg
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.semconv._incubating.attributes import messaging_attributes as messaging
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.semconv.attributes import error_attributes, server_attributes
from opentelemetry.trace import SpanKind, StatusCode

from lonnymq import AsyncQueue, Delivery, NewMessage, Queue
from lonnymq.errors import ChannelFull
from lonnymq.otel import instrument, uninstrument
from tests.otel.conftest import Telemetry

OWN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OWN_SPAN = OWN.removesuffix("-01")


def context_text(span: ReadableSpan) -> str:
    context = span.get_span_context()
    assert context is not None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}"


def creation(message: Delivery) -> str:
    """The span in the headers, without its flags."""
    return str(message.headers["traceparent"]).rpartition("-")[0]


def linked(span: ReadableSpan) -> list[str]:
    return [f"00-{link.context.trace_id:032x}-{link.context.span_id:016x}" for link in span.links]


def check(span: ReadableSpan, operation: messaging.MessagingOperationTypeValues, kind: SpanKind) -> None:
    """What all spans have in common."""
    attributes = dict(span.attributes or {})
    assert (span.name, span.kind) == (f"{operation.value} lonnymq", kind)
    assert attributes[messaging.MESSAGING_SYSTEM] == "lonnymq"
    assert attributes[messaging.MESSAGING_OPERATION_TYPE] == operation.value
    assert attributes[messaging.MESSAGING_OPERATION_NAME] == operation.value
    assert attributes[messaging.MESSAGING_DESTINATION_NAME] == "lonnymq"
    assert attributes[server_attributes.SERVER_ADDRESS]
    known = {value for name, value in vars(messaging).items() if name.isupper()}
    assert {name for name in attributes if name.startswith("messaging.")} <= known


def attribute(span: ReadableSpan, name: str) -> Any:
    return (span.attributes or {}).get(name)


Operation = messaging.MessagingOperationTypeValues


def test_one_message(queue: Queue, telemetry: Telemetry) -> None:
    instrument(queue, **telemetry.providers)
    tracer = telemetry.tracer_provider.get_tracer("app")
    with tracer.start_as_current_span("request") as request:
        made = queue.enqueue({"a": 1}, channel="acme", headers={"mine": "kept"})
    (message,) = queue.dequeue(5)
    queue.complete(message)
    assert queue.dequeue() == []
    (send,), (receive,), (settle,) = (telemetry.spans(name) for name in ("send", "receive", "settle"))
    check(send, Operation.SEND, SpanKind.PRODUCER)
    check(receive, Operation.RECEIVE, SpanKind.CLIENT)
    check(settle, Operation.SETTLE, SpanKind.CLIENT)
    assert send.parent is not None
    assert send.parent.span_id == request.get_span_context().span_id
    assert creation(message) == context_text(send)
    assert message.headers["mine"] == "kept"
    assert linked(receive) == linked(settle) == [context_text(send)]
    assert (send.links, receive.parent, settle.parent) == ((), None, None)
    assert attribute(send, messaging.MESSAGING_MESSAGE_ID) == str(made.id)
    assert attribute(send, messaging.MESSAGING_MESSAGE_BODY_SIZE) == 7
    assert attribute(send, messaging.MESSAGING_BATCH_MESSAGE_COUNT) is None
    assert attribute(receive, messaging.MESSAGING_BATCH_MESSAGE_COUNT) == 1
    assert attribute(settle, messaging.MESSAGING_MESSAGE_ID) == str(made.id)
    assert {attribute(span, "lonnymq.channel") for span in (send, receive, settle)} == {"acme"}
    assert attribute(settle, "lonnymq.settlement") == "complete"


def test_the_callers_own_context_wins(queue: Queue, telemetry: Telemetry) -> None:
    instrument(queue, **telemetry.providers)
    queue.enqueue(1, headers={"traceparent": OWN})
    (message,) = queue.dequeue()
    assert message.headers["traceparent"] == OWN
    (send,) = telemetry.spans("send")
    check(send, Operation.SEND, SpanKind.CLIENT)  # its context creates no message
    assert linked(send) == [OWN_SPAN]
    queue.enqueue_many([NewMessage(1, headers={"traceparent": OWN}), NewMessage(2), 3])
    messages = queue.dequeue(3)
    creates = telemetry.spans("create")
    expected = [OWN_SPAN, *map(context_text, creates)]
    assert [creation(each) for each in messages] == expected
    many = telemetry.spans("send")[1]
    check(many, Operation.SEND, SpanKind.CLIENT)
    assert linked(many) == expected
    queue.enqueue(1, headers={"traceparent": "not one"})
    assert queue.dequeue()[0].headers["traceparent"] == "not one"


def test_batch_calls(queue: Queue, dsn: str, telemetry: Telemetry) -> None:
    instrument(queue, **telemetry.providers)
    tracer = telemetry.tracer_provider.get_tracer("app")
    with tracer.start_as_current_span("request") as request, psycopg.connect(dsn) as conn:
        queue.enqueue_many(["a", "b"], channel="acme", conn=conn)
        queue.enqueue_many([NewMessage("c", channel="shop")])
        queue.enqueue_many(["d"], commit_each_chunk=True)
    creates, sends = telemetry.spans("create"), telemetry.spans("send")
    for span in creates:
        check(span, Operation.CREATE, SpanKind.PRODUCER)
    for span in sends:
        check(span, Operation.SEND, SpanKind.CLIENT)
    trace_id = request.get_span_context().trace_id
    assert {span.context.trace_id for span in creates + sends if span.context} == {trace_id}
    assert [attribute(span, messaging.MESSAGING_BATCH_MESSAGE_COUNT) for span in sends] == [2, 1, 1]
    assert linked(sends[0]) == [context_text(span) for span in creates[:2]]
    messages = queue.dequeue(10)
    by_id = {attribute(span, messaging.MESSAGING_MESSAGE_ID): span for span in creates}
    for message in messages:
        assert creation(message) == context_text(by_id[str(message.id)])
    queue.complete_many(messages[:3])
    queue.retry_many(messages[3:])
    complete, retry = telemetry.spans("settle")
    check(complete, Operation.SETTLE, SpanKind.CLIENT)
    assert attribute(complete, messaging.MESSAGING_BATCH_MESSAGE_COUNT) == 3
    assert attribute(retry, "lonnymq.settlement") == "retry"
    assert linked(complete) == [creation(message) for message in messages[:3]]


def test_without_create_spans_a_chunk_shares_one_context(queue: Queue, telemetry: Telemetry) -> None:
    instrument(queue, create_spans=False, **telemetry.providers)
    queue.enqueue_many([1, 2])
    (send,) = telemetry.spans()
    check(send, Operation.SEND, SpanKind.PRODUCER)
    assert {creation(message) for message in queue.dequeue(2)} == {context_text(send)}


def test_failures(queue: Queue, telemetry: Telemetry) -> None:
    instrument(queue, **telemetry.providers)
    queue.channel("full").set(max_size=1)
    queue.enqueue(1, channel="full")
    with pytest.raises(ChannelFull):
        queue.enqueue_many([2, 3], channel="full")
    failed = telemetry.spans("send")[1]
    assert failed.status.status_code is StatusCode.ERROR
    assert attribute(failed, error_attributes.ERROR_TYPE) == "ChannelFull"
    assert [event.name for event in failed.events] == ["exception"]
    sent = telemetry.points()[messaging_metrics.MESSAGING_CLIENT_SENT_MESSAGES]
    assert [(point.value, point.attributes.get(error_attributes.ERROR_TYPE)) for point in sent] == [
        (1, None),
        (2, "ChannelFull"),
    ]


def test_metrics(queue: Queue, telemetry: Telemetry) -> None:
    instrument(queue, **telemetry.providers)
    queue.enqueue_many(range(3), channel="acme")
    queue.complete_many(queue.dequeue(9))
    points = telemetry.points()
    sent = points[messaging_metrics.MESSAGING_CLIENT_SENT_MESSAGES]
    consumed = points[messaging_metrics.MESSAGING_CLIENT_CONSUMED_MESSAGES]
    assert [point.value for point in sent + consumed] == [3, 3]
    durations = points[messaging_metrics.MESSAGING_CLIENT_OPERATION_DURATION]
    seen = {point.attributes[messaging.MESSAGING_OPERATION_NAME] for point in durations}
    assert seen == {"send", "receive", "settle"}
    buckets = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
    assert {point.explicit_bounds for point in durations} == {buckets}
    for each in [point for found in points.values() for point in found]:
        assert "lonnymq.channel" not in each.attributes
        assert each.attributes[messaging.MESSAGING_SYSTEM] == "lonnymq"
        assert each.attributes[messaging.MESSAGING_DESTINATION_NAME] == "lonnymq"


def test_an_async_queue(dsn: str, telemetry: Telemetry) -> None:
    messages = asyncio.run(use_async_queue(dsn, telemetry))
    assert [span.name.split()[0] for span in telemetry.spans()].count("send") == 3
    assert len(telemetry.spans("create")) == len(telemetry.spans("settle")) == 2
    (receive,) = telemetry.spans("receive")
    assert len(receive.links) == len({creation(message) for message in messages}) == 4


async def use_async_queue(dsn: str, telemetry: Telemetry) -> list[Delivery]:
    async with AsyncQueue(dsn) as queue:
        instrument(queue, **telemetry.providers)
        await queue.enqueue(1)
        await queue.enqueue_many([2, 3])
        queue.as_sync().enqueue(4)
        messages = await queue.dequeue(9)
        await queue.complete(messages[0])
        async with await psycopg.AsyncConnection.connect(dsn) as conn:
            await queue.complete(messages[1], conn=conn)
    return messages


def test_it_is_off_unless_turned_on(queue: Queue, telemetry: Telemetry) -> None:
    sibling = queue.as_async()
    instrument(queue, **telemetry.providers)
    instrument(queue, **telemetry.providers)  # replaces the first
    assert [len(each.observers) for each in (queue, sibling)] == [1, 1]
    queue.enqueue(1)
    assert len(telemetry.spans()) == 1
    uninstrument(queue)
    queue.enqueue(2)
    assert len(telemetry.spans()) == 1
    assert "traceparent" not in queue.dequeue(2)[1].headers
    assert not queue.observers
    assert not sibling.observers


def test_without_an_sdk_nothing_is_added(queue: Queue) -> None:
    assert not trace.get_current_span().get_span_context().is_valid
    instrument(queue)
    queue.enqueue(1)
    queue.enqueue_many([2])
    messages = queue.dequeue(2)
    queue.complete_many(messages)
    assert [message.headers for message in messages] == [{"content-type": "application/json"}] * 2


def test_nothing_is_imported_unless_it_is_used() -> None:
    code = (
        "import sys, lonnymq, lonnymq.worker.worker, lonnymq.cli\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'prometheus_client'))])\n"
        "sys.modules['opentelemetry'] = None\n"
        "try:\n    import lonnymq.otel\n"
        "except ImportError as error:\n    print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "[]",
        "MissingExtra traces need opentelemetry-api (pip install 'lonnymq[otel]')",
    ]
