"""The columns of each table that can be read: their Spark and Arrow types, and how to select them.

Times are timestamps. `dequeue_at` stays a number of milliseconds, because it may be earlier than any
timestamp. `xid`, the transaction that wrote the row, is a number too. Headers are a map, or JSON text with
`headersFormat=json`; other JSON is text. The content is binary, or a struct (see `content/`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from lonnymq.spark.content.content_column import CONTENT_OPTIONS, ContentColumn
from lonnymq.spark.source_options import InvalidOption, SourceOptions

COLUMN_OPTIONS = ("includeContent", "headersFormat", *CONTENT_OPTIONS)
HEADERS_FORMATS = ("map", "json")
MILLISECONDS = pa.timestamp("ms", tz="UTC")
MICROSECONDS = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class ColumnType:
    spark: DataType
    arrow: pa.DataType
    select_as: str = "{}"
    converted: Callable[[pa.Array], pa.Array] | None = None
    """From the array that the database returned. None: a cast."""


def _timestamps(milliseconds: pa.Array) -> pa.Array:
    return milliseconds.cast(pa.int64()).cast(MILLISECONDS).cast(MICROSECONDS)


def _map_of_pairs(flat: pa.Array) -> pa.Array:
    """A map from lists in which each key is followed by its value."""
    if flat.null_count == len(flat):  # as is usual, and much faster
        return pa.nulls(len(flat), MAP_TYPE)
    import pyarrow.compute as pc  # it takes as long to import as Spark's types do

    items = flat.values
    offsets = pc.divide(flat.offsets, pa.scalar(2, pa.int32()))
    keys = items.take(pa.array(range(0, len(items), 2), pa.int64())).cast(pa.string())
    values = items.take(pa.array(range(1, len(items), 2), pa.int64())).cast(pa.string())
    return pa.MapArray.from_arrays(offsets, keys, values, MAP_TYPE, mask=flat.is_null())


def _runs(numbers: pa.Array) -> pa.Array:
    """Lists of structs, from lists in which the fields of each struct follow each other."""
    if numbers.null_count == len(numbers):  # as is usual, and much faster
        return pa.nulls(len(numbers), RUNS_TYPE)
    flat = numbers.cast(pa.list_(pa.int64()))
    each = flat.flatten().to_numpy(zero_copy_only=False)
    fields = [pa.array(each[n :: len(RUN_FIELDS)], pa.int64()) for n in range(len(RUN_FIELDS))]
    lengths = flat.value_lengths().fill_null(0).to_numpy() // len(RUN_FIELDS)
    offsets = pa.array([0, *lengths.cumsum()], pa.int32())
    structs = pa.StructArray.from_arrays(fields, fields=list(RUNS_TYPE.value_type))
    return pa.ListArray.from_arrays(offsets, structs, type=RUNS_TYPE, mask=flat.is_null())


RUN_FIELDS = ("due_at", "dequeued_at", "ended_at")
RUNS_TYPE = pa.list_(pa.struct([(name, pa.int64()) for name in RUN_FIELDS]))
MAP_TYPE = pa.map_(pa.string(), pa.string())
# jsonb_each_text() returns strings as they are, and other values as JSON text.
PAIRS = """CASE WHEN jsonb_typeof({0}) = 'object'
    THEN ARRAY(SELECT unnest(ARRAY[key, value]) FROM jsonb_each_text({0})) END"""

LONG = ColumnType(LongType(), pa.int64())
INT = ColumnType(IntegerType(), pa.int32())
BOOLEAN = ColumnType(BooleanType(), pa.bool_())
DOUBLE = ColumnType(DoubleType(), pa.float64(), "CAST({} AS DOUBLE PRECISION)")
TEXT = ColumnType(StringType(), pa.string())
JSON = ColumnType(StringType(), pa.string(), "CAST({} AS TEXT)")
BYTES = ColumnType(BinaryType(), pa.binary())
TIME = ColumnType(TimestampType(), MICROSECONDS, converted=_timestamps)
MAP = ColumnType(MapType(StringType(), StringType()), MAP_TYPE, PAIRS, _map_of_pairs)
RUNS = ColumnType(
    ArrayType(StructType([StructField(name, LongType()) for name in RUN_FIELDS])), RUNS_TYPE, converted=_runs
)
XID = ColumnType(LongType(), pa.int64(), "CAST(CAST({} AS TEXT) AS BIGINT)")

TYPES = {
    "xid": XID,
    "seq": LONG,
    "id": LONG,
    "channel": TEXT,
    "status": TEXT,
    "outcome": TEXT,
    "created_at": TIME,
    "dequeue_at": LONG,
    "first_dequeued_at": TIME,
    "dequeued_at": TIME,
    "lease_end_at": TIME,
    "finished_at": TIME,
    "dead_at": TIME,
    "attempts": INT,
    "max_attempts": INT,
    "consumer": TEXT,
    "error": TEXT,
    "past_errors": JSON,
    "past_runs": RUNS,
    "dedupe_key": TEXT,
    "lane": TEXT,
    "priority": INT,
    "cost": INT,
    "is_cancelled": BOOLEAN,
    "headers": MAP,
    "state": BYTES,
    "content_bytes": INT,
    "content": BYTES,
    "at": TIME,
    "scope": TEXT,
    "max_concurrency": INT,
    "release_interval_us": LONG,
    "burst": INT,
    "paused": BOOLEAN,
    "max_size": INT,
    "weight": DOUBLE,
    "is_deleted": BOOLEAN,
}
"""A column has the same type in every table."""


@dataclass(frozen=True)
class Columns:
    names: tuple[str, ...]
    """As PostgreSQL returns them."""
    has_text_headers: bool = False
    content: ContentColumn | None = None

    @classmethod
    def of(cls, names: str) -> Columns:
        """From the names, separated by spaces."""
        return cls(tuple(names.split()))

    def chosen(self, options: SourceOptions) -> Columns:
        """With COLUMN_OPTIONS applied."""
        content = ContentColumn.of(options)
        columns = self if options.boolean("includeContent", default=True) else self.without(["content"])
        if content is not None and "content" not in columns.names:
            raise InvalidOption("contentFormat is given, but the content is not read", "leave one option out")
        is_text = options.choice("headersFormat", HEADERS_FORMATS, "map") == "json"
        return replace(columns, has_text_headers=is_text, content=content)

    def without(self, names: Iterable[str]) -> Columns:
        left_out = set(names)
        return replace(self, names=tuple(name for name in self.names if name not in left_out))

    def schema(self) -> StructType:
        fields: list[StructField] = []
        for name in self.names:
            if name == "content" and self.content is not None:
                fields += self.content.fields()
            else:
                fields.append(StructField(name, self._type(name).spark))
        return StructType(fields)

    def select_list(self) -> str:
        """The text that follows SELECT."""
        return ", ".join(f"{self._type(name).select_as.format(name)} AS {name}" for name in self.names)

    def batch(self, selected: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch that the database returned for `select_list` into the types that Spark expects."""
        arrays: list[pa.Array] = []
        names: list[str] = []
        for name, array in zip(self.names, selected.columns, strict=True):
            if name == "content" and self.content is not None:
                arrays += self.content.converted(array, selected.column("id"))
                names += [field.name for field in self.content.fields()]
            else:
                arrays.append(_converted(array, self._type(name)))
                names.append(name)
        return pa.RecordBatch.from_arrays(arrays, names)

    def _type(self, name: str) -> ColumnType:
        return JSON if name == "headers" and self.has_text_headers else TYPES[name]


def _converted(array: pa.Array, kind: ColumnType) -> pa.Array:
    if kind.converted is not None:
        return kind.converted(array)
    return array if array.type == kind.arrow else array.cast(kind.arrow)


HISTORY = Columns.of(
    "xid id channel outcome created_at dequeue_at first_dequeued_at dequeued_at finished_at attempts consumer"
    " error dedupe_key lane priority cost headers past_runs content_bytes content"
)
DEAD = Columns.of(
    "xid id channel created_at dequeue_at first_dequeued_at dequeued_at dead_at attempts max_attempts"
    " consumer error past_errors dedupe_key lane priority cost headers state content"
)
POLICIES = Columns.of(
    "xid id at scope channel max_concurrency release_interval_us burst paused max_size weight is_deleted"
)
WAITING = Columns.of(
    "id channel status created_at dequeue_at first_dequeued_at dequeued_at lease_end_at attempts max_attempts"
    " consumer error past_errors dedupe_key lane priority cost is_cancelled headers state content"
)
CLAIMED = Columns.of(
    "seq id channel content headers state attempts dedupe_key lane priority cost created_at dequeue_at"
    " dequeued_at"
)
