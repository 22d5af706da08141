"""A queue in a FastAPI application.

```python
app = FastAPI(lifespan=queue_lifespan("postgresql://localhost/shop"))


@app.post("/invoices/{number}")
async def send(number: int, queue: CurrentQueue) -> None:
    await queue.enqueue({"invoice": number}, channel="acme")
```
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated, Any, get_origin

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.queue import Queue
from lonnymq.errors import InvalidArgument, MissingExtra
from lonnymq.lifespan import QueueSource, opened
from lonnymq.messages import AsyncMessages, Messages
from lonnymq.worker.worker import Worker

try:
    from fastapi import Depends, FastAPI, params
    from fastapi.requests import HTTPConnection
except ImportError:
    raise MissingExtra("lonnymq.fastapi needs FastAPI", "pip install 'lonnymq[fastapi]'") from None

__all__ = [
    "AsyncMessages",
    "CurrentQueue",
    "CurrentSyncQueue",
    "Messages",
    "get_queue",
    "get_sync_queue",
    "messages_in",
    "queue_lifespan",
    "sync_messages_in",
]

STATE = "lonnymq_queue"
Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Mapping[str, Any] | None]]


def queue_lifespan(
    source: QueueSource, *, around: Lifespan | None = None, worker: Worker | None = None
) -> Callable[[FastAPI], AbstractAsyncContextManager[Mapping[str, Any]]]:
    """Open a queue when the application starts, and close it when it stops. `source` is a DSN, a queue, or a
    function that makes one: a queue that was closed cannot be opened again, so give a function if your
    application starts more than once in a process, as it may in tests.

    The application does not start if the database cannot be reached or has no queue. `around` is a lifespan
    of your own, which runs while the queue is open. A `worker` runs in the event loop of the application;
    when that stops, running handlers get the worker's `shutdown_timeout` to finish.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Mapping[str, Any]]:
        async with opened(source, worker) as queue:
            if around is None:
                yield {STATE: queue}
                return
            async with around(app) as state:
                yield {**(state or {}), STATE: queue}

    return lifespan


async def get_queue(connection: HTTPConnection) -> AsyncQueue:
    """A dependency: the queue of the application. CurrentQueue is its annotation."""
    queue = getattr(connection.state, STATE, None)
    if not isinstance(queue, AsyncQueue):
        raise InvalidArgument(
            "the application has no queue",
            "give it one with FastAPI(lifespan=queue_lifespan(...)); in tests, write `with TestClient(app)`",
        )
    return queue


async def get_sync_queue(queue: Annotated[AsyncQueue, Depends(get_queue)]) -> Queue:
    """As get_queue, for path operations without `async`. CurrentSyncQueue is its annotation."""
    return queue.as_sync()


CurrentQueue = Annotated[AsyncQueue, Depends(get_queue)]
"""The annotation of a parameter that gets the queue of the application."""

CurrentSyncQueue = Annotated[Queue, Depends(get_sync_queue)]
"""As CurrentQueue, for path operations without `async`."""


def messages_in(connection: Any, *, channel: Any = None) -> Any:
    """A dependency that gives AsyncMessages, which creates messages in the transaction of `connection`: your
    own dependency, or an annotation with it, that gives an asynchronous session or connection. `channel` is
    a dependency that gives the channel of the request, such as its tenant.

    ```python
    Session = Annotated[AsyncSession, Depends(get_session, scope="function")]
    RequestMessages = Annotated[AsyncMessages, messages_in(Session, channel=get_tenant)]
    ```

    FastAPI calls a dependency once per request, so the messages are part of the same transaction as what
    the path operation writes with its `Session`.
    """
    conn_type, channel_type = _annotation(connection), _annotation(channel)

    async def give(queue: CurrentQueue, conn: conn_type, name: channel_type) -> AsyncMessages:  # type: ignore[valid-type]
        return AsyncMessages(queue, conn, name)

    return Depends(give)


def sync_messages_in(connection: Any, *, channel: Any = None) -> Any:
    """As messages_in, for path operations without `async`. It gives Messages."""
    conn_type, channel_type = _annotation(connection), _annotation(channel)

    async def give(queue: CurrentSyncQueue, conn: conn_type, name: channel_type) -> Messages:  # type: ignore[valid-type]
        return Messages(queue, conn, name)

    return Depends(give)


def _annotation(dependency: Any) -> Any:
    if get_origin(dependency) is Annotated:
        return dependency
    if isinstance(dependency, params.Depends):
        return Annotated[Any, dependency]
    if dependency is None:
        return Annotated[Any, Depends(_nothing)]
    if callable(dependency):
        return Annotated[Any, Depends(dependency)]
    raise InvalidArgument(
        f"a {type(dependency).__name__} is not a dependency",
        "give the function of your dependency, or an Annotated type with Depends",
    )


async def _nothing() -> None:
    return None
