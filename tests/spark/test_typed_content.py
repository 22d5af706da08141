"""Contents as structs: schemas, JSON and Avro, without Spark; and what becomes of contents that are wrong."""

import io
import json
import math
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type

from lonnymq.errors import InvalidArgument
from lonnymq.spark.columns import CLAIMED, HISTORY
from lonnymq.spark.content.content_column import ContentColumn, ContentNotReadable
from lonnymq.spark.content.ddl import parse_struct
from lonnymq.spark.source_options import InvalidOption, SourceOptions

DDL = (
    "id BIGINT NOT NULL COMMENT 'the order', total DECIMAL(10,2), at TIMESTAMP, local: timestamp_ntz,"
    " day DATE, raw BINARY, name STRING, ok BOOLEAN, rate DOUBLE, small TINYINT, single FLOAT,"
    " lines ARRAY<STRUCT<sku: STRING, n: INT>>, tags MAP<STRING, BIGINT>, `odd ``name` STRUCT<`a b`: INT>"
)
FULL = """{"id": 9007199254740993, "total": 19.505, "at": "2030-01-31T12:00:00.123456+02:00",
    "local": "2030-01-31T12:00:00", "day": "2030-01-31", "raw": "AP8=", "name": "gr\\u00fc\\u00dfe",
    "ok": true, "rate": 1e3,
    "small": -128, "single": 1.5, "lines": [{"sku": "a", "n": 1, "extra": {}}, null, {}],
    "tags": {"x": 1, "y": null}, "odd `name": {"a b": 3}, "more": [1, 2]}"""
AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["new", "old"]}},
        {"name": "other", "type": ["null", "Kind"]},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]},
            },
        },
        {"name": "first", "type": ["Line", "null"]},
    ],
}


def column(schema: str, mode: str = "permissive", chosen: str = "json") -> ContentColumn:
    given = {"contentFormat": chosen, "contentSchema": schema, "contentMode": mode}
    found = ContentColumn.of(SourceOptions(given, given))
    assert found is not None
    return pickle.loads(pickle.dumps(found))  # type: ignore[no-any-return] # noqa: S301 # Spark does


def read(schema: str, *contents: bytes | None, **more: str) -> list[list[Any]]:
    """The values of content, content_error and corrupt_content."""
    ids = pa.array(range(100, 100 + len(contents)), pa.int64())
    arrays = column(schema, **more).converted(pa.array(contents, pa.binary()), ids)
    return [array.to_pylist() for array in arrays]


def test_every_type_of_json() -> None:
    [[value], [error], [corrupt]] = read(DDL, FULL.encode())
    assert (error, corrupt) == (None, None)
    assert value == {
        "id": 9007199254740993,
        "total": Decimal("19.51"),
        "at": datetime(2030, 1, 31, 10, 0, 0, 123456, UTC),
        "local": datetime(2030, 1, 31, 12),  # noqa: DTZ001
        "day": date(2030, 1, 31),
        "raw": b"\0\xff",
        "name": "grüße",
        "ok": True,
        "rate": 1000.0,
        "small": -128,
        "single": 1.5,
        "lines": [{"sku": "a", "n": 1}, None, {"sku": None, "n": None}],
        "tags": [("x", 1), ("y", None)],
        "odd `name": {"a b": 3},
    }
    [[nothing, null, none], errors, _] = read(DDL, b"{}", b"null", None)
    assert set(nothing.values()) == {None}
    assert (null, none, errors) == (None, None, [None] * 3)
    [[texts], _, _] = read(
        "a STRING, b STRING, c STRING, d DOUBLE", b'{"a":1.50,"b":{"x":[1]},"c":true,"d":"NaN"}'
    )
    assert (texts["a"], texts["b"], texts["c"]) == ("1.50", '{"x": [1]}', "true")
    assert math.isnan(texts["d"])


@pytest.mark.parametrize(
    ("schema", "content", "said"),
    [
        ("a INT", b'{"a": 1', "is not JSON"),
        ("a INT", b'{"a": NaN}', "is not JSON: it contains NaN"),
        ("a INT", b'\xff{"a": 1}', "is not UTF-8, at byte 0"),
        ("a INT", b"[1]", "[1] is not an object"),
        ("a INT", b'{"a": 2147483648}', "a: 2147483648 is out of range for int"),
        ("a INT", b'{"a": 1.0}', "a: 1.0 is not a whole number"),
        ("a INT", b'{"a": true}', "a: true is not a whole number"),
        ("a BOOLEAN", b'{"a": 1}', "a: 1 is not true or false"),
        ("a FLOAT", b'{"a": 1e39}', "is too large"),
        ("a DOUBLE", b'{"a": 1e999}', "is too large"),
        ("a DECIMAL(4,2)", b'{"a": 100}', "a: 100 does not fit into decimal(4,2)"),
        ("a DECIMAL(4,2)", b'{"a": "many"}', 'a: "many" is not a number'),
        ("a TIMESTAMP", b'{"a": 1700000000}', "is not a time"),
        ("a TIMESTAMP_NTZ", b'{"a": "2030-01-31T12:00:00Z"}', "without a zone"),
        ("a DATE", b'{"a": "31.1.2030"}', "is not a date"),
        ("a BINARY", b'{"a": "?"}', "is not base64"),
        ("a STRING", b'{"a": "\\ud800"}', "a: a text has half of a character"),
        ("a ARRAY<STRUCT<b: INT>>", b'{"a": [{}, {"b": "x"}]}', 'a[1].b: "x" is not a whole number'),
        ("a MAP<STRING, INT>", b'{"a": {"k": []}}', "a['k']: [] is not a whole number"),
    ],
)
def test_wrong_json_is_null_or_fails(schema: str, content: bytes, said: str) -> None:
    [values, errors, corrupt] = read(schema, b"{}", content, None)
    assert values == [{"a": None}, None, None]
    assert corrupt == [None, content, None]
    assert errors[0] is errors[2] is None
    assert said in errors[1]
    with pytest.raises(ContentNotReadable, match="the content of message 101 does not have the schema"):
        read(schema, b"{}", content, mode="failfast")
    assert read(schema, b"{}", mode="failfast") == [[{"a": None}]]


