"""Which value of a call PostgreSQL has no place for. Each driver says so in a way of its own, or leaves it to
the server; so when a call has failed, its values are looked at here.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lonnymq.adapters.refusals import sqlstate_of
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

DATA = "22"
"""The class of SQLSTATEs that say that a value is none."""
RANGES = {"INT": (-(2**31), 2**31 - 1), "BIGINT": (-(2**63), 2**63 - 1)}
NOT_WHOLE = ("is not a whole number", "give an int")
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
    """Refuse a number with a fraction where a whole one is meant: PostgreSQL would round it."""
    for name, sql_type, given in arguments(command):
        if type(given) is float and sql_type in RANGES:
            raise _error(command, name, given, NOT_WHOLE)


def refusal(command: Command[Any], error: Exception) -> InvalidArgument | None:
    """What is wrong with the values of a call that failed, if it is that."""
    code = sqlstate_of(error)
    if code is not None and not code.startswith(DATA):
        return None
    for name, sql_type, given in arguments(command):
        kind = sql_type.removesuffix("[]")
        for value in given if sql_type.endswith("[]") and isinstance(given, Iterable) else [given]:
            if why := _why(kind, value):
                return _error(command, name, value, why)
    return None


def _error(command: Command[Any], name: str, value: object, why: tuple[str, str]) -> InvalidArgument:
    usual = BY_CALL.get(command.function, InvalidField)
    return BY_NAME.get(name, usual)(f"{name}: {reprlib.repr(value)} {why[0]}", why[1])


def _why(kind: str, value: object) -> tuple[str, str] | None:
    if kind in RANGES and value is not None:
        if not isinstance(value, int):
            return NOT_WHOLE
        least, most = RANGES[kind]
        if not least <= value <= most:
            return "is out of range", f"PostgreSQL's {kind} is from {least:,} to {most:,}"
    for text in _texts(value):
        if "\0" in text:
            return "has a NUL character in it, which PostgreSQL cannot keep", "leave it out"
        if not _is_unicode(text):
            return "has half a character in it, which is no Unicode text", "leave it out"
    return None


def _texts(value: object) -> Iterator[str]:
    """A text, or all that there are in headers."""
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
