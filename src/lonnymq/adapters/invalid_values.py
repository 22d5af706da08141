"""Finds the argument of a call that has the wrong type, or that PostgreSQL cannot store.

Types are checked before each call, because drivers differ in what they convert or refuse. The rest is looked
for when a call has failed, because each driver reports it in its own way, or leaves it to the server.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from lonnymq.adapters.driver_errors import sqlstate_of
from lonnymq.errors import (
    InvalidArgument,
    InvalidChannel,
    InvalidChannelPolicy,
    InvalidField,
    InvalidLease,
    InvalidLimit,
    InvalidMaxAttempts,
    InvalidQueueSetting,
    InvalidTime,
)
from lonnymq.statement import Command, arguments

DATA_EXCEPTION = "22"
"""The class of SQLSTATEs for invalid values."""
RANGES = {"INT": (-(2**31), 2**31 - 1), "BIGINT": (-(2**63), 2**63 - 1)}
NOT_WHOLE = ("is not a whole number", "give an int")


def _is_whole(kind: type) -> bool:
    return kind is not bool and hasattr(kind, "__index__")


ACCEPTED_TYPES: dict[str, tuple[Callable[[type], bool], tuple[str, str]]] = {
    "TEXT": (lambda kind: issubclass(kind, str), ("is not a string", "give a str")),
    "INT": (_is_whole, NOT_WHOLE),
    "BIGINT": (_is_whole, NOT_WHOLE),
    "BOOLEAN": (lambda kind: kind is bool, ("is neither True nor False", "give a bool")),
    "BYTEA": (
        lambda kind: issubclass(kind, bytes | bytearray | memoryview),
        ("is not bytes", "give bytes"),
    ),
}
"""For each PostgreSQL type: whether a Python type is accepted, and what the error says of others."""
BY_CALL = {"channel_set": InvalidChannelPolicy, "queue_set": InvalidQueueSetting}
BY_NAME = {
    "channel": InvalidChannel,
    "channels": InvalidChannel,
    "dequeue_at": InvalidTime,
    "dequeue_ats": InvalidTime,
    "delay_ms": InvalidTime,
    "delays_ms": InvalidTime,
    "lease_ms": InvalidLease,
    "limit": InvalidLimit,
    "max_attempts": InvalidMaxAttempts,
}


def check(command: Command[Any]) -> None:
    """Refuse arguments of the wrong type: some drivers would convert them, 70.6 to 71 for example."""
    for name, sql_type, given in arguments(command):
        kind = sql_type.removesuffix("[]")
        if given is None or kind not in ACCEPTED_TYPES:
            continue
        is_accepted, why = ACCEPTED_TYPES[kind]
        values = given if sql_type.endswith("[]") else [given]
        for found in set(map(type, values)) - {type(None)}:  # thousands of values have one or two types
            if not is_accepted(found):
                raise _error(command, name, next(value for value in values if type(value) is found), why)


def refusal(command: Command[Any], error: Exception) -> InvalidArgument | None:
    """The error for the invalid argument of a call that failed; None if it failed for another reason."""
    code = sqlstate_of(error)
    if code is not None and not code.startswith(DATA_EXCEPTION):
        return None
    for name, sql_type, given in arguments(command):
        kind = sql_type.removesuffix("[]")
        for value in given if sql_type.endswith("[]") and isinstance(given, Iterable) else [given]:
            if why := _why(kind, value):
                return _error(command, name, value, why)
    return None


def _error(command: Command[Any], name: str, value: object, why: tuple[str, str]) -> InvalidArgument:
    default = BY_CALL.get(command.function, InvalidField)
    return BY_NAME.get(name, default)(f"{name}: {reprlib.repr(value)} {why[0]}", why[1])


def _why(kind: str, value: object) -> tuple[str, str] | None:
    if kind in RANGES and isinstance(value, int):
        least, most = RANGES[kind]
        if not least <= value <= most:
            return "is out of range", f"give a number from {least:,} to {most:,}"
    for text in _texts(value):
        if "\0" in text:
            return "contains a NUL character, which PostgreSQL cannot store", "remove it"
        if not _is_unicode(text):
            return "contains a lone surrogate, which is not valid Unicode", "remove it"
    return None


def _texts(value: object) -> Iterator[str]:
    """The text itself, or all texts in headers."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _texts(name)
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
