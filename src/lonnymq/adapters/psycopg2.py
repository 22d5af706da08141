"""psycopg2, for the transactions of programs that still use it. For a cursor, its connection is used. How the
caller's connection converts values stays as it is, and does not matter here.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar
from uuid import UUID

import psycopg2
from psycopg2 import extensions

from lonnymq.adapters.array_text import as_text
from lonnymq.adapters.driver_errors import refuse_call
from lonnymq.errors import UnsuitableConnection
from lonnymq.statement import Command

Result = TypeVar("Result")

SYNC = (extensions.connection, extensions.cursor)
ASYNC: tuple[type, ...] = ()
POOLS: tuple[type, ...] = ()

_UUID = extensions.new_type((2950,), "UUID", lambda value, _: None if value is None else UUID(value))
_JSON = extensions.new_type((114, 3802), "JSON", lambda value, _: value)  # statement.py decodes it
_TYPES = (
    extensions.BOOLEAN,
    extensions.INTEGER,
    extensions.LONGINTEGER,
    extensions.FLOAT,
    extensions.DECIMAL,
    extensions.UNICODE,
    psycopg2.BINARY,
    extensions.BOOLEANARRAY,
    extensions.INTEGERARRAY,
    extensions.LONGINTEGERARRAY,
    extensions.FLOATARRAY,
    extensions.UNICODEARRAY,
    extensions.BINARYARRAY,
    _UUID,
    extensions.new_array_type((2951,), "UUID[]", _UUID),
    _JSON,
)


def run(target: extensions.connection | extensions.cursor, schema: str, command: Command[Result]) -> Result:
    connection = target.connection if isinstance(target, extensions.cursor) else target
    if connection.async_:
        raise UnsuitableConnection(
            "the connection of psycopg2 is in asynchronous mode", "open one without async_=True"
        )
    text, parameters = command.statement(schema)
    with_placeholders = re.sub(r"CAST\(\$\d+", "CAST(%s", text.replace("%", "%%"))
    try:
        with connection.cursor(cursor_factory=extensions.cursor) as cursor:
            for each in _TYPES:
                extensions.register_type(each, cursor)
            cursor.execute(with_placeholders, [_adapted(value) for value in parameters])
            rows: list[tuple[Any, ...]] = cursor.fetchall()
    except psycopg2.Error as error:
        refuse_call(
            error,
            schema,
            command.function,
            lambda: connection.info.parameter_status("session_authorization"),
        )
    return command.decode(rows)


def _adapted(value: Any) -> Any:  # noqa: ANN401 - parameters of any type
    """As text, where psycopg2 would need an adapter that is registered for the whole program."""
    if isinstance(value, list | tuple):
        return as_text(value)
    return str(value) if isinstance(value, UUID) else value
