"""The tasks of a program, and the queue that their calls wait in."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import tzinfo
from typing import Any, Generic, TypeVar, overload

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.produce import DEFAULT_CHANNEL, TASK_HEADER, NewMessage, OnFull, check_lane
from lonnymq.client.queue import Queue
from lonnymq.client.times import Duration
from lonnymq.commands import Created, Delivery
from lonnymq.errors import InvalidArgument
from lonnymq.worker.backoff import Backoff, Delays
from lonnymq.worker.catch_up import CatchUp
from lonnymq.worker.cron import Cron, cron
from lonnymq.worker.handler_policy import Policy
from lonnymq.worker.inline import Inline
from lonnymq.worker.task import C, Handler, Options, P, R, RawHandler, Sending, Task

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

        Its `name` (the function's own, unless given) is what messages say, so keep it when the function
        moves. `channel` and `max_attempts` are those of its messages unless a call says otherwise. After
        a failure it is tried again as `backoff` says: a Backoff, a number of seconds, or a function from
        the attempt's number to one. What takes longer than `timeout` is stopped, and has failed. The
        `lease` is how long the message stays with a worker that died; it is extended for as long as the
        handler runs.
        """
        policy = Policy(channel, max_attempts, Backoff() if backoff is None else backoff, timeout, lease)

        def made(function: Callable[P, R]) -> Task[P, R, C]:
            if not callable(function):
                raise InvalidArgument(f"{function!r} is not a function", "write @app.task above a function")
            task: Task[P, R, C] = Task(function, name or function.__name__, policy, self)
            if task.name in self.tasks:
                raise InvalidArgument(
                    f"there is a task {task.name!r} already", "give one of them another name: task(name=...)"
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
        priority: int | None = None,
        cost: int | None = None,
        lane: str | None = None,
    ) -> Callable[[Task[P, R, C]], Task[P, R, C]]:
        """Have a task run at the times that a cron expression names, in a time zone (UTC, unless given).

        However many workers there are, each tick makes one message. What was missed while no worker ran
        is made up for: by `one` message for the last tick, by `all` of them, or by `none`. The
        schedule's `name` (the task's own, unless given) is what the database knows it by. `priority`,
        `cost` and `lane` are those of its messages.

            @app.cron("0 7 * * mon", tz="Europe/Berlin")
            @app.task(channel="reports")
            def weekly_report() -> None: ...
        """

        def made(task: Task[P, R, C]) -> Task[P, R, C]:
            if not isinstance(task, Task):
                raise InvalidArgument(f"{task!r} is not a task", "write @app.cron(...) above @app.task(...)")
            check_lane(lane)
            message = task.message_of_tick(Options(priority=priority, cost=cost, lane=lane))
            schedule = cron(name or task.name, expression, message, tz=tz, catch_up=catch_up)
            if any(schedule.name == other.name for other in self.crons):
                raise InvalidArgument(
                    f"there is a schedule {schedule.name!r} already",
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
        """Have a function take the messages that are of no task. There is one such function at most.

        ```python
        @app.consume
        def handle(message: Delivery) -> None: ...
        ```
        """
        policy = Policy(backoff=Backoff() if backoff is None else backoff, timeout=timeout, lease=lease)

        def made(function: Consumer) -> Consumer:
            if self.raw_handler is not None:
                raise InvalidArgument(
                    f"messages of no task go to {self.raw_handler.name} already",
                    "let that one tell them apart",
                )
            self.raw_handler = RawHandler(function, policy)
            return function

        return made if handler is None else made(handler)

    def handler_of(self, message: Delivery) -> Handler | None:
        """None: not known here."""
        name = (message.headers or {}).get(TASK_HEADER)
        if name is None:
            return self.raw_handler
        return self.tasks.get(name) if isinstance(name, str) else None

    def send(self, task: Task[..., Any, C], message: NewMessage, conn: object | None, on_full: OnFull) -> C:
        if self._inline is not None:
            return self._inline.send(task, message, conn, on_full)
        sent: Any = self.queue.enqueue(
            message.value,
            channel=message.channel,
            run_at=message.run_at,
            delay=message.delay,
            priority=message.priority,
            cost=message.cost,
            lane=message.lane,
            dedupe_key=message.dedupe_key,
            headers=message.headers,
            max_attempts=message.max_attempts,
            on_full=on_full,
            conn=conn,
        )
        return sent  # type: ignore[no-any-return]

    @contextmanager
    def inline(self) -> Iterator[list[NewMessage]]:
        """Within, a call that is enqueued runs at once, in this process and without a database: for tests.

        ```python
        with app.inline() as ran:
            send_invoice.enqueue(7)
        assert [message.value for message in ran] == [{"invoice": 7}]
        ```
        """
        before = self._inline
        inline: Inline[C] = Inline(is_async=isinstance(self.queue, AsyncQueue))
        self._inline = inline
        try:
            yield inline.ran
        finally:
            self._inline = before
