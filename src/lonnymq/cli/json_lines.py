"""Messages as lines of JSON: how a line is read, how all are queued or none, and which line is bad."""

from __future__ import annotations

import codecs
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from lonnymq.cli.failure import BadLine, BadValue, sentence
from lonnymq.cli.formatting import moment, printable
from lonnymq.client.produce import TASK_HEADER, NewMessage

if TYPE_CHECKING:
    from psycopg import Connection

    from lonnymq.client.produce import Enqueued, OnFull
    from lonnymq.client.queue import Queue

VALUE = "value"
TIMES = ("delay", "run_at")
# What a line may say beside its value, and what that has to be.
KEYS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "channel": (str, "a text"),
    "delay": ((int, float), "a number of seconds"),
    "run_at": (str, "a text with a time, such as 2030-12-31T09:00+01:00"),
    "priority": (int, "a whole number"),
    "cost": (int, "a whole number"),
    "lane": (str, "a text"),
    "dedupe_key": (str, "a text"),
    "headers": (dict, "an object"),
    "task": (str, "a text"),
    "max_attempts": (int, "a whole number"),
}


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    message: NewMessage


def json_value(text: str) -> Any:
    """What JSON says, which has no NaN."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise BadValue(f"it is not JSON: {error.msg} at character {error.pos + 1}") from None
    except (RecursionError, ValueError) as error:  # too deep, or a number too long
        raise BadValue(f"it is not JSON that can be read here: {error}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise BadValue(f"it is not JSON: {name} is no number there")


def read(raw: Iterable[bytes], default: NewMessage, *, are_values: bool) -> Iterator[Line]:
    """Empty lines are left out. What a line does not say is as in the default. Raises BadLine."""
    for number, octets in enumerate(raw, start=1):
        text = octets.removeprefix(codecs.BOM_UTF8) if number == 1 else octets
        if not text.strip():
            continue
        try:
            found = json_value(text.decode())
            yield Line(number, replace(default, value=found) if are_values else _message(found, default))
        except UnicodeDecodeError:
            raise BadLine(f"line {number}: it is not UTF-8") from None
        except BadValue as error:
            raise BadLine(f"line {number}: {error.message}", error.hint) from None


def _message(found: object, default: NewMessage) -> NewMessage:
    if not isinstance(found, dict) or VALUE not in found:
        raise BadValue(
            "it is no object with a value", 'write {"value": ..., "channel": ...}, or say --values'
        )
    value = found.pop(VALUE)
    given = {name: said for name, said in found.items() if said is not None}
    for name, said in given.items():
        _check(name, said)
    if "run_at" in given:
        given["run_at"] = moment(given["run_at"])
    if any(name in given for name in TIMES):
        given = dict.fromkeys(TIMES) | given
    headers = {**(default.headers or {}), **given.pop("headers", {})}
    if "task" in given:
        headers[TASK_HEADER] = given.pop("task")
    return replace(default, value=value, headers=headers or None, **given)


def _check(name: str, said: object) -> None:
    if name not in KEYS:
        raise BadValue(f"there is no {printable(repr(name))}", f"a line may have {', '.join([VALUE, *KEYS])}")
    kind, called = KEYS[name]
    if not isinstance(said, kind) or isinstance(said, bool):
        raise BadValue(f"{name} is not {called}")


def load(
    queue: Queue,
    connect: Callable[[], Connection[Any]],
    lines: Iterable[Line],
    progress: Callable[[Enqueued], object],
    on_full: OnFull,
) -> Enqueued:
    """Queue all of the lines in one transaction, however many. Where one is refused, none is, and BadLine
    says which it was: those that were not answered are tried again, in halves, and each try is undone.
    """
    unanswered: deque[Line] = deque()
    answered = 0

    def messages() -> Iterator[NewMessage]:
        for line in lines:
            unanswered.append(line)
            yield line.message

    def told(so_far: Enqueued) -> None:
        nonlocal answered
        while answered < so_far.total:
            unanswered.popleft()
            answered += 1
        progress(so_far)

    try:
        return queue.enqueue_many(messages(), progress=told, on_full=on_full)
    except ValueError:
        with connect() as conn:
            line, why = _refused(queue, conn, list(unanswered))
        raise BadLine(f"line {line.number}: {sentence(why)}") from why


def _refused(queue: Queue, conn: Connection[Any], lines: Sequence[Line]) -> tuple[Line, Exception]:
    """The first that is, and why."""
    while len(lines) > 1:
        middle = len(lines) // 2
        lines = lines[:middle] if _refusal(queue, conn, lines[:middle]) else lines[middle:]
    why = _refusal(queue, conn, lines)
    if why is None:
        raise BadLine("a line was refused, and then was not", "try again")
    return lines[0], why


def _refusal(queue: Queue, conn: Connection[Any], lines: Sequence[Line]) -> Exception | None:
    try:
        with conn.transaction(force_rollback=True):
            queue.enqueue_many((line.message for line in lines), on_full="return", conn=conn)
    except ValueError as error:
        return error
    return None
