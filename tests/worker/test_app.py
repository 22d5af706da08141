"""Tasks, and the messages that their calls become."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lonnymq import App, AsyncJob, AsyncQueue, Backoff, Delivery, Discard, Job, Queue, Retry, Worker, payload
from lonnymq.commands import Result
from lonnymq.errors import (
    BrokenContent,
    ChannelFull,
    InvalidArgument,
    InvalidField,
    InvalidMaxAttempts,
    InvalidTime,
    MissingExtra,
    NotEncodable,
    WrongArguments,
)
from lonnymq.worker.backoff import delay_ms
from lonnymq.worker.inline import NO_TOKEN
from lonnymq.worker.job import NoJob

NOWHERE = "host=/nowhere dbname=nothing"


@pytest.fixture
def app() -> App:
    return App(Queue(NOWHERE))


def delivery(content: bytes, task: str | None = "send", content_type: str = "application/json") -> Delivery:
    headers = {"content-type": content_type} | ({} if task is None else {"task": task})
    return Delivery(1, "a", content, headers, None, 1, NO_TOKEN, 0)


@dataclass
class Order:
    article: str
    pieces: int = 1


class Parcel(pydantic.BaseModel):
    weight: int


def test_a_call_is_a_message(app: App) -> None:
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


def test_how_long_calls_of_a_task_hold_their_keys(app: App) -> None:
    @app.task(unique_for=60)
    def refresh(shop: str) -> None: ...

    keyed = refresh.using(dedupe_key="k").message("acme")
    assert (keyed.unique_while, keyed.unique_for) == (None, 60)
    other = refresh.using(dedupe_key="k", unique_while="waiting").message("acme")
    assert (other.unique_while, other.unique_for) == ("waiting", None), "the call's window, and no other"
    plain = refresh.message("acme")
    assert (plain.dedupe_key, plain.unique_while, plain.unique_for) == (None, None, None)
    app.cron("0 7 * * *")(app.task(name="daily", unique_while="running")(lambda: None))
    assert app.crons[0].message.options == {"headers": {"content-type": "application/json", "task": "daily"}}


@pytest.mark.parametrize(
    ("window", "says"),
    [
        ({"unique_while": "ever"}, "unique_while: 'ever' is not known .give waiting or running"),
        ({"unique_for": -1}, "-1 is negative"),
        ({"unique_while": "waiting", "unique_for": 1}, "give one of the two"),
    ],
)
def test_a_window_that_is_not_valid(app: App, window: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        app.task(**window)(lambda: None)


def test_wrong_arguments_are_refused_where_they_are_enqueued(app: App) -> None:
    @app.task(name="mail it")
    def send(to: str, copies: int = 1) -> None: ...

    calls: list[tuple[Callable[..., Any], str]] = [
        (lambda call: call(), "task 'mail it': missing a required argument: 'to'"),
        (lambda call: call("zoë", colour=1), "task 'mail it': got an unexpected keyword argument 'colour'"),
        (lambda call: call("zoë", 1, 2), "task 'mail it': too many positional arguments"),
        (lambda call: call("zoë", to="zoë"), "task 'mail it': multiple values for argument 'to'"),
    ]
    for wrong_call, says in calls:
        for call in (send.enqueue, send.message, send.using(channel="a").enqueue):
            with pytest.raises(WrongArguments, match=says) as raised:
                wrong_call(call)
            assert isinstance(raised.value, TypeError)
            assert "it takes (to: str, copies: int = 1)" in str(raised.value.hint)


def test_a_task_without_parentheses(app: App) -> None:
    @app.task
    def send(to: str) -> str:
        """Send it."""
        return to

    assert send("zoë") == "zoë"
    assert (send.name, send.__doc__, app.tasks["send"]) == ("send", "Send it.", send)
    with app.inline() as ran:
        send.enqueue("zoë")
    assert [message.payload for message in ran] == [{"to": "zoë"}]


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
                await send.enqueue_async("max")
            assert (await send.using(on_full="return").enqueue_async("max")).result is Result.FULL

    asyncio.run(asynchronously())


CALL = b'{"order": {"article": "lamp"}, "at": "2030-01-01T00:00:00Z", "rest": [1], "copies": 2}'


def test_a_handler_gets_plain_values(app: App) -> None:
    got: list[Any] = []

    @app.task()
    def send(order: Order, at: datetime, rest: "list[Missing]", **more: str) -> None:  # type: ignore[name-defined] # noqa: F821
        got.extend([order, at, rest, more])

    send.call_for(delivery(CALL))()
    assert got == [{"article": "lamp"}, "2030-01-01T00:00:00Z", [1], {"copies": 2}]
    untyped: Any = send
    assert untyped.message("lamp", {1}, None).payload == {"order": "lamp", "at": {1}, "rest": None}
    with pytest.raises(NotEncodable, match="a value of type set is not a JSON value"):
        untyped.enqueue("lamp", {1}, None)


def test_validated_arguments(app: App) -> None:
    got: list[Any] = []

    @app.task(validate=True)
    def send(
        order: Order, at: datetime, rest: "set[int] | None" = None, other: Any = None, **more: int
    ) -> None:
        got.extend([order, at, rest, other, more])

    at = datetime(2030, 1, 1, tzinfo=UTC)
    send.call_for(delivery(CALL))()
    assert got == [Order("lamp"), at, {1}, None, {"copies": 2}]

    message = send.message(Order("lamp"), at, {1}, other="as it is", copies=2)
    plain = {"article": "lamp", "pieces": 1}
    assert message.payload == {
        "order": plain,
        "at": "2030-01-01T00:00:00Z",
        "rest": [1],
        "other": "as it is",
        "copies": 2,
    }
    untyped: Any = send
    for arguments, name in (
        ({"order": "lamp", "at": at}, "order"),
        ({"order": Order("lamp"), "at": 7}, "at"),
        ({"order": {"article": 7}, "at": at}, "order"),
        ({"order": plain, "at": at, "rest": ["a"]}, "rest"),
        ({"order": plain, "at": at, "copies": "two"}, "copies"),
    ):
        with pytest.raises(WrongArguments, match=f"task 'send', argument '{name}': .* is not of type"):
            untyped.message(**arguments)
    with pytest.raises(WrongArguments, match="argument 'copies': 'two' is not of type int"):
        send.call_for(delivery(CALL.replace(b"2}", b'"two"}')))
    with pytest.raises(NotEncodable, match="cannot encode a object"):
        send.message(Order("lamp"), at, object())  # type: ignore[arg-type]


def test_models_as_arguments(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "msgspec", None)  # pydantic alone converts them
    got: list[Any] = []

    @app.task(validate=True)
    def send(parcel: Parcel, note) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
        got.extend([parcel, note])

    assert send.message(Parcel(weight=7), "fragile").payload == {"parcel": {"weight": 7}, "note": "fragile"}
    assert send.message({"weight": 7}, None).payload == {"parcel": {"weight": 7}, "note": None}  # type: ignore[arg-type]
    send.call_for(delivery(b'{"parcel": {"weight": "7"}, "note": "fragile"}'))()
    assert got == [Parcel(weight=7), "fragile"]
    with pytest.raises(WrongArguments, match="task 'send', argument 'parcel'"):
        send.call_for(delivery(b'{"parcel": {}, "note": null}'))


def test_what_cannot_be_validated_is_refused_when_it_is_declared(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    def custom(app: App) -> None: ...
    def ambiguous(numbers: list[int] | set[int]) -> None: ...
    def unreadable(order: "Missing") -> None: ...  # type: ignore[name-defined] # noqa: F821
    def plain(invoice: int) -> None: ...

    for function, says in (
        (custom, "task 'custom', argument 'app': msgspec does not support"),
        (ambiguous, "task 'ambiguous', argument 'numbers': msgspec does not support"),
        (
            unreadable,
            "the annotations of the task 'unreadable' cannot be read: name 'Missing'",
        ),
    ):
        with pytest.raises(InvalidArgument, match=says):
            app.task(validate=True)(function)
    monkeypatch.setattr(payload, "msgspec", None)
    with pytest.raises(MissingExtra, match=r"task 'plain': .* for the argument 'invoice' .*lonnymq\[typed\]"):
        app.task(validate=True)(plain)
    assert not app.tasks
    app.task()(plain)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[7]", "not the arguments of the task 'send'"),
        (b"{}", "task 'send': the message has no argument 'invoice'"),
        (b'{"invoice": 7, "colour": "red"}', "task 'send' takes no argument 'colour'"),
        (b"{", "is not application/json"),
    ],
)
def test_a_payload_that_is_not_a_call(app: App, content: bytes, says: str) -> None:
    @app.task()
    def send(invoice: int) -> None: ...

    with pytest.raises((BrokenContent, WrongArguments), match=says):
        send.call_for(delivery(content))


def test_functions_that_cannot_be_tasks(app: App) -> None:
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
        App(NOWHERE)  # type: ignore[arg-type]


def test_a_schedule_takes_the_options_of_its_task(app: App) -> None:
    @app.cron("* * * * *", cost=5)
    @app.task(priority=-3, cost=2, lane="slow", headers={"kind": "report"}, max_attempts=4)
    def report() -> None: ...

    [cron] = app.crons
    assert cron.message.options == {
        "priority": -3,
        "cost": 5,
        "lane": "slow",
        "max_attempts": 4,
        "headers": {"kind": "report", "task": "report", "content-type": "application/json"},
    }


def test_the_options_of_a_task_are_defaults(app: App) -> None:
    @app.task(priority=7, cost=2, lane="slow", headers={"kind": "mail", "a": 1}, max_attempts=4)
    def send() -> None: ...

    message = send.message()
    assert (message.priority, message.cost, message.lane, message.max_attempts) == (7, 2, "slow", 4)
    assert message.headers == {"kind": "mail", "a": 1, "task": "send"}
    other = send.using(priority=0, lane="default", cost=None, headers={"a": 2}).message()
    assert (other.priority, other.cost, other.lane, other.max_attempts) == (0, 2, "default", 4)
    assert other.headers == {"kind": "mail", "a": 2, "task": "send"}


def test_an_address_given_as_the_queue_is_not_repeated() -> None:
    with pytest.raises(InvalidArgument) as raised:
        App("postgresql://me:secret@localhost/shop")  # type: ignore[arg-type]
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_attempts": 0}, InvalidMaxAttempts),
        ({"max_attempts": True}, InvalidMaxAttempts),
        ({"priority": 101}, InvalidField),
        ({"priority": -101}, InvalidField),
        ({"priority": True}, InvalidField),
        ({"cost": 0}, InvalidField),
        ({"lane": ""}, InvalidField),
        ({"lane": "é" * 128}, InvalidField),
        ({"headers": []}, InvalidField),
        ({"timeout": 0}, InvalidArgument),
        ({"lease": -1}, InvalidArgument),
        ({"lease": timedelta(0)}, InvalidArgument),
        ({"backoff": "long"}, InvalidTime),
    ],
)
def test_invalid_options(app: App, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        app.task(**options)


@pytest.mark.parametrize(
    ("call", "options", "says"),
    [
        ("enqueue", {"prio": 2}, "'prio'; its options are channel, on_full, conn, priority, "),
        ("set", {"size": 2}, "'size'; its options are .* max_size"),
        ("using", {"chanel": "a"}, "'chanel'; its options are channel, on_full, batch, conn, priority, "),
        ("task", {"tries": 2}, "'tries'; its options are name, channel, .*validate, .*max_attempts"),
        ("cron", {"prio": 2}, "'prio'; its options are tz, catch_up, name, "),
        ("cron", {"delay": 2}, "'delay'"),
        ("cron", {"dedupe_key": "a"}, "'dedupe_key'"),
    ],
)
def test_options_that_a_call_does_not_have(app: App, call: str, options: dict[str, Any], says: str) -> None:
    calls: dict[str, Any] = {
        "enqueue": partial(app.queue.enqueue, 1),
        "set": app.queue.channel("a").set,
        "using": app.task(name="any")(lambda: None).using,
        "task": app.task,
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
def test_headers_of_tasks_and_schedules_are_checked(app: App, headers: Any, error: type) -> None:
    task = app.task(name="any")(lambda: None)
    with pytest.raises(error):
        task.using(headers=headers).message()
    with pytest.raises(error):
        app.cron("* * * * *", headers=headers)(task)


def test_messages_find_their_handler(app: App) -> None:
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


def test_inline(app: App) -> None:
    seen: list[Any] = []

    @app.task(validate=True)
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
        ("default", {"order": {"article": "lamp", "pieces": 3}}),
        ("other", {"pieces": 3}),
    ]


def test_inline_raises_what_the_task_raises(app: App) -> None:
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
            await plain.enqueue_async(n - 1)

    @app.task()
    def plain(n: int) -> None:
        seen.append(n)
        assert Job.current().task == "plain"

    async def main() -> None:
        with app.inline():
            await later.enqueue_async(1)

    asyncio.run(main())
    assert seen == [1, 0]
