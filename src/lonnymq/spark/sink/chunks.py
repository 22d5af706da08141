"""Rows as chunks: rows of `staging_chunk`, which have an array per column."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pyarrow as pa

CHUNK_BYTES = 8 * 1024 * 1024


def chunks(rows: pa.RecordBatch, batch: UUID, first: int) -> Iterator[pa.RecordBatch]:
    """Chunks of at most CHUNK_BYTES, or of one row, in the order of the rows. `first` is the ord of the first
    row.
    """
    if rows.nbytes > CHUNK_BYTES and len(rows) > 1:
        half = len(rows) // 2
        yield from chunks(rows.slice(0, half), batch, first)
        yield from chunks(rows.slice(half), batch, first + half)
    elif len(rows):
        yield as_chunk(rows, batch, first)


def as_chunk(rows: pa.RecordBatch, batch: UUID, first: int) -> pa.RecordBatch:
    """One chunk. COPY's binary format has no types, so the uuid is its 16 bytes."""
    bounds = pa.array([0, len(rows)], pa.int32())
    lists = (pa.ListArray.from_arrays(bounds, column) for column in rows.columns)
    return pa.record_batch(
        {
            "batch": pa.array([batch.bytes], pa.binary()),
            "ord": pa.array([first], pa.int64()),
            **dict(zip(rows.schema.names, lists, strict=True)),
        }
    )
