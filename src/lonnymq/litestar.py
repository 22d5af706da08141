"""A queue in a Litestar application.

```python
@post("/invoices/{number:int}")
async def send(number: FromPath[int], queue: NamedDependency[AsyncQueue]) -> None:
    await queue.enqueue({"invoice": number}, channel="acme")


app = Litestar([send], plugins=[QueuePlugin("postgresql://localhost/shop")])
```
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from inspect import Parameter, Signature
from typing import Any

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.queue import Queue
from lonnymq.errors import InvalidArgument, MissingExtra
from lonnymq.lifespan import QueueSource, opened
from lonnymq.messages import AsyncMessages
from lonnymq.worker.worker import Worker

try:
    from litestar import Litestar
    from litestar.config.app import AppConfig
    from litestar.datastructures import State
    from litestar.di import NamedDependency, Provide
    from litestar.plugins import InitPlugin
except ImportError:
    raise MissingExtra("lonnymq.litestar needs Litestar", "pip install 'lonnymq[litestar]'") from None

__all__ = ["AsyncMessages", "QueuePlugin"]

STATE = "lonnymq_queue"


class QueuePlugin(InitPlugin):
    """Opens a queue when the application starts, and closes it when it stops. Handlers get it as `queue` (an
    AsyncQueue), and as `sync_queue` (a Queue) for functions without `async`.

    `source` is a DSN, a queue, or a function that makes one: a queue that was closed cannot be opened again,
    so give a function if your application starts more than once in a process, as it may in tests. The
    application does not start if the database cannot be reached or has no queue.

    With `connection`, the name of a dependency of yours that gives an asynchronous session or connection,
    handlers also get `messages` (AsyncMessages), which creates messages in its transaction. `channel` is the
    name of a dependency that gives the channel of the request, such as its tenant.

    A `worker` runs in the event loop of the application. When that stops, running handlers get the worker's
    `shutdown_timeout` to finish.
    """

    def __init__(
        self,
        source: QueueSource,
        *,
        connection: str | None = None,
        channel: str | None = None,
        worker: Worker | None = None,
    ) -> None:
        if channel is not None and connection is None:
            raise InvalidArgument(
                "channel is given without connection", "name the dependency of your session"
            )
        self._source = source
        self._connection = connection
        self._channel = channel
        self._worker = worker

    def on_app_init(self, app_config: AppConfig) -> AppConfig:
        """Called by Litestar."""
        app_config.lifespan.append(self._lifespan)
        app_config.dependencies["queue"] = Provide(_queue)
        app_config.dependencies["sync_queue"] = Provide(_sync_queue)
        if self._connection is not None:
            app_config.dependencies["messages"] = Provide(_messages_in(self._connection, self._channel))
        return app_config

    @asynccontextmanager
    async def _lifespan(self, app: Litestar) -> AsyncIterator[None]:
        async with opened(self._source, self._worker) as queue:
            app.state[STATE] = queue
            yield
        del app.state[STATE]


async def _queue(state: State) -> AsyncQueue:
    queue: AsyncQueue | None = state.get(STATE)
    if queue is None:
        raise InvalidArgument(
            "the application has not been started", "in tests, write `with TestClient(app) as client`"
        )
    return queue


async def _sync_queue(state: State) -> Queue:
    return (await _queue(state)).as_sync()


def _messages_in(connection: str, channel: str | None) -> Callable[..., Any]:
    """A dependency with parameters of these names, since Litestar finds dependencies by name."""

    async def give(**given: Any) -> AsyncMessages:
        return AsyncMessages(
            await _queue(given["state"]), given[connection], given[channel] if channel else None
        )

    named: Any = NamedDependency
    types: dict[str, Any] = {
        "state": State,
        connection: named[Any],
        **({channel: named[Any]} if channel else {}),
    }
    give.__annotations__ = {**types, "return": AsyncMessages}
    give.__signature__ = Signature(  # type: ignore[attr-defined]
        [Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in types.items()],
        return_annotation=AsyncMessages,
    )
    return give
