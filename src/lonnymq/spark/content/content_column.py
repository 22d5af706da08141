"""The options of the column `content`, and its conversion from bytes into a struct.

With `contentMode=permissive`, as in Spark's own readers the default, a content that does not have the schema
is null, `content_error` says why, and `corrupt_content` has its bytes. With `failfast` the query fails, and
the error names the message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from lonnymq.errors import InvalidArgument
from lonnymq.spark.content.avro_content import avro_reader, avro_schema
from lonnymq.spark.content.ddl import parse_struct
from lonnymq.spark.content.json_content import BadContent, json_reader
from lonnymq.spark.source_options import InvalidOption, SourceOptions

CONTENT_OPTIONS = ("contentFormat", "contentSchema", "contentMode")
FORMATS = ("json", "avro")
MODES = ("permissive", "failfast")
SCHEMAS = {
    "json": "give one such as: id BIGINT, total DECIMAL(10,2), tags ARRAY<STRING>",
    "avro": "give the JSON text of an Avro schema",
}
ERROR = "content_error"
CORRUPT = "corrupt_content"
ADDED = (ERROR, CORRUPT)


class ContentNotReadable(InvalidArgument):
    """A content does not have the schema that `contentSchema` gives."""


@dataclass(frozen=True)
class ContentColumn:
    format: str
    schema_text: str
    is_permissive: bool = True

    @classmethod
    def of(cls, options: SourceOptions) -> Self | None:
        """None: the content stays binary."""
        if "contentFormat" not in options:
            for name in ("contentSchema", "contentMode"):
                if name in options:
                    raise InvalidOption(f"{name} needs contentFormat", "give contentFormat=json or avro")
            return None
        chosen = options.choice("contentFormat", FORMATS, "json")
        text = options.required("contentSchema", SCHEMAS[chosen])
        mode = options.choice("contentMode", MODES, "permissive")
        column = cls(chosen, text, mode == "permissive")
        try:
            column.schema()
        except InvalidArgument as error:
            raise InvalidOption(f"contentSchema: {error.message}", error.hint) from None
        except RecursionError:
            raise InvalidOption("contentSchema is nested too deeply", SCHEMAS[chosen]) from None
        return column

    def schema(self) -> StructType:
        return _schema(self.format, self.schema_text)

    def fields(self) -> list[StructField]:
        """The columns of a table, in place of the binary column `content`."""
        found = [StructField("content", self.schema())]
        if self.is_permissive:
            found += [StructField(ERROR, StringType()), StructField(CORRUPT, BinaryType())]
        return found

    def converted(self, contents: pa.Array, ids: pa.Array) -> list[pa.Array]:
        """One array per column of `fields`."""
        read = _reader(self.format, self.schema_text)
        values: list[dict[str, Any] | None] = []
        errors: dict[int, str] = {}
        for number, content in enumerate(contents.to_pylist()):
            value = None
            if content is not None:
                try:
                    value = read(content)
                except BadContent as error:
                    if not self.is_permissive:
                        raise _refused(ids[number].as_py(), error) from None
                    errors[number] = str(error)
            values.append(value)
        found = [pa.array(values, _arrow_type(self.format, self.schema_text))]
        if self.is_permissive:
            found.append(pa.array([errors.get(number) for number in range(len(values))], pa.string()))
            found.append(_only(contents, errors))
        return found


def _only(contents: pa.Array, kept: dict[int, str]) -> pa.Array:
    if not kept:
        return pa.nulls(len(contents), pa.binary())
    chosen = pa.array([number if number in kept else None for number in range(len(contents))], pa.int64())
    return contents.take(chosen)


@cache
def _schema(chosen: str, text: str) -> StructType:
    found = avro_schema(text) if chosen == "avro" else parse_struct(text)
    _check(found)
    return found


@cache
def _arrow_type(chosen: str, text: str) -> pa.DataType:
    return to_arrow_type(_schema(chosen, text), timezone="UTC")


@cache
def _reader(chosen: str, text: str) -> Callable[[bytes], dict[str, Any] | None]:
    return avro_reader(text) if chosen == "avro" else json_reader(_schema(chosen, text))


def _check(kind: DataType) -> None:
    match kind:
        case StructType():
            for field in kind.fields:
                _check(field.dataType)
        case ArrayType():
            _check(kind.elementType)
        case MapType() if not isinstance(kind.keyType, StringType):
            raise InvalidArgument(
                f"the keys of {kind.simpleString()} are not strings", "use MAP<STRING, ...>"
            )
        case MapType():
            _check(kind.valueType)


def _refused(message: int, error: BadContent) -> ContentNotReadable:
    return ContentNotReadable(
        f"the content of message {message} does not have the schema: {error}",
        "contentMode=permissive reads it as null, with the reason in the column content_error",
    )
