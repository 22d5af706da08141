"""The answers that SQL functions give: the results that callers must expect, and how rows become them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeVar

from lonnymq.statement import Command, Row, SqlType, columns_of, read

Record = TypeVar("Record")
Answer_co = TypeVar("Answer_co", covariant=True)


class Result(StrEnum):
    """The outcome of a call. None of these is an error: a lease can be lost, a channel can be full."""

    CREATED = "created"
    DUPLICATE = "duplicate"
    FULL = "full"
    COMPLETED = "completed"
    EXTENDED = "extended"
    CANCELLED = "cancelled"
    MARKED = "marked"
    RESCHEDULED = "rescheduled"
    RETRIED = "retried"
    REJECTED = "rejected"
    DISCARDED = "discarded"
    DELETED = "deleted"
    CLOSED = "closed"
    FINISHED = "finished"
    FIRED = "fired"
    SKIPPED = "skipped"
    PAUSED = "paused"
    RESUMED = "resumed"
    UNDEFINED = "undefined"
    EARLY = "early"
    MORE = "more"
    NOT_EMPTY = "not_empty"
    LEASED = "leased"
    DEAD = "dead"
    LOST = "lost"
    NOT_FOUND = "not_found"


ResultText = Annotated[Result, SqlType("TEXT", load={str(result): result for result in Result}.__getitem__)]
NOTHING_DONE = {Result.LOST, Result.NOT_FOUND}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome for one message of a call that names several."""

    id: int
    result: ResultText


class Nothing(Command[None]):
    """The function returns nothing."""

    def decode(self, rows: Sequence[Row]) -> None:  # noqa: ARG002
        return None


class YesOrNo(Command[bool]):
    """The function returns one boolean."""

    def decode(self, rows: Sequence[Row]) -> bool:
        return bool(rows[0][0])


class Count(Command[int]):
    """The function returns one number."""

    def decode(self, rows: Sequence[Row]) -> int:
        return int(rows[0][0])


class OneResult(Command[Result]):
    """The function returns one text, which is a Result."""

    def decode(self, rows: Sequence[Row]) -> Result:
        return Result(rows[0][0])


class OneEnding(OneResult):
    """The call takes effect once. A repeated call does no harm, but its answer does not tell whether the
    first one took effect.
    """

    is_repeatable = True

    def tells_all(self, result: Result) -> bool:
        return result not in NOTHING_DONE


class Records(Command[Answer_co]):
    """The function returns rows, and each becomes a `record`."""

    record: ClassVar[type[Any]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if hasattr(cls, "record"):
            cls.columns = columns_of(cls.record)


class OneRecord(Records[Record]):
    """The function returns one row."""

    def decode(self, rows: Sequence[Row]) -> Record:
        (found,) = read(self.record, rows)
        return found  # type: ignore[no-any-return]


class OneOrNone(Records[Record | None]):
    """The function returns one row, or none if it does not find what was asked for."""

    def decode(self, rows: Sequence[Row]) -> Record | None:
        return next(iter(read(self.record, rows)), None)


class ManyRecords(Records[list[Record]]):
    """The function returns any number of rows. A call for several messages answers in the order given."""

    def decode(self, rows: Sequence[Row]) -> list[Record]:
        return read(self.record, rows)


class ManyOutcomes(ManyRecords[Outcome]):
    """The function returns one row per message, in the order given."""

    record = Outcome


class ManyEndings(ManyOutcomes):
    """Like OneEnding, for several messages."""

    is_repeatable = True

    def tells_all(self, result: list[Outcome]) -> bool:
        return all(outcome.result not in NOTHING_DONE for outcome in result)
