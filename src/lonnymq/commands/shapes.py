"""The shapes that answers have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from lonnymq.commands.result import Outcome, Result
from lonnymq.statement import Command, Row, columns_of, read

Record = TypeVar("Record")
NOTHING_DONE = {Result.LOST, Result.NOT_FOUND}


class Nothing(Command[None]):
    def decode(self, rows: Sequence[Row]) -> None:  # noqa: ARG002
        return None


class OneResult(Command[Result]):
    """A single text: what came of the call."""

    def decode(self, rows: Sequence[Row]) -> Result:
        return Result(rows[0][0])


class OneEnding(OneResult):
    """Done once only: a second call does nothing, but does not tell whether it was the first that did it."""

    is_repeatable = True

    def tells_all(self, result: Result) -> bool:
        return result not in NOTHING_DONE


class OneRecord(Command[Record]):
    """One row."""

    record: ClassVar[type[Any]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.columns = columns_of(cls.record)

    def decode(self, rows: Sequence[Row]) -> Record:
        (found,) = read(self.record, rows)
        return found  # type: ignore[no-any-return]


class ManyRecords(Command[list[Record]]):
    """Any number of rows; of calls for many messages, in the order given."""

    record: ClassVar[type[Any]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if hasattr(cls, "record"):
            cls.columns = columns_of(cls.record)

    def decode(self, rows: Sequence[Row]) -> list[Record]:
        return read(self.record, rows)


class ManyOutcomes(ManyRecords[Outcome]):
    """A row a message, in the order given."""

    record = Outcome


class ManyEndings(ManyOutcomes):
    """As OneEnding, for many."""

    is_repeatable = True

    def tells_all(self, result: list[Outcome]) -> bool:
        return all(outcome.result not in NOTHING_DONE for outcome in result)
