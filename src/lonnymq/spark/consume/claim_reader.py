"""`spark.readStream.format("lonnymq").option("consumer", name)`: consume messages in numbered claims.

A claim is a set of messages that were dequeued for this consumer. A batch of the stream is one claim or
several, and their leases are extended while the batch runs. The number of the last claim is the stream's
offset. When Spark asks for the next offset, everything up to the current one is done, and is completed then;
with the option checkpointLocation, already when Spark has committed the batch. After a crash of the driver,
the next driver continues with the same claims.

Each driver that starts under a consumer's name gets a higher generation, and calls of earlier generations are
refused. So only one driver at a time reads, extends and completes. Nothing happens before Spark asks for an
offset. An executor knows only its partition.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from psycopg import sql
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from lonnymq.adapters.driver_errors import refuse
from lonnymq.errors import PositionUnknown
from lonnymq.spark.consume.claim_options import CLAIM, MAX_MESSAGES, ClaimOptions
from lonnymq.spark.consume.stream_consumer import WRONG_CHECKPOINT, Heartbeat, StreamConsumer
from lonnymq.spark.source_options import InvalidOption

if TYPE_CHECKING:
    from lonnymq.spark.consume.commit_log import CommitLog

REPORT_S = 1.0
"""How often the messages that wait are counted."""
IDLE_PAUSE_S = 0.1
"""Without a pause, Spark asks an idle stream a hundred times per second."""
BATCH_BYTES = 4 * 1024 * 1024

Offset = dict[str, int]


@dataclass(frozen=True)
class ClaimPartition(InputPartition):
    """Part number `part`, of `parts`, of the claims after number `after` up to number `upto`."""

    generation: int
    after: int
    upto: int
    part: int
    parts: int


class ClaimReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        options = ClaimOptions.of(given)
        if not options.consumer:
            raise InvalidOption(
                "the option consumer is missing",
                "give the stream a name: with it, it finds the messages it had claimed when it starts again",
            )
        if schema != options.schema():
            raise InvalidOption(
                "the columns of messages are fixed", "leave out .schema(...), and select columns"
            )
        self._options = options
        self._consumer = StreamConsumer(
            options.address, options.consumer, options.lease_ms, options.chosen, options.max_bytes
        )
        self._heartbeat: Heartbeat | None = None
        self._before: int | None = None
        self._last_batch = time.monotonic()
        self._seq = 0
        self._reported: dict[str, int] | None = None
        self._reported_at = 0.0
        self._is_idle = False
        self._planned = 0

    def initialOffset(self) -> Offset:  # noqa: N802
        return {"seq": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.max_messages)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._before = self._consumer.now()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        self._begin()
        if self._is_idle and self._before is None:
            time.sleep(IDLE_PAUSE_S)
        if self._is_too_early(start["seq"]):
            self._consumer.complete(start["seq"])
            self._is_idle = True
            return start
        most = min(limit.max_rows, MAX_MESSAGES) if isinstance(limit, ReadMaxRows) else MAX_MESSAGES
        seq = self._consumer.next(start["seq"], most, self._before)
        if seq < start["seq"]:
            raise PositionUnknown(
                f"consumer {self._consumer.name!r} is at claim {seq}, but the stream is at {start['seq']}",
                WRONG_CHECKPOINT,
            )
        self._is_idle = seq == start["seq"]
        self._seq = seq
        if not self._is_idle:
            self._last_batch = time.monotonic()
        return {"seq": seq}

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802
        """For StreamingQueryProgress: the last claim, and how many messages wait for another one."""
        if self._heartbeat is not None and time.monotonic() - self._reported_at > REPORT_S:
            self._reported = {"seq": self._seq, "waiting": self._consumer.waiting()}
            self._reported_at = time.monotonic()
        return self._reported

    def _is_too_early(self, seq: int) -> bool:
        """Whether to wait for more messages before the next batch."""
        return (
            self._options.min_messages > 1
            and self._before is None
            and not self._consumer.has_claimed(seq)
            and (time.monotonic() - self._last_batch) * 1000 < self._options.max_delay_ms
            and self._consumer.waiting() < self._options.min_messages
        )

    def partitions(self, start: Offset, end: Offset) -> list[ClaimPartition]:
        after, upto = start["seq"], end["seq"]
        if after >= upto:
            return []
        self._begin()
        if upto > self._planned:
            # Messages whose leases ran out are left out of a batch only when it is planned for the first
            # time. Later they may have been read already, and then the commit of the batch must fail.
            self._consumer.begin(upto)
            self._planned = upto
        parts = self._options.partitions
        return [ClaimPartition(self._consumer.generation, after, upto, part, parts) for part in range(parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs on an executor."""
        if not isinstance(partition, ClaimPartition):  # Spark makes up a partition where we returned none
            return
        from adbc_driver_manager import Error

        try:
            yield from self._batches(partition)
        except (Error, OSError) as error:  # ADBC raises OSError, without a SQLSTATE, while rows arrive
            self._consumer.check(partition.generation)
            refuse(error)

    def commit(self, end: Offset) -> None:
        """Does nothing: Spark calls it late, and not for the last batch, so `latestOffset` completes."""

    def stop(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.stop()
        self._consumer.close()

    def _begin(self) -> None:
        if self._heartbeat is None:
            self._consumer.open()
            self._heartbeat = Heartbeat(self._consumer, self._commits())
            self._heartbeat.start()
        self._heartbeat.check()

    def _commits(self) -> CommitLog | None:
        if self._options.checkpoint is None:
            return None
        from lonnymq.spark.consume.commit_log import CommitLog

        return CommitLog(self._options.checkpoint)

    def _batches(self, part: ClaimPartition) -> Iterator[pa.RecordBatch]:
        from adbc_driver_postgresql import StatementOptions

        hint = {StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(BATCH_BYTES)}
        with self._options.address.adbc() as connection, connection.cursor(adbc_stmt_kwargs=hint) as cursor:
            cursor.execute(self._query(part))
            with cursor.fetch_record_batch() as batches:
                for batch in batches:
                    if batch.num_rows:
                        yield self._with_claim(self._options.columns.batch(batch), part)

    def _query(self, part: ClaimPartition) -> str:
        arguments = (self._consumer.name, part.generation, part.after, part.upto, part.part, part.parts)
        return (
            sql.SQL("SELECT {} FROM {}({})")
            .format(
                sql.SQL(self._options.columns.select_list()),
                sql.Identifier(self._options.address.schema, "claim_read"),
                sql.SQL(", ").join(map(sql.Literal, arguments)),
            )
            .as_string()
        )

    def _with_claim(self, rows: pa.RecordBatch, part: ClaimPartition) -> pa.RecordBatch:
        claim = pa.StructArray.from_arrays(
            [
                pa.repeat(self._consumer.name, rows.num_rows),
                rows.column("seq"),
                pa.repeat(pa.scalar(part.generation, pa.int64()), rows.num_rows),
                rows.column("id"),
            ],
            names=CLAIM.names,
        )
        names = [name for name in rows.schema.names if name != "seq"]
        return pa.RecordBatch.from_arrays([*(rows.column(name) for name in names), claim], [*names, "claim"])
