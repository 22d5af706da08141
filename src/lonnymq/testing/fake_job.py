"""A job for tests that call a task directly. It records what the task does with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from lonnymq.client.produce import TASK_HEADER
from lonnymq.commands import BatchSummary, Delivery, Result
from lonnymq.commands.batch import BATCH_HEADER
from lonnymq.message_options import DEFAULT_CHANNEL, DEFAULT_LANE, Duration
from lonnymq.payload import HEADER, JSON, decode, encode
from lonnymq.worker.inline import NO_TOKEN
from lonnymq.worker.job import AnyJob, AsyncJob, Job
from lonnymq.worker.stop_reason import StopReason


class FakeJob:
    """What a task did with its job. A test may also tell the task to stop, or take away its lease."""

    def __init__(self) -> None:
        self.saved: list[Any] = []
        """The states that the task saved, in order."""
        self.progress: list[tuple[float, str | None]] = []
        """The progress that the task reported, in order: a fraction and a note."""
        self.is_completed = False
        """Whether the task called `complete`. The message is then completed if its transaction commits."""
        self.result: Any = None
        """The result that the task gave to `complete`, as it is kept."""
        self.stop_reason: StopReason | None = None
        """Set it to have the job say that the task should stop."""
        self.is_interrupted = False
        """Set it to have the job say that the task was interrupted."""
        self.is_lease_lost = False
        """Set it to have `save` and `complete` raise LeaseLost."""


class _Context:
    schema = ""
    observers = ()

    def __init__(self, fake: FakeJob) -> None:
        self.fake = fake

    @property
    def stop_reason(self) -> StopReason | None:
        return self.fake.stop_reason

    @property
    def is_interrupted(self) -> bool:
        return self.fake.is_interrupted

    def completed_by_handler(self) -> None:
        self.fake.is_completed = True

    def progress(self, fraction: float, note: str | None) -> None:
        self.fake.progress.append((fraction, note))

    async def save(self, state: bytes) -> bool:
        return self.save_from_thread(state)

    def save_from_thread(self, state: bytes) -> bool:
        if not self.fake.is_lease_lost:
            self.fake.saved.append(decode(state, JSON))
        return not self.fake.is_lease_lost

    def complete(self, result: object) -> Result:
        if self.fake.is_lease_lost:
            return Result.LOST
        self.fake.result = decode(*encode(result))
        return Result.COMPLETED


class _PlainJob(Job):
    _context: _Context

    def complete(self, *, conn: object, result: object = None, keep_result: Duration | None = None) -> None:  # noqa: ARG002
        self._note_completed(self._context.complete(result))


class _AsynchronousJob(AsyncJob):
    _context: _Context

    async def complete(
        self,
        *,
        conn: object,  # noqa: ARG002
        result: object = None,
        keep_result: Duration | None = None,  # noqa: ARG002
    ) -> None:
        self._note_completed(self._context.complete(result))


class _EitherJob(AnyJob):
    """The current job of a test, whichever kind of task the test calls."""

    def __init__(self, message: Delivery, context: _Context) -> None:
        super().__init__(message, context)
        self._kinds: list[AnyJob] = [_PlainJob(message, context), _AsynchronousJob(message, context)]

    def as_kind(self, kind: type[AnyJob]) -> AnyJob:
        return next((job for job in self._kinds if isinstance(job, kind)), self)


@contextmanager
def job(  # noqa: PLR0913 - options by name
    *,
    attempt: int = 1,
    state: Any = None,  # noqa: ANN401 - any payload
    channel: str = DEFAULT_CHANNEL,
    task: str | None = None,
    payload: Any = None,  # noqa: ANN401
    headers: Mapping[str, Any] | None = None,
    batch: BatchSummary | None = None,
    lane: str = DEFAULT_LANE,
    message_id: int = 1,
) -> Iterator[FakeJob]:
    """In the block, `Job.current()` and `AsyncJob.current()` return a job of this kind. So a test can call a
    task, which is a function, without a queue and without a worker. `state` is what an earlier attempt saved,
    and `batch` the batch whose callback the task is.

        with job(attempt=2, state=3, channel="acme") as fake:
            send_pages(document=7)
        assert fake.saved == [4, 5]
    """
    content, content_type = encode(payload)
    given = {HEADER: content_type, **(headers or {})}
    if task is not None:
        given[TASK_HEADER] = task
    if batch is not None:
        given[BATCH_HEADER] = asdict(batch)
    saved = None if state is None else encode(state).content
    message = Delivery(message_id, channel, content, given, saved, attempt, NO_TOKEN, 0, lane)
    fake = FakeJob()
    with _EitherJob(message, _Context(fake)).as_current():
        yield fake
