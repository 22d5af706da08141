"""A transport for kombu, so that Celery runs on the queue when its broker URL is changed.

```python
import lonnymq.kombu  # needed only if LonnyMQ is not installed as a package

app = Celery("shop", broker="lonnymq+postgresql://user@host/db")
```

Queues are lanes, and each tenant has a channel: docs/celery.md is the guide.

    registration  makes kombu know the scheme of the URL
    address       the URL as an address for libpq, and without its password for people
    options       the transport options, checked
    transport     one connection of kombu: delivers messages, blocking or in an event loop
    channel       one channel of kombu: declares, publishes, acknowledges
    envelope      a message of kombu as one of the queue, and back
    tenant        which channel of the queue a message goes to
    broker        what all connections of a process share: the client, and the topology
    topology      queues, exchanges and bindings, and the messages of temporary queues
    intake        leases messages when the consumer has room, and sleeps when there are none
    leases        the messages that a connection holds, and the thread that extends their leases
    notifications the connection that wakes a sleeping consumer
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lonnymq.errors import MissingExtra

try:
    from lonnymq.kombu.registration import register
except ImportError as error:
    if error.name is not None and error.name.partition(".")[0] != "kombu":
        raise
    raise MissingExtra("the transport needs kombu", "pip install 'lonnymq[celery]'") from None

if TYPE_CHECKING:
    from lonnymq.kombu.transport import Transport

__all__ = ["Transport", "register"]

register()

if not TYPE_CHECKING:  # loaded when it is used: kombu imports this package when it starts

    def __getattr__(name: str) -> object:
        if name != "Transport":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from lonnymq.kombu.transport import Transport

        return Transport
