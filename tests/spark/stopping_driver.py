"""A driver that consumes, and hangs at a point that the test chooses, to be killed there.

The points are `claimed` (messages are claimed, Spark has not logged the offset yet), `committed` (PostgreSQL
has committed the results, Spark has not logged the commit yet) and `written` (another sink has written them).
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from lonnymq.spark.consume.claim_reader import ClaimReader
from lonnymq.spark.queue_source import QueueSource
from lonnymq.spark.sessions.spark_session import session
from lonnymq.spark.sink.writer import StreamWriter
from tests.spark import quick_java

CONF: dict[str, Any] = {"spark.driver.memory": "512m", **quick_java.INTERPRETED}


def stop_here(at: str) -> None:
    if os.environ["LONNYMQ_TEST_STOP"] == at:
        Path(os.environ["LONNYMQ_TEST_REACHED"]).touch()
        while True:
            time.sleep(60)


class StoppingReader(ClaimReader):
    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        offset = super().latestOffset(start, limit)
        if offset != start:
            stop_here("claimed")
        return offset


class StoppingWriter(StreamWriter):
    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        stop_here("committed")


class StoppingSource(QueueSource):
    @classmethod
    def name(cls) -> str:
        return "stopping"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return StoppingReader(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return StoppingWriter(self.options, schema, overwrite=overwrite)


def main() -> None:
    task = json.loads(sys.argv[1])
    spark = session("local[2]", **CONF)
    spark.dataSource.register(StoppingSource)
    lasting = {"consumer": "etl", "leaseSeconds": "600", "minPartitions": "1"}
    rows = spark.readStream.format("stopping").options(**task["options"], **lasting).load()

    def write(batch: DataFrame, _: int) -> None:
        ids = [row.id for row in batch.collect()]
        Path(task["sink"]).write_text("\n".join(map(str, ids)), encoding="ascii")
        stop_here("written")

    if os.environ["LONNYMQ_TEST_STOP"] == "written":
        writing = rows.writeStream.foreachBatch(write)
    else:
        moved = rows.selectExpr("'out' AS channel", "content", "claim")
        writing = moved.writeStream.format("stopping").options(**task["options"], complete="true")
    query = writing.option("checkpointLocation", task["checkpoint"]).trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    main()
