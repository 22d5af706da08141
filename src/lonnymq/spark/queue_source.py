"""`format("lonnymq")`: writing messages into the queue, reading them, and consuming them.

    df.write.format("lonnymq").options(service="queue").mode("append").save()
    df.writeStream.format("lonnymq").options(service="queue").option("checkpointLocation", path).start()
    spark.read.format("lonnymq").options(service="queue").load()
    spark.readStream.format("lonnymq").options(service="queue", consumer="etl").load()

A write needs the columns `channel` (or the option channel, for all rows) and `content` (binary, a string, or
a struct, map or array, which becomes JSON). Optional columns are `run_at` (a timestamp) or `dequeue_at` (Unix
milliseconds), `priority`, `cost`, `lane`, `dedupe_key`, `unique_while`, `unique_for` (seconds), `headers` and
`max_attempts`.

`read` returns the messages that wait or are leased now, and leaves them there. `readStream` consumes.
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


class QueueSource(DataSource):
    """Each method imports what it needs: Spark starts a process for almost every step."""

    @classmethod
    def name(cls) -> str:
        return "lonnymq"

    def schema(self) -> StructType:
        from lonnymq.spark.consume.claim_options import ClaimOptions, is_consuming

        if is_consuming(self.options):
            return ClaimOptions.of(self.options).schema()
        from lonnymq.spark.waiting_reader import waiting_columns

        return waiting_columns(self.options).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        from lonnymq.spark.waiting_reader import WaitingReader

        return WaitingReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from lonnymq.spark.consume.claim_reader import ClaimReader

        return ClaimReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        from lonnymq.spark.sink.writer import BatchWriter

        return BatchWriter(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802
        from lonnymq.spark.sink.writer import StreamWriter

        return StreamWriter(self.options, schema, overwrite=overwrite)
