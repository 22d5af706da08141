"""The shapes that answers have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from lonnymq.commands.result import Outcome, Result
from lonnymq.statement import Command, Row, columns_of, read

Record = TypeVar("Record")


class Nothing(Command[None]):
    def decode(self, rows: Sequence[Row]) -> None:  # noqa: ARG002
        return None


class OneResult(Command[Result]):
    """A single text: what came of the call."""

    def decode(self, rows: Sequence[Row]) -> Result:
        return Result(rows[0][0])


class ManyOutcomes(Command[list[Outcome]]):
    """A row a message, in the order given."""

    columns = "id, result"

    def decode(self, rows: Sequence[Row]) -> list[Outcome]:
        return [Outcome(message_id, Result(result)) for message_id, result in rows]


class OneRecord(Command[Record]):
    """One row."""

    record: ClassVar[type[Any]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.columns = columns_of(cls.record)

    def decode(self, rows: Sequence[Row]) -> Record:
        found: Record = read(self.record, rows[0])
        return found


class ManyRecords(Command[list[Record]]):
    """Any number of rows."""

    record: ClassVar[type[Any]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.columns = columns_of(cls.record)

    def decode(self, rows: Sequence[Row]) -> list[Record]:
        return [read(self.record, row) for row in rows]
