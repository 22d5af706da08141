"""Metrics for Prometheus. A worker exports them with `metrics_port`. Nothing of it is loaded unless you
import this module or use that option.

```python
from lonnymq.prometheus import instrument

instrument(queue)  # in a web server: counts what it enqueues, beside its own metrics
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lonnymq.client.base import QueueBase
from lonnymq.errors import MissingExtra

try:
    import prometheus_client
except ImportError:
    raise MissingExtra("metrics need prometheus-client", "pip install 'lonnymq[prometheus]'") from None

from lonnymq.prometheus.call_metrics import CallMetrics

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = ["instrument"]


def instrument(queue: QueueBase, registry: CollectorRegistry | None = None) -> None:
    """Count what a program enqueues, and time its dispatches: `lonnymq_created_total` and
    `lonnymq_dispatch_seconds`, in its own registry (the default one unless given). A worker with a
    `metrics_port` does so itself.
    """
    metrics = CallMetrics(registry or prometheus_client.REGISTRY)
    queue.observe(*queue.observers, metrics)
