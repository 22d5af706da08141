"""The observer that makes spans and metrics.

A `send` span covers the call that creates a message, a `receive` span one that leases some, a `settle` span
one that finishes some, and a `process` span the run of a handler. The messages of a batch call also have a
`create` span each, because each needs a context of its own. Workers lease ahead of their handlers; by the
conventions, messages that are fetched in advance get no `receive` span, and no `process` span before their
handlers start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter, time_ns
from typing import Any

from opentelemetry import context as contexts
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from lonnymq.client.calls import Pair
from lonnymq.client.observers import Observer, Operation, is_prefetching
from lonnymq.client.produce import TASK_HEADER
from lonnymq.commands import (
    Created,
    Delivery,
    Dequeued,
    MessageComplete,
    MessageCompleteMany,
    MessageCreate,
    MessageCreateMany,
    MessageDequeue,
    MessageDiscard,
    MessageDiscardMany,
    MessageRejectMany,
    MessageRetry,
    MessageRetryMany,
)
from lonnymq.otel import attributes as names
from lonnymq.otel.attributes import error_type, operation_attributes
from lonnymq.otel.instruments import Instruments
from lonnymq.otel.propagation import context_of, has_context, links_to, with_context

SETTLEMENTS: Mapping[type, str] = {
    MessageComplete: "complete",
    MessageCompleteMany: "complete",
    MessageRetry: "retry",
    MessageRetryMany: "retry",
    MessageDiscard: "discard",
    MessageDiscardMany: "discard",
    MessageRejectMany: "reject",
}
ONE_MESSAGE = (MessageComplete, MessageRetry, MessageDiscard)


class Tracing(Observer):
    def __init__(
        self,
        tracer: Tracer,
        instruments: Instruments,
        server: Mapping[str, Any],
        *,
        parent_child: bool,
        create_spans: bool,
    ) -> None:
        self._tracer = tracer
        self.instruments = instruments
        self._server = server
        self._parent_child = parent_child
        self._create_spans = create_spans

    def begin(self, schema: str, step: Any, messages: Sequence[Delivery]) -> Operation | None:
        if isinstance(step, MessageCreate):
            return self._send(schema, step)
        if isinstance(step, MessageCreateMany):
            return self._send_many(schema, step)
        if isinstance(step.second if isinstance(step, Pair) else step, MessageDequeue):
            return Receive(self, step, self.shared(names.RECEIVE, schema))
        if (settlement := SETTLEMENTS.get(type(step))) is not None:
            return self._settle(schema, step, settlement, messages)
        return None

    def handler_starts(
        self, schema: str, message: Delivery, task: str
    ) -> Callable[[BaseException | None], object]:
        shared = self.shared(names.PROCESS, schema)
        span = self.start_span(
            shared,
            SpanKind.CONSUMER,
            links=links_to([message.headers]),
            context=context_of(message.headers) if self._parent_child else Context(),
            more=_of_delivery(message) | {names.TASK: task, names.ATTEMPT: message.attempts},
        )
        began = perf_counter()
        token = contexts.attach(set_span_in_context(span))  # the handler's own spans are its children
        self.instruments.consumed(1, shared)

        def ends(error: BaseException | None) -> None:
            contexts.detach(token)
            self.instruments.processed(perf_counter() - began, shared | failed(span, error))
            span.end()

        return ends

    def shared(self, operation: str, schema: str) -> dict[str, Any]:
        """The attributes that spans and metrics have in common."""
        return {**operation_attributes(operation, schema), **self._server}

    def start_span(
        self,
        shared: Mapping[str, Any],
        kind: SpanKind,
        *,
        more: Mapping[str, Any],
        links: Sequence[Link] = (),
        context: Context | None = None,
        start_time: int | None = None,
    ) -> Span:
        return self._tracer.start_span(
            f"{shared[names.OPERATION_NAME]} {shared[names.DESTINATION]}",
            context=context,
            kind=kind,
            attributes={**shared, **more},
            links=links,
            start_time=start_time,
        )

    def _send(self, schema: str, command: MessageCreate) -> Send:
        shared = self.shared(names.SEND, schema)
        is_own = has_context(command.headers)
        span = self.start_span(
            shared,
            SpanKind.CLIENT if is_own else SpanKind.PRODUCER,
            links=links_to([command.headers]),
            more=_of_content(command.channel, command.content, command.headers),
        )
        if not is_own:
            command = replace(command, headers=with_context(command.headers, span))
        return Send(self, command, shared, span, [span], 1)

    def _send_many(self, schema: str, command: MessageCreateMany) -> Send:
        count = len(command.channels)
        headers = list(command.headers or [None] * count)
        creates: list[Span | None] = [None] * count
        if self._create_spans:
            create = self.shared(names.CREATE, schema)
            for n, given in enumerate(headers):
                if not has_context(given):
                    more = _of_content(command.channels[n], command.contents[n], given)
                    span = creates[n] = self.start_span(create, SpanKind.PRODUCER, more=more)
                    headers[n] = with_context(given, span)
        shares_context = not all(has_context(given) for given in headers)
        shared = self.shared(names.SEND, schema)
        channels = set(command.channels)
        sending = self.start_span(
            shared,
            SpanKind.PRODUCER if shares_context else SpanKind.CLIENT,
            links=links_to(headers),
            more={names.BATCH_COUNT: count} | ({names.CHANNEL: channels.pop()} if len(channels) == 1 else {}),
        )
        headers = [given if has_context(given) else with_context(given, sending) for given in headers]
        if any(given is not None for given in headers):
            command = replace(command, headers=headers)
        return Send(self, command, shared, sending, creates, count)

    def _settle(self, schema: str, step: Any, settlement: str, messages: Sequence[Delivery]) -> Followed:
        shared = self.shared(names.SETTLE, schema)
        more: dict[str, Any] = {names.SETTLEMENT: settlement}
        if isinstance(step, ONE_MESSAGE):
            more[names.MESSAGE_ID] = str(step.id)
            more |= _of_delivery(messages[0]) if messages else {}
        else:
            more[names.BATCH_COUNT] = len(step.ids)
        links = links_to(message.headers for message in messages)
        span = self.start_span(shared, SpanKind.CLIENT, links=links, more=more)
        return Followed(self, step, shared, span)


class Followed:
    """A step with a span."""

    def __init__(self, tracing: Tracing, step: Any, shared: dict[str, Any], span: Span) -> None:
        self._instruments = tracing.instruments
        self._shared = shared
        self._span = span
        self._began = perf_counter()
        self.step = step

    def succeed(self, answer: Any) -> None:  # noqa: ARG002
        self._end(None)

    def fail(self, error: BaseException) -> None:
        self._end(error)

    def _end(self, error: BaseException | None) -> dict[str, Any]:
        """Returns the attributes of its metrics."""
        shared = self._shared | failed(self._span, error)
        self._instruments.operation(perf_counter() - self._began, shared)
        self._span.end()
        return shared


class Send(Followed):
    """`creates` are the spans that describe one message each, in the order of the messages. Those of a batch
    end before it is sent, but are written afterwards: their messages have an id only then.
    """

    def __init__(
        self,
        tracing: Tracing,
        step: Any,
        shared: dict[str, Any],
        span: Span,
        creates: Sequence[Span | None],
        count: int,
    ) -> None:
        super().__init__(tracing, step, shared, span)
        self._creates = creates
        self._count = count
        self._created_at = time_ns()

    def succeed(self, answer: Any) -> None:
        created: list[Created] = answer if isinstance(answer, list) else [answer]
        for span, one in zip(self._creates, created, strict=True):
            if span is not None:
                span.set_attribute(names.RESULT, str(one.result))
                if one.id is not None:
                    span.set_attribute(names.MESSAGE_ID, str(one.id))
        super().succeed(answer)

    def _end(self, error: BaseException | None) -> dict[str, Any]:
        for span in self._creates:
            if span is not None and span is not self._span:
                span.end(self._created_at)
        shared = super()._end(error)
        self._instruments.sent(self._count, shared)
        return shared


class Receive:
    """A dequeue. It has a span if it leased messages, which are known only afterwards, or if it failed."""

    def __init__(self, tracing: Tracing, step: Any, shared: dict[str, Any]) -> None:
        self._tracing = tracing
        self._shared = shared
        self._began_at, self._began = time_ns(), perf_counter()
        self._has_span = not is_prefetching.get()
        self.step = step

    def succeed(self, answer: Dequeued) -> None:
        deliveries = answer.deliveries
        self._tracing.instruments.operation(perf_counter() - self._began, self._shared)
        if deliveries and self._has_span:
            self._tracing.instruments.consumed(len(deliveries), self._shared)
            self._span(deliveries).end()

    def fail(self, error: BaseException) -> None:
        shared = self._shared
        if self._has_span:
            span = self._span(())
            shared = shared | failed(span, error)
            span.end()
        else:
            shared = shared | {names.ERROR_TYPE: error_type(error)}
        self._tracing.instruments.operation(perf_counter() - self._began, shared)

    def _span(self, deliveries: Sequence[Delivery]) -> Span:
        channels = {message.channel for message in deliveries}
        more: dict[str, Any] = {names.BATCH_COUNT: len(deliveries)}
        if len(channels) == 1:
            more[names.CHANNEL] = channels.pop()
        links = links_to(message.headers for message in deliveries)
        return self._tracing.start_span(
            self._shared, SpanKind.CLIENT, links=links, more=more, start_time=self._began_at
        )


def failed(span: Span, error: BaseException | None) -> dict[str, Any]:
    """Mark the span as failed, if there is an error. Returns the attributes that say so."""
    if error is None:
        return {}
    found = error_type(error)
    span.set_attribute(names.ERROR_TYPE, found)
    span.set_status(Status(StatusCode.ERROR, str(error)))
    if isinstance(error, Exception):
        span.record_exception(error)
    return {names.ERROR_TYPE: found}


def _of_delivery(message: Delivery) -> dict[str, Any]:
    return {
        names.MESSAGE_ID: str(message.id),
        names.CHANNEL: message.channel,
        names.LANE: message.lane,
        names.BODY_SIZE: len(message.content),
    }


def _of_content(
    channel: str | None, content: bytes | None, headers: Mapping[str, Any] | None
) -> dict[str, Any]:
    task = (headers or {}).get(TASK_HEADER)
    found: dict[str, Any] = {names.CHANNEL: channel or "", names.BODY_SIZE: len(content or b"")}
    return found | ({names.TASK: task} if isinstance(task, str) else {})
