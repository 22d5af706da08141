"""Messages as lines of JSON: read them, enqueue all of them or none, and find the line that is wrong."""

from __future__ import annotations

import codecs
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from lonnymq.cli.display import moment
from lonnymq.cli.failure import BadLine, BadValue, sentence
from lonnymq.client.produce import TASK_HEADER
from lonnymq.formatting import printable
from lonnymq.message_options import OPTIONS, Kind, NewMessage

if TYPE_CHECKING:
    from psycopg import Connection

    from lonnymq.client.produce import Enqueued, OnFull
    from lonnymq.client.queue import Queue

PAYLOAD = "payload"
TIMES = ("delay", "run_at")
TYPES: dict[Kind, type | tuple[type, ...]] = {
    Kind.NUMBER: int,
    Kind.TEXT: str,
    Kind.OBJECT: dict,
    Kind.SECONDS: (int, float),
    Kind.TIME: str,
}
# The keys of a line beside its payload, and the kind of value that each takes.
KEYS: dict[str, Kind] = {
    "channel": Kind.TEXT,
    **{name: option.kind for name, option in OPTIONS.items()},
    "task": Kind.TEXT,
}


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    message: NewMessage


def json_value(text: str) -> Any:
    """Parse JSON. NaN is not part of it."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise BadValue(f"it is not JSON: {error.msg} at character {error.pos + 1}") from None
    except (RecursionError, ValueError) as error:  # too deep, or a number too long
        raise BadValue(f"it is JSON that cannot be read: {error}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise BadValue(f"it is not JSON: {name} is not a JSON number")


def read(raw: Iterable[bytes], default: NewMessage, *, are_payloads: bool) -> Iterator[Line]:
    """Parse lines, except empty ones. Options that a line does not give are those of the default."""
    for number, octets in enumerate(raw, start=1):
        text = octets.removeprefix(codecs.BOM_UTF8) if number == 1 else octets
        if not text.strip():
            continue
        try:
            found = json_value(text.decode())
            yield Line(number, replace(default, payload=found) if are_payloads else _message(found, default))
        except UnicodeDecodeError:
            raise BadLine(f"line {number}: it is not UTF-8") from None
        except BadValue as error:
            raise BadLine(f"line {number}: {error.message}", error.hint) from None


def _message(found: object, default: NewMessage) -> NewMessage:
    if not isinstance(found, dict) or PAYLOAD not in found:
        raise BadValue("it is not an object with a payload", 'write {"payload": ...}, or use --payloads')
    payload = found.pop(PAYLOAD)
    given = {name: value for name, value in found.items() if value is not None}
    for name, value in given.items():
        _check(name, value)
    if "run_at" in given:
        given["run_at"] = moment(given["run_at"])
    if any(name in given for name in TIMES):
        given = dict.fromkeys(TIMES) | given
    headers = {**(default.headers or {}), **given.pop("headers", {})}
    if "task" in given:
        headers[TASK_HEADER] = given.pop("task")
    return replace(default, payload=payload, headers=headers or None, **given)


def _check(name: str, value: object) -> None:
    if name not in KEYS:
        raise BadValue(
            f"{printable(repr(name))} is not known", f"a line may have {', '.join([PAYLOAD, *KEYS])}"
        )
    kind = KEYS[name]
    if not isinstance(value, TYPES[kind]) or isinstance(value, bool):
        raise BadValue(f"{name} is not {kind.value}")


def load(
    queue: Queue,
    connect: Callable[[], Connection[Any]],
    lines: Iterable[Line],
    progress: Callable[[Enqueued], object],
    on_full: OnFull,
) -> Enqueued:
    """Enqueue all lines in one transaction. If one is refused, none is enqueued, and BadLine names it: the
    lines that were not answered yet are tried again in halves, and each try is rolled back.
    """
    unanswered: deque[Line] = deque()
    answered = 0

    def messages() -> Iterator[NewMessage]:
        for line in lines:
            unanswered.append(line)
            yield line.message

    def report(so_far: Enqueued) -> None:
        nonlocal answered
        while answered < so_far.total:
            unanswered.popleft()
            answered += 1
        progress(so_far)

    try:
        return queue.enqueue_many(messages(), progress=report, on_full=on_full)
    except ValueError:
        with connect() as conn:
            line, why = _refused(queue, conn, list(unanswered))
        raise BadLine(f"line {line.number}: {sentence(why)}") from why


def _refused(queue: Queue, conn: Connection[Any], lines: Sequence[Line]) -> tuple[Line, Exception]:
    """The first line that is refused, and why."""
    while len(lines) > 1:
        middle = len(lines) // 2
        lines = lines[:middle] if _refusal(queue, conn, lines[:middle]) else lines[middle:]
    why = _refusal(queue, conn, lines)
    if why is None:
        raise BadLine("a line was refused, and accepted when it was tried again", "run the command again")
    return lines[0], why


def _refusal(queue: Queue, conn: Connection[Any], lines: Sequence[Line]) -> Exception | None:
    try:
        with conn.transaction(force_rollback=True):
            queue.enqueue_many((line.message for line in lines), on_full="return", conn=conn)
    except ValueError as error:
        return error
    return None
