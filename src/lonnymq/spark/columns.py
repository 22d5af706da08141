"""The columns of what is read, each with its type in Spark, and how it is asked for.

Times are instants. `dequeue_at` stays a number, of milliseconds, as it may lie before all times; so does
`xid`, the transaction that wrote the row. JSON is text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import (
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
INSTANT = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Kind:
    spark: DataType
    arrow: pa.DataType
    asked_as: str = "{}"


LONG = Kind(LongType(), pa.int64())
INT = Kind(IntegerType(), pa.int32())
BOOLEAN = Kind(BooleanType(), pa.bool_())
TEXT = Kind(StringType(), pa.string())
JSON = Kind(StringType(), pa.string(), "CAST({} AS TEXT)")
BYTES = Kind(BinaryType(), pa.binary())
TIME = Kind(TimestampType(), INSTANT)
XID = Kind(LongType(), pa.int64(), "CAST(CAST({} AS TEXT) AS BIGINT)")


@dataclass(frozen=True)
class Columns:
    kinds: tuple[tuple[str, Kind], ...]

    @classmethod
    def of(cls, **kinds: Kind) -> Columns:
        return cls(tuple(kinds.items()))

    def without(self, names: Iterable[str]) -> Columns:
        left_out = set(names)
        return Columns(tuple((name, kind) for name, kind in self.kinds if name not in left_out))

    def schema(self) -> StructType:
        return StructType([StructField(name, kind.spark) for name, kind in self.kinds])

    def asked(self) -> str:
        """What follows SELECT."""
        return ", ".join(f"{kind.asked_as.format(name)} AS {name}" for name, kind in self.kinds)

    def batch(self, answered: pa.RecordBatch) -> pa.RecordBatch:
        """A record batch as Spark wants it, of one that the database gave for `asked`."""
        arrays = [
            _instants(array) if kind.arrow == INSTANT else array.cast(kind.arrow)
            for array, (_, kind) in zip(answered.columns, self.kinds, strict=True)
        ]
        return pa.RecordBatch.from_arrays(
            arrays, schema=pa.schema([(name, kind.arrow) for name, kind in self.kinds])
        )


def _instants(milliseconds: pa.Array) -> pa.Array:
    return milliseconds.cast(pa.int64()).cast(MILLISECONDS).cast(INSTANT)


HISTORY = Columns.of(
    xid=XID,
    id=LONG,
    channel=TEXT,
    outcome=TEXT,
    created_at=TIME,
    dequeue_at=LONG,
    first_dequeued_at=TIME,
    dequeued_at=TIME,
    finished_at=TIME,
    attempts=INT,
    consumer=TEXT,
    error=TEXT,
    dedupe_key=TEXT,
    lane=TEXT,
    priority=INT,
    cost=INT,
    headers=JSON,
    content_bytes=INT,
    content=BYTES,
)
DEAD = Columns.of(
    xid=XID,
    id=LONG,
    channel=TEXT,
    created_at=TIME,
    dequeue_at=LONG,
    first_dequeued_at=TIME,
    dequeued_at=TIME,
    dead_at=TIME,
    attempts=INT,
    max_attempts=INT,
    consumer=TEXT,
    error=TEXT,
    past_errors=JSON,
    dedupe_key=TEXT,
    lane=TEXT,
    priority=INT,
    cost=INT,
    headers=JSON,
    state=BYTES,
    content=BYTES,
)
WAITING = Columns.of(
    id=LONG,
    channel=TEXT,
    status=TEXT,
    created_at=TIME,
    dequeue_at=LONG,
    first_dequeued_at=TIME,
    dequeued_at=TIME,
    lease_end_at=TIME,
    attempts=INT,
    max_attempts=INT,
    consumer=TEXT,
    error=TEXT,
    past_errors=JSON,
    dedupe_key=TEXT,
    lane=TEXT,
    priority=INT,
    cost=INT,
    is_cancelled=BOOLEAN,
    headers=JSON,
    state=BYTES,
    content=BYTES,
)
CLAIMED = Columns.of(
    seq=LONG,
    id=LONG,
    channel=TEXT,
    content=BYTES,
    headers=JSON,
    state=BYTES,
    attempts=INT,
    dedupe_key=TEXT,
    lane=TEXT,
    priority=INT,
    cost=INT,
    created_at=TIME,
    dequeue_at=LONG,
    dequeued_at=TIME,
)
