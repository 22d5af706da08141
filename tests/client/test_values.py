"""Values that PostgreSQL has no place for, on every pool and engine: the same error, and nothing was done."""

from collections.abc import Callable
from typing import Any

import pytest

from lonnymq import NewMessage, Queue, errors

WRONG: dict[str, tuple[Callable[[Queue], object], type[errors.LonnyMQError], str]] = {
    "a channel with a NUL": (
        lambda queue: queue.enqueue(1, channel="a\0b"),
        errors.InvalidChannel,
        r"channel: 'a\x00b' has a NUL character in it",
    ),
    "one of many channels": (
        lambda queue: queue.enqueue_many([NewMessage(1), NewMessage(1, channel="a\0b")]),
        errors.InvalidChannel,
        r"channels: 'a\x00b' has a NUL",
    ),
    "half a character": (
        lambda queue: queue.enqueue(1, channel="a\ud800"),
        errors.InvalidChannel,
        r"channel: 'a\ud800' has half a character",
    ),
    "a key": (
        lambda queue: queue.enqueue(1, dedupe_key="\0"),
        errors.InvalidField,
        r"dedupe_key: '\x00' has a NUL",
    ),
    "headers": (
        lambda queue: queue.enqueue(1, headers={"path": ["a\0"]}),
        errors.InvalidField,
        "has a NUL character in it",
    ),
    "a limit": (
        lambda queue: queue.dequeue(2**31),
        errors.InvalidLimit,
        "limit: 2147483648 is out of range (PostgreSQL's INT is from -2,147,483,648 to 2,147,483,647)",
    ),
    "a delay": (
        lambda queue: queue.enqueue(1, delay=10**30),
        errors.InvalidTime,
        "is out of range (PostgreSQL's BIGINT is from ",
    ),
    "one of many attempts": (
        lambda queue: queue.enqueue_many([NewMessage(1, max_attempts=2**31)]),
        errors.InvalidMaxAttempts,
        "max_attempts: 2147483648 is out of range",
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


def test_values_that_have_no_place(queue: Any) -> None:
    for what, (call, kind, says) in WRONG.items():
        with pytest.raises(errors.InvalidArgument) as refused:
            call(queue)
        assert type(refused.value) is kind, what
        assert says in str(refused.value)
    assert queue.messages() == []
    assert queue.enqueue(1).id is not None, "the queue goes on"


def test_what_the_queue_itself_refuses_is_said_as_ever(own_queue: Any) -> None:
    with pytest.raises(errors.InvalidLimit, match="Ask for 1 to"):
        own_queue.dequeue(10_001)
