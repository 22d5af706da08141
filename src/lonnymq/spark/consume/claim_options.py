"""The options of a consuming stream, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from pyspark.sql.types import LongType, StringType, StructField, StructType

from lonnymq.message_options import TEXT_MAX_BYTES
from lonnymq.spark.columns import CLAIMED, COLUMN_OPTIONS, Columns
from lonnymq.spark.connection import QueueAddress
from lonnymq.spark.message_filter import FILTER_OPTIONS, MessageFilter
from lonnymq.spark.source_options import InvalidOption, SourceOptions

OPTIONS = (
    "consumer",
    "leaseSeconds",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    *(name for name in COLUMN_OPTIONS if name != "includeContent"),
    *FILTER_OPTIONS,
)
DEFAULT_MESSAGES = 10_000
MAX_MESSAGES = 100_000
MAX_PARTITIONS = 1_000
MESSAGES_PER_PARTITION = 2_500
DEFAULT_PARTITIONS = 8
DEFAULT_DELAY_MS = 15 * 60_000

CLAIM = StructType(
    [
        StructField("consumer", StringType()),
        StructField("seq", LongType()),
        StructField("generation", LongType()),
        StructField("id", LongType()),
    ]
)


def is_consuming(given: Mapping[str, str]) -> bool:
    """Whether the options are those of a stream: Spark asks for the columns before it says what it reads."""
    return not given.keys().isdisjoint(
        {"consumer", "leaseseconds", "maxoffsetspertrigger", "maxbytespertrigger"}
    )


@dataclass(frozen=True)
class ClaimOptions:
    address: QueueAddress
    consumer: str | None
    lease_ms: int | None
    max_messages: int
    max_bytes: int | None
    min_messages: int
    max_delay_ms: int
    """A batch with fewer than `min_messages` messages begins this long after the batch before it."""
    partitions: int
    columns: Columns
    chosen: MessageFilter
    checkpoint: str | None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        options = SourceOptions(given, OPTIONS)
        consumer = options.text("consumer")
        if consumer is not None and len(consumer.encode()) > TEXT_MAX_BYTES:
            raise InvalidOption(
                f"consumer is {len(consumer.encode())} bytes long", f"use 1 to {TEXT_MAX_BYTES} bytes"
            )
        lease_s = options.integer("leaseSeconds", at_most=86_400)
        most = options.integer("maxOffsetsPerTrigger", at_most=MAX_MESSAGES) or DEFAULT_MESSAGES
        least = options.integer("minOffsetsPerTrigger", 1, at_most=MAX_MESSAGES) or 1
        if least > most:
            raise InvalidOption(f"minOffsetsPerTrigger is {least}, more than maxOffsetsPerTrigger, {most}")
        delay_ms = options.delay_ms("maxTriggerDelay")
        return cls(
            QueueAddress.of(given),
            consumer,
            None if lease_s is None else lease_s * 1000,
            most,
            options.integer("maxBytesPerTrigger"),
            least,
            DEFAULT_DELAY_MS if delay_ms is None else delay_ms,
            options.integer("minPartitions", at_most=MAX_PARTITIONS)
            or min(DEFAULT_PARTITIONS, -(-most // MESSAGES_PER_PARTITION)),
            CLAIMED.chosen(options),
            MessageFilter.of(options),
            options.text("checkpointLocation"),
        )

    def schema(self) -> StructType:
        fields = self.columns.without(["seq"]).schema().fields
        return StructType([*fields, StructField("claim", CLAIM)])
