"""Reads what the queue knows about a task, in one call."""

from __future__ import annotations

from collections.abc import Sequence

from lonnymq.commands import Message, Status
from lonnymq.statement import BigInt, Command, Row, Statement, columns_of, command, identifier, read

MESSAGE, STATUS = (columns_of(record).split(", ") for record in (Message, Status))


@command
class CallStatus(Command[tuple[Message | None, Status]]):
    """The message of a task, if it waits, is leased or is dead; and its status, with its result if that is
    kept.
    """

    function = "status_get"
    is_harmless = True

    id: BigInt

    def statement(self, schema: str) -> Statement:
        columns = ", ".join([*(f"m.{name}" for name in MESSAGE), *(f"s.{name}" for name in STATUS)])
        call = "(CAST($1 AS BIGINT), TRUE)"
        name = identifier(schema)
        return Statement(
            f"SELECT {columns} FROM {name}.status_get{call} s"  # noqa: S608 - the schema is quoted
            f" LEFT JOIN {name}.message_get(s.id) m ON TRUE",
            (self.id,),
        )

    def decode(self, rows: Sequence[Row]) -> tuple[Message | None, Status]:
        (row,) = rows
        message, status = row[: len(MESSAGE)], row[len(MESSAGE) :]
        return None if message[0] is None else read(Message, [message])[0], read(Status, [status])[0]
