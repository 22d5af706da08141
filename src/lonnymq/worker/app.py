"""An App: the tasks and schedules of a program, and the queue that their calls go to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import tzinfo
from typing import Any, TypeVar, Unpack, overload

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.calls import shows
from lonnymq.client.produce import TASK_HEADER, OnFull, check_names, check_work_options
from lonnymq.client.queue import Queue
from lonnymq.commands import Delivery
from lonnymq.errors import InvalidArgument
from lonnymq.message_options import DEFAULT_CHANNEL, Duration, NewMessage, TaskOptions, WorkOptions
from lonnymq.worker.backoff import Backoff, Delays
from lonnymq.worker.catch_up import CatchUp
from lonnymq.worker.cron import Cron, cron
from lonnymq.worker.handle import AsyncHandle, Handle
from lonnymq.worker.handler_policy import HandlerPolicy
from lonnymq.worker.inline import Inline
from lonnymq.worker.task import Handler, P, R, RawHandler, Task
from lonnymq.worker.task_modules import TaskModules

Consumer = TypeVar("Consumer", bound=Callable[[Delivery], Any])


class App:
    """The tasks of a program, on the queue that their calls wait in.

        queue = Queue("postgresql://localhost/shop")
        app = App(queue)

        @app.task(channel="invoices", max_attempts=5)
        def send_invoice(invoice: int) -> None: ...

        send_invoice.enqueue(7)

    Tasks may be plain functions or asynchronous ones, and both kinds of code can enqueue calls: plain code
    with `enqueue`, asynchronous code with `await send_invoice.enqueue_async(7)`. The queue may be of either
    kind. For calls of the other kind the app opens connections of its own, which are closed with the queue.

    `include` names modules that define tasks of the app, such as "shop.tasks", or "shop.tasks.*" for all
    modules of a package. A worker imports them when it starts, so they may import the app.
    """

    def __init__(self, queue: Queue | AsyncQueue, *, include: Iterable[str] = ()) -> None:
        if not isinstance(queue, Queue | AsyncQueue):
            # Not its text: it may be an address with a password.
            raise InvalidArgument(f"a {type(queue).__name__} is not a queue", "give a Queue or an AsyncQueue")
        self.queue = queue
        self.tasks: dict[str, Task[..., Any]] = {}
        self.modules = TaskModules(include)
        self.raw_handler: RawHandler | None = None
        self.crons: list[Cron] = []
        self._inline: Inline | None = None

    def __repr__(self) -> str:
        return f"<App of {len(self.tasks)} tasks on {self.queue!r}>"

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        channel: str = DEFAULT_CHANNEL,
        backoff: Delays | None = None,
        timeout: Duration | None = None,
        lease: Duration | None = None,
        max_running: int | None = None,
        validate: bool = False,
        **options: Unpack[TaskOptions],
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...
    @shows(TaskOptions)
    def task(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        channel: str = DEFAULT_CHANNEL,
        backoff: Delays | None = None,
        timeout: Duration | None = None,
        lease: Duration | None = None,
        max_running: int | None = None,
        validate: bool = False,
        **options: Unpack[TaskOptions],
    ) -> Any:
        """Make a task of a function, plain or asynchronous.

        Messages refer to the task by its `name` (the function's own, unless given), so keep the name when
        you move the function. Calls use `channel` and the options `priority`, `cost`, `lane`, `headers`,
        `max_attempts` and `keep_result` unless they give others. `backoff` says how long to wait after a
        failed attempt: a Backoff, a number of seconds, or a function from the number of the attempt to
        seconds. An attempt that takes longer than `timeout` is stopped and has failed. The `lease` is how
        long a message stays with a worker that died; a worker extends it for as long as the handler runs. At
        most `max_running` messages of the task run at the same time in one worker process.

        `unique_while` or `unique_for` say how long a call holds its `dedupe_key`, if it has one, as in
        Queue.enqueue: while it waits, unless given.

        With `keep_result`, what the function returns is kept for this long, for `wait` and `queue.result`; if
        the message dies, its error is kept. A value that cannot be encoded makes the message a dead letter.

        With `validate`, arguments are converted to the types of the annotations and checked, when a call is
        enqueued and again when it runs: pydantic models by pydantic, all others by msgspec. Otherwise the
        function gets plain values, as they were decoded.
        """
        own = ("name", "channel", "backoff", "timeout", "lease", "max_running", "validate")
        check_names("task", options, TaskOptions, *own)
        policy = HandlerPolicy(
            channel, options, Backoff() if backoff is None else backoff, timeout, lease, max_running
        )

        def made(function: Callable[P, R]) -> Task[P, R]:
            if not callable(function):
                raise InvalidArgument(f"{function!r} is not a function", "write @app.task above a function")
            task = Task(function, name or function.__name__, policy, self, validate=validate)
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
    ) -> Callable[[Task[P, R]], Task[P, R]]:
        """Run a task at the times of a cron expression, in a time zone (UTC, unless given).

        Each scheduled time creates one message, however many workers there are. Times that were missed while
        no worker ran are made up for: by `one` message for the last of them, by `all` of them, or by `none`.
        The database knows the schedule by its `name` (the task's own, unless given). The options are those of
        its messages: `priority`, `cost`, `lane`, `headers`, `max_attempts` and `keep_result`.

            @app.cron("0 7 * * mon", tz="Europe/Berlin")
            @app.task(channel="reports")
            def weekly_report() -> None: ...
        """
        check_names("cron", options, WorkOptions, "tz", "catch_up", "name")

        def made(task: Task[P, R]) -> Task[P, R]:
            if not isinstance(task, Task):
                raise InvalidArgument(f"{task!r} is not a task", "write @app.cron(...) above @app.task(...)")
            check_work_options(options)
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

    def include(self, *modules: str) -> None:
        """Name more modules that define tasks of this app: see App."""
        self.modules.add(modules)

    def load_tasks(self) -> None:
        """Import the included modules. Raises InvalidArgument if the app has no tasks even then."""
        self.modules.load()
        if not self.tasks and self.raw_handler is None:
            raise InvalidArgument(
                "the app has no tasks, so a worker would have nothing to run",
                "import the modules that define them, or name these modules: App(queue, include=[...])",
            )

    def send(self, task: Task[..., Any], message: NewMessage, conn: object | None, on_full: OnFull) -> Handle:
        if self._inline is not None:
            return self._inline.send(task, message)
        queue = self.queue.as_sync()
        made = queue.enqueue(
            message.payload, channel=message.channel, on_full=on_full, conn=conn, **message.options()
        )
        return Handle(made.id, made.result, queue.wait)

    async def send_async(
        self, task: Task[..., Any], message: NewMessage, conn: object | None, on_full: OnFull
    ) -> AsyncHandle:
        if self._inline is not None:
            return await self._inline.send_async(task, message)
        queue = self.queue.as_async()
        made = await queue.enqueue(
            message.payload, channel=message.channel, on_full=on_full, conn=conn, **message.options()
        )
        return AsyncHandle(made.id, made.result, queue.wait)

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
        self._inline = Inline()
        try:
            yield self._inline.ran
        finally:
            self._inline = before
