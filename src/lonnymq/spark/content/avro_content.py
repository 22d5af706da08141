"""Avro contents, each one record in binary without a header, as values of a Spark schema.

The types are those of spark-avro: an enum is a string, fixed is binary, a union of null and one type is
nullable. Times of day are their number, as Avro stores them. Other unions are refused.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

from pyspark.sql import types

from lonnymq.errors import InvalidArgument, LonnyMQError
from lonnymq.spark.content.ddl import MAX_PRECISION
from lonnymq.spark.content.json_content import BadContent

Avro = str | list[Any] | dict[str, Any]
Named = dict[str, types.DataType | None]
PRIMITIVE: dict[str, types.DataType] = {
    "boolean": types.BooleanType(),
    "int": types.IntegerType(),
    "long": types.LongType(),
    "float": types.FloatType(),
    "double": types.DoubleType(),
    "bytes": types.BinaryType(),
    "fixed": types.BinaryType(),
    "string": types.StringType(),
    "enum": types.StringType(),
}
LOGICAL: dict[tuple[str, str], types.DataType] = {
    ("int", "date"): types.DateType(),
    ("long", "timestamp-millis"): types.TimestampType(),
    ("long", "timestamp-micros"): types.TimestampType(),
    ("long", "local-timestamp-millis"): types.TimestampNTZType(),
    ("long", "local-timestamp-micros"): types.TimestampNTZType(),
}
CONVERTED = {"decimal", *(logical for _, logical in LOGICAL)}
EXAMPLE = (
    'a record looks like {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
)


class AvroMissing(LonnyMQError, ImportError):
    """Avro contents need the package fastavro."""


def avro_schema(text: str) -> types.StructType:
    """The Spark schema of a record whose Avro schema is this JSON."""
    found = _spark_type(_parsed(text), {}, "")
    if not isinstance(found, types.StructType):
        raise InvalidArgument("the schema is not a record", EXAMPLE)
    return found


def avro_reader(text: str) -> Callable[[bytes], dict[str, Any] | None]:
    """A function from content to a value for Arrow. It raises BadContent."""
    fastavro = _fastavro()
    parsed = fastavro.parse_schema(_without_kept(_parsed(text)))

    def read(content: bytes) -> dict[str, Any] | None:
        stream = io.BytesIO(content)
        try:
            found: dict[str, Any] = fastavro.schemaless_reader(stream, parsed, None)
        except Exception as error:  # noqa: BLE001 # wrong bytes raise errors of many kinds
            raise BadContent(f"the content is not a record of this schema: {_reason(error)}") from None
        if stream.tell() < len(content):
            raise BadContent(
                f"the content has {len(content)} bytes, but a record of this schema ends after"
                f" {stream.tell()}"
            )
        return found

    return read


def _parsed(text: str) -> Avro:
    try:
        value: Avro = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"the schema is not JSON: {error}", EXAMPLE) from None
    fastavro = _fastavro()
    try:
        fastavro.parse_schema(value)
    except Exception as error:  # noqa: BLE001 # fastavro's errors have no common class
        raise InvalidArgument(f"the schema is not Avro: {_reason(error)}", EXAMPLE) from None
    return value


def _fastavro() -> ModuleType:
    try:
        import fastavro
    except ImportError:
        raise AvroMissing(
            "contentFormat=avro needs the package fastavro, which is not installed",
            "pip install 'lonnymq[avro]', on executors too",
        ) from None
    return fastavro


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _spark_type(avro: Avro, named: Named, space: str) -> types.DataType:  # noqa: PLR0911 # one per kind
    """`named` has the types that were defined before, and None for those that are being defined."""
    if isinstance(avro, list):
        others = [one for one in avro if one != "null"]
        if len(others) != 1:
            raise InvalidArgument(
                f"the union {json.dumps(avro)[:100]} is not null and one type",
                "leave contentFormat out, and convert the bytes yourself",
            )
        return _spark_type(others[0], named, space)
    if isinstance(avro, str):
        return PRIMITIVE[avro] if avro in PRIMITIVE else _defined(avro, named, space)
    kind = avro["type"]
    if kind == "array":
        return types.ArrayType(_spark_type(avro["items"], named, space))
    if kind == "map":
        return types.MapType(types.StringType(), _spark_type(avro["values"], named, space))
    if kind == "record":
        return _record(avro, named, space)
    if isinstance(kind, str) and kind in PRIMITIVE:
        return _simple(avro, kind, named, space)
    return _spark_type(kind, named, space)


def _simple(avro: dict[str, Any], kind: str, named: Named, space: str) -> types.DataType:
    logical = avro.get("logicalType", "")
    if logical == "decimal":
        if avro["precision"] > MAX_PRECISION:
            raise InvalidArgument(
                f"a decimal has {avro['precision']} digits", f"Spark's decimals have at most {MAX_PRECISION}"
            )
        found: types.DataType = types.DecimalType(avro["precision"], avro.get("scale", 0))
    else:
        found = LOGICAL.get((kind, logical), PRIMITIVE[kind])
    if "name" in avro:
        named[_full_name(avro, space)] = found
    return found


def _record(avro: dict[str, Any], named: Named, space: str) -> types.StructType:
    name = _full_name(avro, space)
    named[name] = None
    inner = name.rpartition(".")[0]
    found = types.StructType(
        [
            types.StructField(field["name"], _spark_type(field["type"], named, inner))
            for field in avro["fields"]
        ]
    )
    named[name] = found
    return found


def _defined(name: str, named: Named, space: str) -> types.DataType:
    full = name if "." in name or not space else f"{space}.{name}"
    found = named.get(full, named.get(name))
    if found is None:
        raise InvalidArgument(f"the type {name} contains itself, which Spark's types cannot", EXAMPLE)
    return found


def _full_name(avro: dict[str, Any], space: str) -> str:
    name: str = avro["name"]
    space = avro.get("namespace", space)
    return name if "." in name or not space else f"{space}.{name}"


def _without_kept(avro: Avro) -> Avro:
    """The schema without the logical types whose values Spark gets as Avro stores them."""
    if isinstance(avro, list):
        return [_without_kept(one) for one in avro]
    if not isinstance(avro, dict):
        return avro
    is_kept = avro.get("logicalType") not in CONVERTED
    return {
        key: _without_kept(value) if key in {"type", "items", "values", "fields"} else value
        for key, value in avro.items()
        if not (key == "logicalType" and is_kept)
    }
