"""Tasks, and the messages that their calls become."""

import asyncio
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lonnymq import App, AsyncJob, AsyncQueue, Backoff, Delivery, Discard, Job, Queue, Retry, Worker
from lonnymq.commands import Result
from lonnymq.errors import (
    BrokenContent,
    ChannelFull,
    InvalidArgument,
    InvalidField,
    InvalidMaxAttempts,
    InvalidTime,
    NotEncodable,
)
from lonnymq.worker.backoff import delay_ms
from lonnymq.worker.inline import NO_TOKEN
from lonnymq.worker.job import NoJob

NOWHERE = "host=/nowhere dbname=nothing"


@pytest.fixture
def app() -> App[Any]:
    return App(Queue(NOWHERE))


def delivery(content: bytes, task: str | None = "send", content_type: str = "application/json") -> Delivery:
    headers = {"content-type": content_type} | ({} if task is None else {"task": task})
    return Delivery(1, "a", content, headers, None, 1, NO_TOKEN, 0)


@dataclass
class Order:
    article: str
    pieces: int = 1


def test_a_call_is_a_message(app: App[Any]) -> None:
    @app.task(channel="mail", max_attempts=3)
    def send(to: str, subject: str = "hello", **more: int) -> str:
        return f"{to} {subject} {more}"

    assert send("zoë", copies=2) == "zoë hello {'copies': 2}"
    message = send.message("zoë", copies=2)
    assert message.payload == {"to": "zoë", "copies": 2}
    assert (message.channel, message.max_attempts, message.headers) == ("mail", 3, {"task": "send"})
    at = datetime(2099, 1, 1, tzinfo=UTC)
    other = send.using(
        channel="urgent", run_at=at, dedupe_key="k", headers={"trace": "1"}, max_attempts=1
    ).message("zoë", "bye")
    assert other.payload == {"to": "zoë", "subject": "bye"}
    assert (other.channel, other.run_at, other.dedupe_key, other.max_attempts) == ("urgent", at, "k", 1)
    assert other.headers == {"trace": "1", "task": "send"}
    with pytest.raises(TypeError, match="missing a required argument: 'to'"):
        send.message()  # type: ignore[call-arg]


def test_a_call_into_a_full_channel(dsn: str) -> None:
    with Queue(dsn) as queue:
        queue.channel("mail").set(max_size=1)

        @App(queue).task(channel="mail")
        def send(to: str) -> None: ...

        send.enqueue("zoë")
        with pytest.raises(ChannelFull, match="channel 'mail' is full"):
            send.enqueue("max")
        with pytest.raises(ChannelFull):
            send.using(delay=1).enqueue("max")
        assert send.using(on_full="return").enqueue("max").result is Result.FULL

    async def asynchronously() -> None:
        async with AsyncQueue(dsn) as queue:

            @App(queue).task(channel="mail")
            def send(to: str) -> None: ...

            with pytest.raises(ChannelFull):
                await send.enqueue("max")
            assert (await send.using(on_full="return").enqueue("max")).result is Result.FULL

    asyncio.run(asynchronously())


def test_arguments_come_back_as_the_function_wants_them(app: App[Any]) -> None:
    got: list[Any] = []

    @app.task()
    def send(order: Order, at: datetime, rest: "list[int] | None" = None) -> None:
        got.extend([order, at, rest])

    send.call_for(delivery(b'{"order": {"article": "lamp"}, "at": "2030-01-01T00:00:00Z", "rest": [1]}'))()
    assert got == [Order("lamp"), datetime(2030, 1, 1, tzinfo=UTC), [1]]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[7]", "not the arguments of a task"),
        (b"{}", "lacks 'invoice'"),
        (b'{"invoice": 7, "colour": "red"}', "takes no 'colour'"),
        (b'{"invoice": "seven"}', "'seven' is not of type int"),
        (b"{", "is not application/json"),
    ],
)
def test_a_payload_that_is_not_a_call(app: App[Any], content: bytes, says: str) -> None:
    @app.task()
    def send(invoice: int) -> None: ...

    with pytest.raises(BrokenContent, match=says):
        send.call_for(delivery(content))


