"""Rows of a DataFrame as chunks: which rows they have, and how large they are."""

from uuid import UUID

import pyarrow as pa
import pytest

from lonnymq.spark.sink import chunks as module
from lonnymq.spark.sink.chunks import chunks

BATCH = UUID("12345678-1234-5678-1234-567812345678")


def rows(sizes: list[int]) -> pa.RecordBatch:
    """Messages with contents of these sizes, of which every other one has a priority."""
    return pa.record_batch(
        {
            "channel": [f"c{n}" for n in range(len(sizes))],
            "content": pa.array([bytes([n]) * size for n, size in enumerate(sizes)], pa.binary()),
            "priority": pa.array([n if n % 2 else None for n in range(len(sizes))], pa.int32()),
        }
    )


def found(given: pa.RecordBatch, first: int = 0) -> list[dict[str, object]]:
    return [row for chunk in chunks(given, BATCH, first) for row in chunk.to_pylist()]


def test_a_chunk_has_an_array_per_column() -> None:
    assert found(rows([1, 2]), first=7) == [
        {
            "batch": BATCH.bytes,
            "ord": 7,
            "channel": ["c0", "c1"],
            "content": [b"\0", b"\1\1"],
            "priority": [None, 1],
        }
    ]


def test_no_rows_are_no_chunk() -> None:
    assert found(rows([])) == []


@pytest.mark.parametrize("skipped", [0, 3])
def test_large_rows_are_split_in_their_order(monkeypatch: pytest.MonkeyPatch, skipped: int) -> None:
    """A row that is larger than a chunk may be is alone. Arrow's batch may be a part of a larger one."""
    monkeypatch.setattr(module, "CHUNK_BYTES", 100)
    given = rows([10, 10, 500, 10, 0, 30, 30, 30, 30, 99]).slice(skipped)
    made = list(chunks(given, BATCH, 40))
    assert [row for chunk in made for row in chunk["content"].to_pylist()[0]] == given["content"].to_pylist()
    assert [row for chunk in made for row in chunk["priority"].to_pylist()[0]] == given[
        "priority"
    ].to_pylist()
    lengths = [len(chunk["content"].to_pylist()[0]) for chunk in made]
    assert [chunk["ord"].to_pylist()[0] for chunk in made] == [
        40 + sum(lengths[:n]) for n in range(len(lengths))
    ]
    assert all(chunk.num_rows == 1 for chunk in made)
    for chunk in made:
        sizes = [len(content) for content in chunk["content"].to_pylist()[0]]
        assert len(sizes) == 1 or sum(sizes) <= 100
