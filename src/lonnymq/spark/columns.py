"""The columns of each table that can be read: their Spark and Arrow types, and how to select them.

Times are timestamps. `dequeue_at` stays a number of milliseconds, because it may be earlier than any
timestamp. `xid`, the transaction that wrote the row, is a number too. JSON is text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

MILLISECONDS = pa.timestamp("ms", tz="UTC")
MICROSECONDS = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class ColumnType:
    spark: DataType
    arrow: pa.DataType
    select_as: str = "{}"


LONG = ColumnType(LongType(), pa.int64())
INT = ColumnType(IntegerType(), pa.int32())
BOOLEAN = ColumnType(BooleanType(), pa.bool_())
TEXT = ColumnType(StringType(), pa.string())
JSON = ColumnType(StringType(), pa.string(), "CAST({} AS TEXT)")
BYTES = ColumnType(BinaryType(), pa.binary())
TIME = ColumnType(TimestampType(), MICROSECONDS)
RUN_FIELDS = ("due_at", "dequeued_at", "ended_at")
RUNS = ColumnType(
    ArrayType(StructType([StructField(name, LongType()) for name in RUN_FIELDS])),
    pa.list_(pa.struct([(name, pa.int64()) for name in RUN_FIELDS])),
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
    "headers": JSON,
    "state": BYTES,
    "content_bytes": INT,
    "content": BYTES,
}
"""A column has the same type in every table."""


@dataclass(frozen=True)
class Columns:
    names: tuple[str, ...]

    @classmethod
    def of(cls, names: str) -> Columns:
        """From the names, separated by spaces."""
        return cls(tuple(names.split()))

    def without(self, names: Iterable[str]) -> Columns:
        left_out = set(names)
        return Columns(tuple(name for name in self.names if name not in left_out))

    def schema(self) -> StructType:
        return StructType([StructField(name, TYPES[name].spark) for name in self.names])

    def select_list(self) -> str:
        """The text that follows SELECT."""
        return ", ".join(f"{TYPES[name].select_as.format(name)} AS {name}" for name in self.names)

    def batch(self, selected: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch that the database returned for `select_list` into the types that Spark expects."""
        types = [TYPES[name].arrow for name in self.names]
        arrays = [
            CONVERSIONS.get(kind, pa.Array.cast)(array, kind)
            for array, kind in zip(selected.columns, types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(list(zip(self.names, types, strict=True))))


def _timestamps(milliseconds: pa.Array, _kind: pa.DataType) -> pa.Array:
    return milliseconds.cast(pa.int64()).cast(MILLISECONDS).cast(MICROSECONDS)


def _runs(numbers: pa.Array, kind: pa.DataType) -> pa.Array:
    """Lists of structs, from lists in which the fields of each struct follow each other."""
    if numbers.null_count == len(numbers):  # as is usual, and much faster
        return pa.nulls(len(numbers), kind)
    flat = numbers.cast(pa.list_(pa.int64()))
    each = flat.flatten().to_numpy(zero_copy_only=False)
    fields = [pa.array(each[n :: len(RUN_FIELDS)], pa.int64()) for n in range(len(RUN_FIELDS))]
    lengths = flat.value_lengths().fill_null(0).to_numpy() // len(RUN_FIELDS)
    offsets = pa.array([0, *lengths.cumsum()], pa.int32())
    structs = pa.StructArray.from_arrays(fields, fields=list(kind.value_type))
    return pa.ListArray.from_arrays(offsets, structs, type=kind, mask=flat.is_null())


CONVERSIONS: dict[pa.DataType, Callable[[pa.Array, pa.DataType], pa.Array]] = {
    MICROSECONDS: _timestamps,
    RUNS.arrow: _runs,
}


HISTORY = Columns.of(
    "xid id channel outcome created_at dequeue_at first_dequeued_at dequeued_at finished_at attempts consumer"
    " error dedupe_key lane priority cost headers past_runs content_bytes content"
)
DEAD = Columns.of(
    "xid id channel created_at dequeue_at first_dequeued_at dequeued_at dead_at attempts max_attempts"
    " consumer error past_errors dedupe_key lane priority cost headers state content"
)
WAITING = Columns.of(
    "id channel status created_at dequeue_at first_dequeued_at dequeued_at lease_end_at attempts max_attempts"
    " consumer error past_errors dedupe_key lane priority cost is_cancelled headers state content"
)
CLAIMED = Columns.of(
    "seq id channel content headers state attempts dedupe_key lane priority cost created_at dequeue_at"
    " dequeued_at"
)
