"""The context of a trace in the headers of a message: `traceparent` and `tracestate`, as W3C defines them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

TRACE_PARENT = "traceparent"
NAMES = (TRACE_PARENT, "tracestate")

Headers = Mapping[str, Any] | None

_propagator = TraceContextTextMapPropagator()


def has_context(headers: Headers) -> bool:
    """Whether the message already has a context. The caller's own is kept, even one that cannot be read."""
    return headers is not None and TRACE_PARENT in headers


def with_context(headers: Headers, span: Span) -> Headers:
    """The headers with the context of the span. They are unchanged if it has none: without an SDK."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, set_span_in_context(span, Context()))
    return {**(headers or {}), **carrier} if carrier else headers


def context_of(headers: Headers) -> Context:
    """The context in the headers; an empty one if there is none."""
    found = headers or {}
    carrier = {name: found[name] for name in NAMES if isinstance(found.get(name), str)}
    return _propagator.extract(carrier, Context())


def creation_of(headers: Headers) -> SpanContext | None:
    """The span that created the message."""
    if not has_context(headers):
        return None
    found = get_current_span(context_of(headers)).get_span_context()
    return found if found.is_valid else None


def links_to(all_headers: Iterable[Headers]) -> list[Link]:
    """Links to the spans that created the messages, one for each of the spans."""
    found = (creation_of(headers) for headers in all_headers)
    spans = {(each.trace_id, each.span_id): each for each in found if each is not None}
    return [Link(each) for each in spans.values()]
