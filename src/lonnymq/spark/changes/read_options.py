"""The options of readers of history, dead letters and policies, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from lonnymq.spark.changes.change_view import ChangeView
from lonnymq.spark.changes.offsets import Offset
from lonnymq.spark.changes.range_reader import RangeReader
from lonnymq.spark.columns import COLUMN_OPTIONS
from lonnymq.spark.connection import QueueAddress
from lonnymq.spark.message_filter import CHANNEL_OPTIONS, FILTER_OPTIONS, MessageFilter
from lonnymq.spark.source_options import InvalidOption, SourceOptions

RANGE = ("startingOffsets", "startingTimestamp", "endingOffsets", "endingTimestamp")
TRIGGER = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
OTHERS = ("minPartitions", "failOnDataLoss")
UNIX_MS = "give Unix milliseconds, such as 1893456000000 for 2030-01-01 00:00 UTC"
DEFAULT_DELAY_MS = 15 * 60_000
"""As in Spark's source for Kafka."""


def known_options(view: ChangeView) -> tuple[str, ...]:
    """The options of a view, without those about columns that it does not have."""
    chosen = FILTER_OPTIONS if "lane" in view.columns.names else CHANNEL_OPTIONS
    of_content = () if view.size is None else ("maxBytesPerTrigger", *COLUMN_OPTIONS)
    return (*RANGE, *TRIGGER, *OTHERS, *chosen, *of_content)


@dataclass(frozen=True)
class TriggerLimits:
    """How much a batch of a stream has. `max_bytes` counts contents."""

    max_rows: int | None
    max_bytes: int | None
    min_rows: int | None
    max_delay_ms: int
    """A batch with fewer than `min_rows` rows begins this long after the batch before it."""

    @classmethod
    def of(cls, options: SourceOptions) -> Self:
        delay_ms = options.delay_ms("maxTriggerDelay")
        found = cls(
            options.integer("maxOffsetsPerTrigger"),
            options.integer("maxBytesPerTrigger"),
            options.integer("minOffsetsPerTrigger"),
            DEFAULT_DELAY_MS if delay_ms is None else delay_ms,
        )
        if delay_ms is not None and found.min_rows is None:
            raise InvalidOption("maxTriggerDelay needs minOffsetsPerTrigger", "give both, or none")
        if found.min_rows and found.max_rows and found.min_rows > found.max_rows:
            raise InvalidOption(
                f"minOffsetsPerTrigger is {found.min_rows}, more than maxOffsetsPerTrigger, {found.max_rows}"
            )
        return found

    def refuse_given(self) -> None:
        """Refuse the options of a stream in a batch."""
        given = {
            "maxOffsetsPerTrigger": self.max_rows,
            "maxBytesPerTrigger": self.max_bytes,
            "minOffsetsPerTrigger": self.min_rows,
        }
        for name, value in given.items():
            if value is not None:
                raise InvalidOption(f"{name} is for streams", "leave it out: a batch reads everything")


@dataclass(frozen=True)
class ReadOptions:
    address: QueueAddress
    starting: str | Offset
    ending: str | Offset
    since: int | None
    until: int | None
    """Unix milliseconds: rows from `since` to before `until`."""
    chosen: MessageFilter
    limits: TriggerLimits
    min_partitions: int | None
    fails_on_data_loss: bool

    @classmethod
    def of(cls, given: Mapping[str, str], view: ChangeView) -> Self:
        options = SourceOptions(given, known_options(view))
        options.not_both("startingOffsets", "startingTimestamp")
        options.not_both("endingOffsets", "endingTimestamp")
        return cls(
            QueueAddress.of(given),
            _offset(options, "startingOffsets", "earliest"),
            _offset(options, "endingOffsets", "latest"),
            options.integer("startingTimestamp", at_least=0, hint=UNIX_MS),
            options.integer("endingTimestamp", at_least=0, hint=UNIX_MS),
            MessageFilter.of(options),
            TriggerLimits.of(options),
            options.integer("minPartitions", at_most=10_000),
            options.boolean("failOnDataLoss", default=True),
        )

    def range_reader(self, view: ChangeView) -> RangeReader:
        return RangeReader(view, self.address, self.min_partitions, self.fails_on_data_loss)


def _offset(options: SourceOptions, name: str, default: str) -> str | Offset:
    text = options.text(name) or default
    return text.lower() if text.lower() in {"earliest", "latest"} else Offset.parse(name, text)
