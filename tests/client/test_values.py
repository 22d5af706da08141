"""Values that PostgreSQL cannot store: every pool and engine raises the same error and changes nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from lonnymq import NewMessage, Queue, errors

INVALID: dict[str, tuple[Callable[[Queue], object], type[errors.LonnyMQError], str]] = {
    "a channel with a NUL": (
        lambda queue: queue.enqueue(1, channel="a\0b"),
        errors.InvalidChannel,
        r"channel: 'a\x00b' contains a NUL character",
    ),
    "one of many channels": (
        lambda queue: queue.enqueue_many([NewMessage(1), NewMessage(1, channel="a\0b")]),
        errors.InvalidChannel,
        r"channels: 'a\x00b' contains a NUL",
    ),
    "a lone surrogate": (
        lambda queue: queue.enqueue(1, channel="a\ud800"),
        errors.InvalidChannel,
        r"channel: 'a\ud800' contains a lone surrogate",
    ),
    "a key": (
        lambda queue: queue.enqueue(1, dedupe_key="\0"),
        errors.InvalidField,
        r"dedupe_key: '\x00' contains a NUL",
    ),
    "headers": (
        lambda queue: queue.enqueue(1, headers={"path": ["a\0"]}),
        errors.InvalidField,
        "contains a NUL character",
    ),
    "headers that are an empty list": (
        lambda queue: queue.enqueue(1, headers=[]),  # type: ignore[arg-type]
        errors.InvalidField,
        "headers: a list is not a dict",
    ),
    "a limit": (
        lambda queue: queue.dequeue(2**31),
        errors.InvalidLimit,
        "limit: 2147483648 is out of range (give a number from -2,147,483,648 to 2,147,483,647)",
    ),
    "a delay": (
        lambda queue: queue.enqueue(1, delay=10**30),
        errors.InvalidTime,
        "is out of range (give a number from ",
    ),
    "one of many attempts": (
        lambda queue: queue.enqueue_many([NewMessage(1, max_attempts=2**31)]),
        errors.InvalidMaxAttempts,
        "max_attempts: 2147483648 is out of range",
    ),
    "a limit that is text": (
        lambda queue: queue.dequeue("3"),  # type: ignore[arg-type]
        errors.InvalidLimit,
        "limit: '3' is not a whole number (give an int from 1 to 10,000)",
    ),
    "a limit with a fraction": (
        lambda queue: queue.dequeue(1.5),  # type: ignore[arg-type]
        errors.InvalidLimit,
        "limit: 1.5 is not a whole number",
    ),
    "something that was not dequeued": (
        lambda queue: queue.complete(5),  # type: ignore[arg-type]
        errors.InvalidArgument,
        "5 is not a delivery (pass a message that dequeue() returned)",
    ),
    "one of many that was not dequeued": (
        lambda queue: queue.complete_many([None]),  # type: ignore[list-item]
        errors.InvalidArgument,
        "None is not a delivery",
    ),
    "a delay in the past": (
        lambda queue: queue.enqueue(1, delay=-1),
        errors.InvalidTime,
        "-1 is negative (give 0 or more seconds)",
    ),
    "an id with a fraction": (
        lambda queue: queue.cancel(70.6),  # type: ignore[arg-type]
        errors.InvalidField,
        "id: 70.6 is not a whole number (give an int)",
    ),
    "an id that is text": (
        lambda queue: queue.cancel("a"),  # type: ignore[arg-type]
        errors.InvalidField,
        "'a' is not a whole number (give an int)",
    ),
    "a channel's limit that is text": (
        lambda queue: queue.channel("a").set(max_concurrency="a"),  # type: ignore[arg-type]
        errors.InvalidChannelPolicy,
        "max_concurrency: 'a' is not a whole number (give an int)",
    ),
    "a rate that is not one": (
        lambda queue: queue.channel("a").set(rate="20 s"),
        errors.InvalidChannelPolicy,
        "'20 s' is not a rate (give one such as '20/s', '100/min' or '1/5min', or a number per second",
    ),
    "a rate that is a bool": (
        lambda queue: queue.channel("a").set(rate=True),
        errors.InvalidChannelPolicy,
        "True is not a rate",
    ),
    "a rate that channels inherit": (
        lambda queue: queue.set(channel_rate="1/week"),
        errors.InvalidChannelPolicy,
        "'1/week' is not a rate",
    ),
    "a weight that is inherited": (
        lambda queue: queue.channel("a").set(weight="inherit"),  # type: ignore[arg-type]
        errors.InvalidChannelPolicy,
        "weight: 'inherit' is not a number",
    ),
    "a channel's limit that is a bool": (
        lambda queue: queue.channel("a").set(max_concurrency=True),
        errors.InvalidChannelPolicy,
        "max_concurrency: True is not a whole number (give an int)",
    ),
    "a pause that is a number": (
        lambda queue: queue.channel("a").set(paused=1),  # type: ignore[arg-type]
        errors.InvalidChannelPolicy,
        "paused: 1 is neither True nor False (give a bool)",
    ),
    "a setting that is text": (
        lambda queue: queue.set(history="yes"),  # type: ignore[arg-type]
        errors.InvalidQueueSetting,
        "history: 'yes' is neither True nor False",
    ),
    "a key that is a number": (
        lambda queue: queue.enqueue(1, dedupe_key=5),  # type: ignore[arg-type]
        errors.InvalidField,
        "dedupe_key: 5 is not a string (give a str)",
    ),
    "a consumer that is a number": (
        lambda queue: queue.dequeue(consumer=5),  # type: ignore[arg-type]
        errors.InvalidField,
        "consumer: 5 is not a string",
    ),
    "text for values": (
        lambda queue: queue.enqueue_many("abc"),
        errors.InvalidField,
        "'abc' is not a list of values (give a list, even for one)",
    ),
    "a dict for values": (
        lambda queue: queue.enqueue_many({"a": 1}),
        errors.InvalidField,
        "{'a': 1} is not a list of values",
    ),
    "text for ids": (
        lambda queue: queue.cancel_many("12"),  # type: ignore[arg-type]
        errors.InvalidField,
        "'12' is not a list of ids",
    ),
    "one text among ids": (
        lambda queue: queue.cancel_many([1, "2"]),  # type: ignore[list-item]
        errors.InvalidField,
        "ids: '2' is not a whole number",
    ),
    "one for many": (
        lambda queue: queue.complete_many(5),  # type: ignore[arg-type]
        errors.InvalidField,
        "5 is not a list of messages",
    ),
    "a page of the history": (
        lambda queue: queue.history(limit=-1),
        errors.InvalidLimit,
        "limit: -1 is not a whole number of 1 or more",
    ),
    "an id": (lambda queue: queue.get(2**63), errors.InvalidField, "id: 9223372036854775808 is out of range"),
    "a channel's limit": (
        lambda queue: queue.channel("a").set(max_size=2**31),
        errors.InvalidChannelPolicy,
        "max_size: 2147483648 is out of range",
    ),
    "a setting": (
        lambda queue: queue.set(max_concurrency=2**31),
        errors.InvalidQueueSetting,
        "max_concurrency: 2147483648 is out of range",
    ),
}


def test_invalid_values(queue: Any) -> None:
    for what, (call, kind, text) in INVALID.items():
        with pytest.raises(errors.InvalidArgument) as refused:
            call(queue)
        assert type(refused.value) is kind, what
        assert text in str(refused.value)
    assert queue.messages() == []
    assert queue.enqueue(1).id is not None, "the queue still works"


def test_an_exception_class_as_the_error(own_queue: Any) -> None:
    own_queue.enqueue(1)
    [message] = own_queue.dequeue()
    with pytest.raises(errors.InvalidField, match="error: <class 'ValueError'> is not a string"):
        own_queue.retry(message, error=ValueError)
    assert own_queue.complete(message) == "completed"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"schema": None}, "None is not the name of a schema"),
        ({"pool_size": 0}, "pool_size: 0 is not a whole number of 1 or more"),
        ({"pool_size": "a"}, "pool_size: 'a' is not"),
        ({"timeout": "x"}, "timeout: 'x' is not a number of seconds above 0"),
        ({"timeout": float("nan")}, "timeout: nan is not"),
        ({"timeout": -1}, "timeout: -1 is not"),
    ],
)
def test_invalid_options_of_a_queue(options: dict[str, Any], text: str) -> None:
    with pytest.raises((errors.InvalidArgument, errors.InvalidSchemaName)) as refused:
        Queue("postgresql://localhost/nowhere", **options)
    assert text in str(refused.value)


def test_values_that_the_engine_refuses(own_queue: Any) -> None:
    with pytest.raises(errors.InvalidLimit, match="Ask for 1 to"):
        own_queue.dequeue(10_001)
