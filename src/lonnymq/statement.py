"""Writes calls of SQL functions as statements, and reads the rows that they return.

A Command is a dataclass whose fields are annotated with SQL types. From these it makes the statement and its
parameters; an adapter runs them. This module imports no driver.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    TypeVar,
    dataclass_transform,
    get_args,
    get_type_hints,
)
from uuid import UUID

Result_co = TypeVar("Result_co", covariant=True)
Record = TypeVar("Record")
Kind = TypeVar("Kind")
Row = Sequence[Any]


class Statement(NamedTuple):
    """SQL with the placeholders `$1`, `$2`, ..., each used once and in this order, and their values."""

    text: str
    parameters: tuple[Any, ...]


class SqlType(NamedTuple):
    """A type of PostgreSQL. `dump` and `load` convert values for which drivers differ."""

    name: str
    dump: Callable[[Any], Any] | None = None
    load: Callable[[Any], Any] | None = None
    sent_as: str | None = None
    """The type of the parameter in the statement, if a driver would convert one of type `name` by itself.
    PostgreSQL then casts it.
    """
    column: str | None = None
    """The column that a record's field is read from, if it has another name."""


def _json_text(value: Any) -> str | None:
    return None if value is None else json.dumps(value)


def _json_texts(values: Sequence[Any] | None) -> list[str | None] | None:
    """Encode each object once: in a batch, most headers are the same object, with only the content type."""
    if values is None:
        return None
    distinct = {id(value): value for value in values}
    texts = {key: _json_text(value) for key, value in distinct.items()}
    return [texts[id(value)] for value in values]


def _json_value(value: Any) -> Any:
    """Some drivers decode JSON themselves."""
    return json.loads(value) if isinstance(value, str | bytes) else value


def _number_text(value: float | None) -> str | None:
    return None if value is None else str(value)


def _octets(value: Any) -> bytes | None:
    """Some drivers return a memoryview."""
    return None if value is None else bytes(value)


Text = Annotated[str, SqlType("TEXT")]
Int = Annotated[int, SqlType("INT")]
BigInt = Annotated[int, SqlType("BIGINT")]
Boolean = Annotated[bool, SqlType("BOOLEAN")]
Numeric = Annotated[float, SqlType("NUMERIC", dump=_number_text, load=float, sent_as="TEXT")]
Uuid = Annotated[UUID, SqlType("UUID")]
Bytea = Annotated[bytes, SqlType("BYTEA", load=_octets)]
Jsonb = Annotated[Any, SqlType("JSONB", dump=_json_text, load=_json_value, sent_as="TEXT")]
Texts = Annotated[Sequence[str | None], SqlType("TEXT[]")]
Ints = Annotated[Sequence[int | None], SqlType("INT[]")]
BigInts = Annotated[Sequence[int | None], SqlType("BIGINT[]")]
Floats = Annotated[Sequence[float], SqlType("REAL[]")]
Booleans = Annotated[Sequence[bool | None], SqlType("BOOLEAN[]")]
Uuids = Annotated[Sequence[UUID], SqlType("UUID[]")]
Byteas = Annotated[Sequence[bytes | None], SqlType("BYTEA[]")]
Jsonbs = Annotated[Sequence[Any], SqlType("JSONB[]", dump=_json_texts, sent_as="TEXT[]")]


@dataclass_transform(frozen_default=True, eq_default=False)
def command(kind: type[Kind]) -> type[Kind]:
    """Make a class of calls a dataclass. The type checker treats it as frozen. Only `__init__` is generated:
    every program that uses the queue imports a hundred of these classes.
    """
    return dataclass(eq=False, repr=False)(kind)


@dataclass_transform(frozen_default=True, eq_default=False, kw_only_default=True)
def parameters(kind: type[Kind]) -> type[Kind]:
    """Like `command`, for optional parameters that several commands have. They are given by name."""
    return dataclass(eq=False, repr=False, kw_only=True)(kind)


@command
class Command(Generic[Result_co]):
    """A call of one SQL function. Its fields are the parameters of the function, without the prefix `p_`."""

    function: ClassVar[str]
    columns: ClassVar[str] = "*"
    is_harmless: ClassVar[bool] = False
    """The call changes nothing that matters, for example because it only reads. If its answer is lost, it
    makes no difference whether it was carried out.
    """
    is_repeatable: ClassVar[bool] = False
    """The call may be made again if its answer is lost: two calls have the same effect as one."""

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def statement(self, schema: str) -> Statement:
        kind: Any = type(self)
        types, values = _sql_types(kind), (getattr(self, field.name) for field in dataclasses.fields(self))
        given = zip(types, values, strict=True)
        return Statement(
            _call(kind, schema),
            tuple(value if sql_type.dump is None else sql_type.dump(value) for sql_type, value in given),
        )

    def decode(self, rows: Sequence[Row]) -> Result_co:
        """Make the result from the rows that the function returned."""
        raise NotImplementedError

    def may_repeat(self) -> bool:
        return self.is_harmless or self.is_repeatable

    def tells_all(self, result: Any) -> bool:  # noqa: ARG002
        """Whether the result of a repeated call shows what the first call did."""
        return True


def arguments(command: Command[Any]) -> list[tuple[str, str, Any]]:
    """The name, the PostgreSQL type and the value of each parameter."""
    kind: Any = type(command)
    named = zip(dataclasses.fields(command), _sql_types(kind), strict=True)
    return [
        (field.name, sql_type.name, getattr(command, field.name)) for field, sql_type in named if sql_type
    ]


def columns_of(record: type) -> str:
    """The columns of a record, by name: a newer schema may return more columns."""
    kind: Any = record
    named = zip(dataclasses.fields(record), _sql_types(kind), strict=True)
    return ", ".join((sql_type and sql_type.column) or field.name for field, sql_type in named)


def read(record: type[Record], rows: Iterable[Row]) -> list[Record]:
    """Make a record from each row. Works column by column, which is faster for thousands of rows."""
    kind: Any = record
    loads = [sql_type and sql_type.load for sql_type in _sql_types(kind)]
    columns = list(zip(*rows, strict=True))
    if not columns:
        return []
    given = zip(loads, columns, strict=True)
    return list(map(record, *(column if load is None else map(load, column) for load, column in given)))


def identifier(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


@cache
def _call(command: Any, schema: str) -> str:
    names = [field.name for field in dataclasses.fields(command)]
    arguments = ", ".join(
        f"p_{name} => {_cast(number, sql_type)}"
        for number, (name, sql_type) in enumerate(zip(names, _sql_types(command), strict=True), start=1)
    )
    return f"SELECT {command.columns} FROM {identifier(schema)}.{command.function}({arguments})"


def _cast(number: int, sql_type: SqlType) -> str:
    if sql_type.sent_as is None:
        return f"CAST(${number} AS {sql_type.name})"
    return f"CAST(CAST(${number} AS {sql_type.sent_as}) AS {sql_type.name})"


@cache
def _sql_types(described: Any) -> tuple[Any, ...]:
    """The SqlType in the annotation of each field, or None."""
    hints = get_type_hints(described, include_extras=True)
    return tuple(_sql_type(hints[field.name]) for field in dataclasses.fields(described))


def _sql_type(hint: Any) -> SqlType | None:
    for part in (hint, *get_args(hint)):  # the arguments: for `Text | None`
        for found in getattr(part, "__metadata__", ()):
            if isinstance(found, SqlType):
                return found
    return None