def test_functions_that_cannot_be_tasks(app: App[Any]) -> None:
    def by_position(first: int, /) -> None: ...
    def any_number(*numbers: int) -> None: ...

    for function in (by_position, any_number):
        with pytest.raises(InvalidArgument, match="by position"):
            app.task()(function)

    with pytest.raises(InvalidArgument, match="5 is not a function"):
        app.task()(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="a NoneType is not an App"):
        Worker(None)  # type: ignore[arg-type]

    @app.task
    def send() -> None: ...

    with pytest.raises(InvalidArgument, match="already a task 'send'"):
        app.task(name="send")(lambda: None)
    with pytest.raises(InvalidArgument, match="above @app"):
        app.cron("* * * * *")(lambda: None)  # type: ignore[arg-type]
    app.cron("* * * * *")(send)
    with pytest.raises(InvalidArgument, match="already a schedule 'send'"):
        app.cron("0 * * * *")(send)
    app.cron("0 * * * *", name="send hourly", priority=7, cost=2, lane="slow")(send)
    options = [each.message.options for each in app.crons]
    assert [{name: each.get(name) for name in ("priority", "cost", "lane")} for each in options] == [
        {"priority": None, "cost": None, "lane": None},
        {"priority": 7, "cost": 2, "lane": "slow"},
    ]
    with pytest.raises(InvalidField, match="lane: 5 is not a string"):
        app.cron("0 * * * *", name="send slowly", lane=5)(send)  # type: ignore[arg-type]
    assert [each.name for each in app.crons] == ["send", "send hourly"]
    with pytest.raises(InvalidArgument, match="is not a queue"):
        App(NOWHERE)  # type: ignore[call-overload]


def test_an_address_given_as_the_queue_is_not_repeated() -> None:
    with pytest.raises(InvalidArgument) as raised:
        App("postgresql://me:secret@localhost/shop")  # type: ignore[call-overload]
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_attempts": 0}, InvalidMaxAttempts),
        ({"max_attempts": True}, InvalidMaxAttempts),
        ({"timeout": 0}, InvalidArgument),
        ({"lease": -1}, InvalidArgument),
        ({"lease": timedelta(0)}, InvalidArgument),
        ({"backoff": "long"}, InvalidTime),
    ],
)
def test_invalid_options(app: App[Any], options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        app.task(**options)


@pytest.mark.parametrize(
    ("call", "options", "says"),
    [
        ("enqueue", {"prio": 2}, "'prio'; its options are priority, "),
        ("set", {"size": 2}, "'size'; its options are .* max_size"),
        ("using", {"prio": 2}, "'prio'"),
        ("cron", {"prio": 2}, "'prio'"),
        ("cron", {"delay": 2}, "'delay'"),
        ("cron", {"dedupe_key": "a"}, "'dedupe_key'"),
    ],
)
def test_options_that_a_call_does_not_have(
    app: App[Any], call: str, options: dict[str, Any], says: str
) -> None:
    calls: dict[str, Any] = {
        "enqueue": partial(app.queue.enqueue, 1),
        "set": app.queue.channel("a").set,
        "using": app.task(name="any")(lambda: None).using,
        "cron": partial(app.cron, "* * * * *"),
    }
    with pytest.raises(TypeError, match=rf"^{call}\(\) got an unexpected keyword argument ({says})"):
        calls[call](**options)


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        (5, InvalidField),
        ([], InvalidField),
        ({"a": object()}, NotEncodable),
        ({"a": float("nan")}, NotEncodable),
    ],
)
def test_headers_of_tasks_and_schedules_are_checked(app: App[Any], headers: Any, error: type) -> None:
    task = app.task(name="any")(lambda: None)
    with pytest.raises(error):
        task.using(headers=headers).message()
    with pytest.raises(error):
        app.cron("* * * * *", headers=headers)(task)


