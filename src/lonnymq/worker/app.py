"""An App: the tasks and schedules of a program, and the queue that their calls go to."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import tzinfo
from typing import Any, Generic, TypeVar, Unpack, overload

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.produce import TASK_HEADER, OnFull, check_names, check_option
from lonnymq.client.queue import Queue
from lonnymq.commands import Created, Delivery
from lonnymq.errors import InvalidArgument
from lonnymq.message_options import DEFAULT_CHANNEL, UNCHANGED, Duration, NewMessage, WorkOptions
from lonnymq.worker.backoff import Backoff, Delays
from lonnymq.worker.catch_up import CatchUp
from lonnymq.worker.cron import Cron, cron
from lonnymq.worker.handler_policy import HandlerPolicy
from lonnymq.worker.inline import Inline
from lonnymq.worker.task import C, Handler, P, R, RawHandler, Sending, Task

Consumer = TypeVar("Consumer", bound=Callable[[Delivery], Any])


class App(Generic[C]):
    """The tasks of a program, on the queue that their calls wait in.

        queue = Queue("postgresql://localhost/shop")
        app = App(queue)

        @app.task(channel="invoices", max_attempts=5)
        def send_invoice(invoice: int) -> None: ...

        send_invoice.enqueue(7)

    With an AsyncQueue, `enqueue` is to be awaited. Either kind of app has tasks that are plain functions
    and such that are asynchronous.
    """

    @overload
    def __init__(self: App[Created], queue: Queue) -> None: ...
    @overload
    def __init__(self: App[Coroutine[Any, Any, Created]], queue: AsyncQueue) -> None: ...
    def __init__(self, queue: Queue | AsyncQueue) -> None:
        if not isinstance(queue, Queue | AsyncQueue):
            # Not its text: it may be an address with a password.
            raise InvalidArgument(f"a {type(queue).__name__} is not a queue", "give a Queue or an AsyncQueue")
        self.queue = queue
        self.tasks: dict[str, Task[..., Any, C]] = {}
        self.raw_handler: RawHandler | None = None
        self.crons: list[Cron] = []
        self._inline: Sending[C] | None = None

    def __repr__(self) -> str:
        return f"<App of {len(self.tasks)} tasks on {self.queue!r}>"

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R, C]: ...
    @overload
    def task(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        channel: str = DEFAULT_CHANNEL,
        max_attempts: int | None = None,
        backoff: Delays | None = None,
        timeout: Duration | None = None,
        lease: Duration | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R, C]]: ...
    def task(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        channel: str = DEFAULT_CHANNEL,
        max_attempts: int | None = None,
        backoff: Delays | None = None,
        timeout: Duration | None = None,
        lease: Duration | None = None,
    ) -> Any:
        """Make a task of a function, plain or asynchronous.

        Messages refer to the task by its `name` (the function's own, unless given), so keep the name when
        you move the function. Calls use `channel` and `max_attempts` unless they give others. `backoff`
        says how long to wait after a failed attempt: a Backoff, a number of seconds, or a function from
        the number of the attempt to seconds. An attempt that takes longer than `timeout` is stopped and
        has failed. The `lease` is how long a message stays with a worker that died; a worker extends it
        for as long as the handler runs.
        """
        policy = HandlerPolicy(
            channel, max_attempts, Backoff() if backoff is None else backoff, timeout, lease
        )

        def made(function: Callable[P, R]) -> Task[P, R, C]:
            if not callable(function):
                raise InvalidArgument(f"{function!r} is not a function", "write @app.task above a function")
            task: Task[P, R, C] = Task(function, name or function.__name__, policy, self)
            if task.name in self.tasks:
                raise InvalidArgument(
                    f"there is already a task {task.name!r}", "give one of them another name: task(name=...)"
                )
            self.tasks[task.name] = task
            return task

        return made if function is None else made(function)

    def cron(
        self,
        expression: str,
        *,
        tz: str | tzinfo | None = None,
        catch_up: CatchUp = "one",
        name: str | None = None,
        **options: Unpack[WorkOptions],
    ) -> Callable[[Task[P, R, C]], Task[P, R, C]]:
        """Run a task at the times of a cron expression, in a time zone (UTC, unless given).

        Each scheduled time creates one message, however many workers there are. Times that were missed while
        no worker ran are made up for: by `one` message for the last of them, by `all` of them, or by `none`.
        The database knows the schedule by its `name` (the task's own, unless given). The options are those of
        its messages: `priority`, `cost`, `lane`, `headers` and `max_attempts`.

            @app.cron("0 7 * * mon", tz="Europe/Berlin")
            @app.task(channel="reports")
            def weekly_report() -> None: ...
        """
        check_names("cron", options, WorkOptions)

        def made(task: Task[P, R, C]) -> Task[P, R, C]:
            if not isinstance(task, Task):
                raise InvalidArgument(f"{task!r} is not a task", "write @app.cron(...) above @app.task(...)")
            for option, value in options.items():
                if option in UNCHANGED:
                    check_option(option, value)
            message = task.scheduled_message(options)
            schedule = cron(name or task.name, expression, message, tz=tz, catch_up=catch_up)
            if any(schedule.name == other.name for other in self.crons):
                raise InvalidArgument(
                    f"there is already a schedule {schedule.name!r}",
                    "give one of them a name: cron(name=...)",
                )
            self.crons.append(schedule)
            return task

        return made

    @overload
    def consume(self, handler: Consumer, /) -> Consumer: ...
    @overload
    def consume(
        self,
        handler: None = None,
        /,
        *,
        backoff: Delays | None = None,
        timeout: Duration | None = None,
        lease: Duration | None = None,
    ) -> Callable[[Consumer], Consumer]: ...
    def consume(
        self,
        handler: Any = None,
        /,
        *,
        backoff: Delays | None = None,
        timeout: Duration | None = None,
        lease: Duration | None = None,
    ) -> Any:
        """Handle the messages without a task. An app has at most one such function.

        ```python
        @app.consume
        def handle(message: Delivery) -> None: ...
        ```
        """
        policy = HandlerPolicy(
            backoff=Backoff() if backoff is None else backoff, timeout=timeout, lease=lease
        )

        def made(function: Consumer) -> Consumer:
            if self.raw_handler is not None:
                raise InvalidArgument(
                    f"{self.raw_handler.name} already handles the messages without a task",
                    "let that function tell them apart",
                )
            self.raw_handler = RawHandler(function, policy)
            return function

        return made if handler is None else made(handler)

    def handler_of(self, message: Delivery) -> Handler | None:
        """The handler of a message; None if this app has none."""
        name = (message.headers or {}).get(TASK_HEADER)
        if name is None:
            return self.raw_handler
        return self.tasks.get(name) if isinstance(name, str) else None

    def send(self, task: Task[..., Any, C], message: NewMessage, conn: object | None, on_full: OnFull) -> C:
        if self._inline is not None:
            return self._inline.send(task, message, conn, on_full)
        sent: Any = self.queue.enqueue(
            message.payload, channel=message.channel, on_full=on_full, conn=conn, **message.options()
        )
        return sent  # type: ignore[no-any-return]

    @contextmanager
    def inline(self) -> Iterator[list[NewMessage]]:
        """Run enqueued calls at once, in this process and without a database. For tests.

        ```python
        with app.inline() as ran:
            send_invoice.enqueue(7)
        assert [message.payload for message in ran] == [{"invoice": 7}]
        ```
        """
        before = self._inline
        inline: Inline[C] = Inline(is_async=isinstance(self.queue, AsyncQueue))
        self._inline = inline
        try:
            yield inline.ran
        finally:
            self._inline = before
