"""What a write into the queue did.

The commit of a write runs in a process of Spark's driver that returns nothing to the caller. It leaves the
numbers in the ledger, and the caller asks for them afterwards, through Spark: only Spark's machines may be
able to reach the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING
from uuid import UUID

import pyarrow as pa

from lonnymq.adapters.psycopg import run
from lonnymq.commands import StagingPublishOnce
from lonnymq.spark.connection import QueueAddress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "created long, duplicates long, refused long, is_repeat boolean"


@dataclass(frozen=True, slots=True)
class Publication:
    """The rows that became messages, and those that did not. With `is_repeat`, an earlier job did it."""

    created: int
    duplicates: int
    """Rows with the dedupe key of a message that waits."""
    refused: int
    """Rows that were left out because their channel was full."""
    is_repeat: bool


def publication(
    spark: SparkSession, options: Mapping[str, str], app: str, version: int | None, job: UUID
) -> Publication:
    """Look up a version that has been published."""
    address = QueueAddress.of(options)

    def read(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with address.connect() as connection:
            # Without batches, and for a version that is in the ledger, this call changes nothing.
            found = run(connection, address.schema, StagingPublishOnce(app, version, [], job=job))
        answer = Publication(found.created, found.duplicates, found.refused, found.job != job)
        yield pa.RecordBatch.from_pylist([asdict(answer)])

    [row] = spark.range(1, numPartitions=1).mapInArrow(read, COLUMNS).collect()
    return Publication(**row.asDict())
