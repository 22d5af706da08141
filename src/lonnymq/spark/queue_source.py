"""`format("lonnymq")`: messages into the queue, and out of it.

    df.write.format("lonnymq").options(service="queue").mode("append").save()
    df.writeStream.format("lonnymq").options(service="queue").option("checkpointLocation", path).start()
    spark.read.format("lonnymq").options(service="queue").load()
    spark.readStream.format("lonnymq").options(service="queue", consumer="etl").load()

Written are the columns `channel` (or the option channel, for all rows) and `content` (binary, a string, or a
struct, map or array, which becomes JSON), and where they are there `run_at` (a timestamp) or `dequeue_at`
(Unix milliseconds), `priority`, `cost`, `lane`, `dedupe_key`, `headers` and `max_attempts`.

Read as a table is what waits or is leased now; nothing is taken. Read as a stream, it is consumed.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from lonnymq.spark.consume.stream import ClaimReader, claimed_schema, is_claiming
from lonnymq.spark.sink.writer import BatchWriter, StreamWriter
from lonnymq.spark.waiting_reader import WaitingReader, waiting_columns


class QueueSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "lonnymq"

    def schema(self) -> StructType:
        if is_claiming(self.options):
            return claimed_schema()
        return waiting_columns(self.options).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return WaitingReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return ClaimReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        return BatchWriter(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802
        return StreamWriter(self.options, schema, overwrite=overwrite)
