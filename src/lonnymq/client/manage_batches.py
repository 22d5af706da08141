"""The calls for batches: open, close, cancel, list."""

from __future__ import annotations

from typing import Any

from lonnymq.client.calls import Request, Steps, ask
from lonnymq.client.produce import encoded
from lonnymq.client.times import optional_milliseconds
from lonnymq.commands import (
    BatchCancel,
    BatchClose,
    BatchGet,
    BatchList,
    BatchOpen,
    BatchStatus,
    CancelledBatch,
    Result,
)
from lonnymq.errors import InvalidArgument
from lonnymq.message_options import UNCHANGED, NewMessage

NOT_FOR_CALLBACKS = ("run_at", "delay", "dedupe_key", "unique_while", "unique_for")


def open_batch(
    name: str,
    *,
    on_complete: NewMessage | None = None,
    on_failure: NewMessage | None = None,
    conn: object | None = None,
) -> Request[int]:
    """Open a batch that several transactions fill, and return its id. To fill it in one transaction, use
    `batch`.

    Messages that are enqueued with its id as `batch_id` belong to it, until `close_batch`. See `batch` for
    `on_complete` and `on_failure`.

        batch_id = queue.open_batch("nightly import", on_complete=report.message())
        queue.enqueue_many(rows, channel="import", batch_id=batch_id)
        queue.close_batch(batch_id)
    """
    complete, failure = _callback("on_complete", on_complete), _callback("on_failure", on_failure)
    return ask(BatchOpen(name, *complete, *failure), conn)


def close_batch(batch_id: int, *, conn: object | None = None) -> Request[Result]:
    """Close a batch: nothing more can be added to it, and it is finished when its messages are. Returns
    `closed` or `not_found`. It waits for open transactions that add messages to the batch.
    """
    return ask(BatchClose(batch_id), conn)


def cancel_batch(batch_id: int) -> Request[CancelledBatch]:
    """Cancel a batch: close it, drop its callbacks, and cancel its messages, ten thousand per transaction.
    A worker that runs one of them notices when it next extends or finishes it.
    """

    def steps() -> Steps[CancelledBatch]:
        messages = 0
        while True:
            part: CancelledBatch = yield BatchCancel(batch_id)
            messages += part.messages
            if part.result is not Result.MORE:
                return CancelledBatch(part.result, messages)

    return Request(steps())


def batch_status(batch_id: int, *, conn: object | None = None) -> Request[BatchStatus | None]:
    """A batch and its counts; None if there is none with this id. Finished batches are kept for a week,
    unless `set(batch_keep=...)` says otherwise.
    """
    return ask(BatchGet(batch_id), conn)


def batches(
    *,
    name: str | None = None,
    status: str | None = None,
    after: int | None = None,
    limit: int = 100,
    conn: object | None = None,
) -> Request[list[BatchStatus]]:
    """A page of batches with their counts, the newest first: those with a `name`, or with a `status`, which
    is `open`, `closed`, `finished` or `cancelled`. The next page is `after` the last id.
    """
    return ask(BatchList(name, status, after, limit), conn)


def _callback(what: str, message: NewMessage | None) -> tuple[Any, ...]:
    """The channel, the content and the options of a callback."""
    if message is None:
        return None, None, None
    if not isinstance(message, NewMessage):
        raise InvalidArgument(
            f"{what}: a {type(message).__name__} is not a message", "give task.message(...), or a NewMessage"
        )
    for name in NOT_FOR_CALLBACKS:
        if getattr(message, name) is not None:
            raise InvalidArgument(f"{what}: a callback cannot have a {name}", f"leave {name} out")
    content, headers = encoded(message)
    keep_result_ms = optional_milliseconds(message.keep_result)
    given = {
        "headers": headers,
        "keep_result_ms": keep_result_ms,
        **{name: getattr(message, name) for name in UNCHANGED},
    }
    return message.channel, content, {name: value for name, value in given.items() if value is not None}
