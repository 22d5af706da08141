"""Traces and metrics by the messaging conventions of OpenTelemetry. Nothing of it is loaded unless
you import this module.

```python
from lonnymq.otel import instrument

queue = Queue("postgresql://localhost/shop")
instrument(queue)
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lonnymq.client.base import QueueBase
from lonnymq.errors import MissingExtra
from lonnymq.version import __version__

try:
    from opentelemetry import metrics, trace
except ImportError:
    raise MissingExtra("traces need opentelemetry-api", "pip install 'lonnymq[otel]'") from None

from lonnymq.otel.attributes import server_attributes
from lonnymq.otel.instruments import Instruments
from lonnymq.otel.tracing import Tracing

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["instrument", "uninstrument"]

SCHEMA_URL = "https://opentelemetry.io/schemas/1.37.0"


def instrument(
    queue: QueueBase,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    parent_child: bool = False,
    create_spans: bool = True,
) -> None:
    """Make spans and metrics of the calls of a queue, and of the workers that are started on it from now on.
    The providers are the global ones unless given. Calling it again replaces what the last call set.

    The span of a handler is the root of a trace, and linked to the span that created its message. With
    `parent_child` it is a child of that span, in the same trace. Each message of `enqueue_many` gets a
    `create` span. Without `create_spans` the messages of one chunk share the context of its `send` span,
    which is cheaper for large loads.
    """
    uninstrument(queue)
    tracing = Tracing(
        trace.get_tracer("lonnymq", __version__, tracer_provider, SCHEMA_URL),
        Instruments(metrics.get_meter("lonnymq", __version__, meter_provider, SCHEMA_URL)),
        server_attributes(queue.address()),
        parent_child=parent_child,
        create_spans=create_spans,
    )
    queue.observe(*queue.observers, tracing)


def uninstrument(queue: QueueBase) -> None:
    """End what `instrument` began, for this queue and workers that are started on it from now on."""
    queue.observe(*(one for one in queue.observers if not isinstance(one, Tracing)))