def written(value: dict[str, Any]) -> bytes:
    octets = io.BytesIO()
    fastavro.schemaless_writer(octets, fastavro.parse_schema(AVRO), value)
    return octets.getvalue()


def test_avro() -> None:
    value = {
        "id": 1,
        "total": Decimal("19.50"),
        "at": datetime(2030, 1, 31, 12, 0, 0, 5, UTC),
        "day": date(2030, 1, 31),
        "clock": 1000,
        "kind": "new",
        "other": None,
        "tags": {"x": 1},
        "lines": [{"sku": "a"}],
        "first": {"sku": "b"},
    }
    good = written(value)
    [values, errors, corrupt] = read(json.dumps(AVRO), good, good[:-3], good + b"!", None, chosen="avro")
    assert values == [value | {"tags": [("x", 1)]}, None, None, None]
    assert "is not a record of this schema" in errors[1]
    assert "ends after" in errors[2]
    assert corrupt == [None, good[:-3], good + b"!", None]
    with pytest.raises(ContentNotReadable, match="message 100"):
        read(json.dumps(AVRO), b"", chosen="avro", mode="failfast")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"contentSchema": "a INT"}, "contentSchema needs contentFormat"),
        ({"contentMode": "failfast"}, "contentMode needs contentFormat"),
        ({"contentFormat": "xml"}, "give json or avro"),
        ({"contentFormat": "json"}, r"contentSchema is missing \(give one such as: id BIGINT, "),
        (
            {"contentFormat": "json", "contentSchema": "a INT", "contentMode": "loose"},
            "permissive or failfast",
        ),
        ({"contentFormat": "json", "contentSchema": "a INT,"}, "expected the name of a field"),
        ({"contentFormat": "json", "contentSchema": "a INTERVAL"}, "'interval' is not a type"),
        ({"contentFormat": "json", "contentSchema": "a MAP<INT, INT>"}, "are not strings"),
        ({"contentFormat": "json", "contentSchema": "a INT, a INT"}, "'a' is there twice"),
        ({"contentFormat": "json", "contentSchema": "a DECIMAL(39,0)"}, r"decimal\(39,0\) does not exist"),
        ({"contentFormat": "json", "contentSchema": "a INT; b INT"}, "is not part of a schema"),
        ({"contentFormat": "avro", "contentSchema": "a INT"}, "the schema is not JSON"),
        ({"contentFormat": "avro", "contentSchema": '{"type": "recor"}'}, "the schema is not Avro"),
        ({"contentFormat": "avro", "contentSchema": '"long"'}, "is not a record"),
        (
            {
                "contentFormat": "avro",
                "contentSchema": json.dumps(AVRO | {"fields": [{"name": "a", "type": ["int", "string"]}]}),
            },
            "is not null and one type",
        ),
        (
            {
                "contentFormat": "avro",
                "contentSchema": json.dumps(AVRO | {"fields": [{"name": "a", "type": ["null", "Order"]}]}),
            },
            "contains itself",
        ),
        ({"includeContent": "false", "contentFormat": "json", "contentSchema": "a INT"}, "is not read"),
    ],
)
def test_options_that_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        CLAIMED.chosen(SourceOptions(given, given))


def test_the_columns_of_a_batch() -> None:
    given = {"contentFormat": "json", "contentSchema": "a INT", "headersFormat": "json"}
    columns = HISTORY.without(HISTORY.names).schema()
    assert columns.fields == []
    chosen = HISTORY.chosen(SourceOptions(given, given))
    names = chosen.schema().names
    assert names[names.index("content") :][:3] == ["content", "content_error", "corrupt_content"]
    assert chosen.schema()["headers"].dataType.simpleString() == "string"
    assert HISTORY.schema()["headers"].dataType.simpleString() == "map<string,string>"
    for field in chosen.schema():
        to_arrow_type(field.dataType, timezone="UTC")


def test_a_schema_that_ends_early() -> None:
    with pytest.raises(InvalidArgument, match="expected '>', not 'the end'"):
        parse_struct("a ARRAY<INT")
