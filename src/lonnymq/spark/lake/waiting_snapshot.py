"""The table `waiting` of the lake: what waits or is leased, without contents. A snapshot replaces the last.

With it, what is not finished yet can be told from what never was: a tenant that waits for hours has no row in
the history meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lonnymq.client.times import ServerClock
from lonnymq.commands import HistoryBounds
from lonnymq.spark.connection import QueueAddress, QueueConnection
from lonnymq.spark.lake.lake_table import Lake, TableOptions
from lonnymq.spark.unwrap_errors import unwrap_spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WAITING = "waiting"
INTERVAL_S = 15 * 60
COLUMNS = (
    "id",
    "channel",
    "lane",
    "priority",
    "cost",
    "created_at",
    "dequeue_at",
    "first_dequeued_at",
    "CASE WHEN status = 'leased' THEN dequeued_at END AS dequeued_at",
    "attempts",
)


class WaitingSnapshots:
    def __init__(self, spark: SparkSession, lake: Lake, options: Mapping[str, str]) -> None:
        self.spark, self.lake = spark, lake
        self.options = {**options, "includeContent": "false"}
        self.address = QueueAddress.of(self.options)
        self.next_at = 0.0

    def take(self) -> int | None:
        """Replace the snapshot, at most every 15 minutes. Returns how many messages it has; None: it was not
        replaced.
        """
        if time.monotonic() < self.next_at:
            return None
        self.next_at = time.monotonic() + INTERVAL_S
        connection = QueueConnection(self.address)
        try:
            taken_at, system = connection.run(ServerClock()), connection.run(HistoryBounds()).system_id
        finally:
            connection.close()
        rows = self._rows(taken_at)
        source = f"cluster {system}, schema {self.address.schema}, messages"
        uri = f"{self.lake.path}/{WAITING}"
        table = self.lake.open(TableOptions(uri, source, rows.schema, "taken_at"))
        with unwrap_spark_errors():
            written = table.write(rows)
        table.replace(written)
        return sum(file.rows for file in written)

    def _rows(self, taken_at: int) -> DataFrame:
        from pyspark.sql.functions import lit

        at = datetime.fromtimestamp(taken_at / 1000, UTC)
        waiting = self.spark.read.format("lonnymq").options(**self.options).load()
        return waiting.selectExpr(*COLUMNS).select(lit(at).alias("taken_at"), "*")