def test_messages_find_their_handler(app: App[Any]) -> None:
    @app.task()
    def send() -> None: ...

    assert app.handler_of(delivery(b"{}")) is send
    assert app.handler_of(delivery(b"{}", task="other")) is None
    assert app.handler_of(delivery(b"{}", task=None)) is None

    @app.consume(timeout=5)
    def raw(message: Delivery) -> None: ...

    found = app.handler_of(delivery(b"{}", task=None))
    assert found is not None
    assert found.name == "raw"
    assert found.policy.timeout_s == 5
    assert app.handler_of(delivery(b"{}", task="other")) is None, "an unknown task has no handler"
    with pytest.raises(InvalidArgument, match="raw already handles"):
        app.consume(raw)


@given(
    first=st.floats(0, 100),
    factor=st.floats(1, 10),
    longest=st.integers(100, 1000),
    attempt=st.integers(1, 10_000),
)
def test_backoff_grows_to_its_limit(first: float, factor: float, longest: int, attempt: int) -> None:
    backoff = Backoff(first, factor, longest)
    plain = backoff.without_jitter(attempt)
    assert plain <= backoff.without_jitter(attempt + 1) <= longest
    assert plain / 2 <= backoff(attempt) <= plain


def test_backoff_is_randomised() -> None:
    random.seed(7)
    delays = [delay_ms(Backoff(first=10), 1) for _ in range(1000)]
    assert min(delays) < 5100
    assert max(delays) > 9900
    assert len(set(delays)) > 900
    assert delay_ms(2.5, 9) == delay_ms(timedelta(seconds=2.5), 1) == 2500
    assert delay_ms(lambda attempt: attempt * 2, 3) == 6000
    with pytest.raises(InvalidArgument, match="does not grow"):
        Backoff(first=5, longest=1)
    with pytest.raises(InvalidTime):
        Retry(after=-1)


def test_there_is_no_job_outside_a_handler() -> None:
    with pytest.raises(NoJob, match="there is no current job"):
        Job.current()


def test_inline(app: App[Any]) -> None:
    seen: list[Any] = []

    @app.task()
    def outer(order: Order) -> None:
        job = Job.current()
        seen.append((order, job.attempt, job.task, job.state))
        job.save({"page": 2})
        assert job.state == {"page": 2}
        inner.enqueue(order.pieces)
        assert Job.current() is job, "the inner task's job is current only in the inner task"
        job.complete(conn=None)

    @app.task(channel="other")
    async def inner(pieces: int) -> None:
        await AsyncJob.current().save(pieces)
        with pytest.raises(NoJob, match="use "):
            Job.current()
        seen.append(pieces)

    with app.inline() as ran:
        assert outer.using(delay=60).enqueue(Order("lamp", 3)).result is Result.CREATED
    assert seen == [(Order("lamp", 3), 1, "outer", None), 3]
    assert [(message.channel, message.payload) for message in ran] == [
        ("default", {"order": Order("lamp", 3)}),
        ("other", {"pieces": 3}),
    ]


def test_inline_raises_what_the_task_raises(app: App[Any]) -> None:
    @app.task()
    def fails(why: str) -> None:
        raise Discard(why)

    with app.inline(), pytest.raises(Discard, match="no reason"):
        fails.enqueue("no reason")


def test_inline_in_a_loop() -> None:
    app = App(AsyncQueue(NOWHERE))
    seen: list[int] = []

    @app.task()
    async def later(n: int) -> None:
        await asyncio.sleep(0)
        seen.append(n)
        if n:
            await plain.enqueue(n - 1)

    @app.task()
    def plain(n: int) -> None:
        seen.append(n)
        assert Job.current().task == "plain"

    async def main() -> None:
        with app.inline():
            await later.enqueue(1)

    asyncio.run(main())
    assert seen == [1, 0]
