"""`spark.readStream.format("lonnymq").option("consumer", name)`: messages are consumed, in numbered claims.

A batch of Spark's is a claim, or several: messages that were dequeued as by anyone, and whose leases are
extended while the batch is at work. The number of the last claim is Spark's offset. When Spark asks what
there is behind a claim, all up to it is done, and is completed; what a driver claimed that died is gone on
with under the same number.

Whoever reads under a consumer's name later has the higher generation, and the one before is refused: so one
driver at a time reads, extends and completes. Nothing is done before Spark asks for something, and what reads
on executors knows no more than its part.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from psycopg import sql
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import LongType, StringType, StructField, StructType

from lonnymq.adapters.driver_errors import refuse
from lonnymq.errors import PositionUnknown
from lonnymq.spark.columns import CLAIMED
from lonnymq.spark.connection import Connecting
from lonnymq.spark.consume.driver import Consumer, Heartbeat
from lonnymq.spark.source_options import InvalidOption, Options

OPTIONS = ("consumer", "lanes", "leaseSeconds", "maxMessagesPerTrigger", "numPartitions")
MESSAGES = 10_000
MOST_MESSAGES = 100_000
MOST_PARTITIONS = 1_000
MESSAGES_A_PARTITION = 2_500
PARTITIONS = 8
IDLE_PAUSE_S = 0.1
"""While nothing waits, Spark asks a hundred times a second."""
BATCH_BYTES = 4 * 1024 * 1024

CLAIM = StructType(
    [
        StructField("consumer", StringType()),
        StructField("seq", LongType()),
        StructField("generation", LongType()),
    ]
)
Offset = dict[str, int]


@dataclass(frozen=True)
class Part(InputPartition):
    """Part number `part` of `parts` of the claims behind `after`, up to `upto`."""

    generation: int
    after: int
    upto: int
    part: int
    parts: int


def is_claiming(given: Mapping[str, str]) -> bool:
    """Whether a stream is meant: Spark asks for columns before it says what for."""
    return not given.keys().isdisjoint({"consumer", "lanes", "leaseseconds", "maxmessagespertrigger"})


def claimed_schema() -> StructType:
    return StructType([*CLAIMED.without(["seq"]).schema().fields, StructField("claim", CLAIM)])


def _lanes(options: Options) -> list[str] | None:
    """Names, separated by commas; None: all lanes."""
    given = options.text("lanes")
    if given is None:
        return None
    names = [name.strip() for name in given.split(",")]
    if not all(names):
        raise InvalidOption(f"lanes is {given!r}", "name lanes, separated by commas")
    return names


class ClaimReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        options = Options(given, OPTIONS)
        if not options.text("consumer"):
            raise InvalidOption(
                "the option consumer is missing",
                "a stream consumes under a name, by which it finds what it had claimed when it starts again",
            )
        if schema != claimed_schema():
            raise InvalidOption("the columns of messages are given", "leave out .schema(...), and select")
        self._limit = options.integer("maxMessagesPerTrigger", MESSAGES, at_most=MOST_MESSAGES) or MESSAGES
        lease_s = options.integer("leaseSeconds", at_most=86_400)
        self._parts = options.integer("numPartitions", at_most=MOST_PARTITIONS) or min(
            PARTITIONS, -(-self._limit // MESSAGES_A_PARTITION)
        )
        self._connecting = Connecting.of(given)
        self._consumer = Consumer(
            self._connecting,
            options.required("consumer"),
            None if lease_s is None else lease_s * 1000,
            _lanes(options),
        )
        self._heartbeat: Heartbeat | None = None
        self._before: int | None = None
        self._is_idle = False
        self._planned = 0

    def initialOffset(self) -> Offset:  # noqa: N802
        return {"seq": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._before = self._consumer.now()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        self._begin()
        if self._is_idle and self._before is None:
            time.sleep(IDLE_PAUSE_S)
        most = min(limit.max_rows, MOST_MESSAGES) if isinstance(limit, ReadMaxRows) else MOST_MESSAGES
        seq = self._consumer.next(start["seq"], most, self._before)
        if seq < start["seq"]:
            raise PositionUnknown(
                f"consumer {self._consumer.name!r} is at claim {seq}, and the stream at {start['seq']}",
                "it has the checkpoint of another queue, or the database was restored: begin with a new one",
            )
        self._is_idle = seq == start["seq"]
        return {"seq": seq}

    def partitions(self, start: Offset, end: Offset) -> list[Part]:
        after, upto = start["seq"], end["seq"]
        if after >= upto:
            return []
        self._begin()
        if upto > self._planned:
            # What was lost meanwhile is left out, but not once it may have been read: then it must be found
            # lost when what was made of it is committed.
            self._consumer.forget(upto)
            self._planned = upto
        return [
            Part(self._consumer.generation, after, upto, part, self._parts) for part in range(self._parts)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On an executor."""
        if not isinstance(partition, Part):  # Spark's own, where there are none of ours
            return
        from adbc_driver_manager import Error

        try:
            yield from self._batches(partition)
        except (Error, OSError) as error:  # OSError: what fails while rows come, without its SQLSTATE
            self._consumer.check(partition.generation)
            refuse(error)

    def commit(self, end: Offset) -> None:
        """Comes too late, and for the last batch not at all: `latestOffset` completes."""

    def stop(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.stop()
        self._consumer.close()

    def _begin(self) -> None:
        if self._heartbeat is None:
            self._consumer.open()
            self._heartbeat = Heartbeat(self._consumer)
            self._heartbeat.start()
        self._heartbeat.check()

    def _batches(self, part: Part) -> Iterator[pa.RecordBatch]:
        from adbc_driver_postgresql import StatementOptions

        hint = {StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(BATCH_BYTES)}
        with self._connecting.adbc() as connection, connection.cursor(adbc_stmt_kwargs=hint) as cursor:
            cursor.execute(self._query(part))
            with cursor.fetch_record_batch() as batches:
                for batch in batches:
                    if batch.num_rows:
                        yield self._with_claim(CLAIMED.batch(batch), part)

    def _query(self, part: Part) -> str:
        arguments = (self._consumer.name, part.generation, part.after, part.upto, part.part, part.parts)
        return (
            sql.SQL("SELECT {} FROM {}({})")
            .format(
                sql.SQL(CLAIMED.asked()),
                sql.Identifier(self._connecting.schema, "claim_read"),
                sql.SQL(", ").join(map(sql.Literal, arguments)),
            )
            .as_string()
        )

    def _with_claim(self, rows: pa.RecordBatch, part: Part) -> pa.RecordBatch:
        claim = pa.StructArray.from_arrays(
            [
                pa.repeat(self._consumer.name, rows.num_rows),
                rows.column("seq"),
                pa.repeat(pa.scalar(part.generation, pa.int64()), rows.num_rows),
            ],
            names=CLAIM.names,
        )
        names = [name for name in rows.schema.names if name != "seq"]
        return pa.RecordBatch.from_arrays([*(rows.column(name) for name in names), claim], [*names, "claim"])
