"""Formats whose rows carry the transaction that wrote them: read once, or followed as a stream.

A stream's end is the present, or less where a trigger is limited; all rows of a transaction are in one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import psycopg
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from lonnymq.errors import InvalidArgument
from lonnymq.spark.connecting import Connecting
from lonnymq.spark.followed import Cursor, Followed, Present
from lonnymq.spark.offsets import Offset
from lonnymq.spark.options import InvalidOption, Options
from lonnymq.spark.pushing import Pushed
from lonnymq.spark.reading import Part, Reading
from lonnymq.spark.snapshots import EARLIEST, Snapshot

KNOWN = (
    "startingOffsets",
    "endingOffsets",
    "maxOffsetsPerTrigger",
    "minPartitions",
    "includeContent",
    "failOnDataLoss",
)
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Settings:
    """What a reader was told."""

    connecting: Connecting
    starting: str | Offset
    ending: str | Offset
    limit: int | None
    min_partitions: int
    is_with_content: bool
    fails_on_data_loss: bool

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        options = Options(given, KNOWN)
        return cls(
            Connecting.of(given),
            _place(options, "startingOffsets", "earliest"),
            _place(options, "endingOffsets", "latest"),
            options.integer("maxOffsetsPerTrigger"),
            options.integer("minPartitions", at_most=10_000) or 1,
            options.boolean("includeContent", default=True),
            options.boolean("failOnDataLoss", default=True),
        )

    def reading(self, followed: Followed) -> Reading:
        return Reading(followed, self.connecting, self.min_partitions, self.fails_on_data_loss)


def _place(options: Options, name: str, default: str) -> str | Offset:
    text = options.text(name) or default
    return text.lower() if text.lower() in {"earliest", "latest"} else Offset.parse(name, text)


def _found(place: str | Offset, present: Present) -> Offset:
    """A place that has a name is one of this cluster."""
    if isinstance(place, Offset):
        return place
    return Offset(EARLIEST if place == "earliest" else present.snapshot, present.system)


class FollowedSource(DataSource):
    def followed(self, schema: str, *, is_with_content: bool) -> Followed:
        raise NotImplementedError

    def schema(self) -> StructType:
        return self._described()[0].columns.schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        self._check(schema)
        return BatchReader(*self._described())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        self._check(schema)
        return StreamReader(*self._described())

    def _described(self) -> tuple[Followed, Settings]:
        settings = Settings.of(self.options)
        followed = self.followed(settings.connecting.schema, is_with_content=settings.is_with_content)
        return followed, settings

    def _check(self, schema: StructType) -> None:
        if schema.simpleString() != self.schema().simpleString():
            raise InvalidArgument(
                f"the columns of {self.name()} cannot be chosen by a schema",
                "leave the schema out, and select columns from what is read",
            )


class BatchReader(DataSourceReader):
    def __init__(self, followed: Followed, settings: Settings) -> None:
        if settings.limit is not None:
            raise InvalidOption("maxOffsetsPerTrigger is for streams", "a batch ends at endingOffsets")
        if settings.starting == "latest" or settings.ending == "earliest":
            raise InvalidOption(
                "a batch from latest on, or up to earliest, has no rows", "leave the option out"
            )
        self.followed = followed
        self.settings = settings
        self.pushed = Pushed(followed.texts, followed.times)

    @property
    def pushFilters(self) -> Pushed:  # noqa: N802
        return self.pushed

    def partitions(self) -> list[Part]:
        driver = Driver(self.settings.connecting)
        try:
            return driver.ask(self._parts)
        finally:
            driver.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reading().rows(partition)

    def _parts(self, cursor: Cursor) -> list[Part]:
        reading, present = self._reading(), self.followed.present(cursor)
        start, end = _found(self.settings.starting, present), _found(self.settings.ending, present)
        reading.check_range(start, end, present)
        return reading.parts(cursor, start, end, present)

    def _reading(self) -> Reading:
        return self.settings.reading(replace(self.followed, conditions=tuple(self.pushed.conditions)))


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, followed: Followed, settings: Settings) -> None:
        if settings.ending != "latest":
            raise InvalidOption("endingOffsets is for batches", "a stream has no end")
        self.followed = followed
        self.settings = settings
        self.reading = settings.reading(followed)
        self.driver = Driver(settings.connecting)
        self.target: Snapshot | None = None
        self.latest: Offset | None = None
        self.searched: tuple[Snapshot, Snapshot] | None = None
        """Between these there is nothing: an idle stream does not look through it again."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        present = self._present()
        start = _found(self.settings.starting, present)
        self.reading.check(start, present)
        return start.kept()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.target = self._present().snapshot

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.settings.limit is None else ReadMaxRows(self.settings.limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The start where nothing is new: transactions that wrote no such row make no batch."""
        begin, present = Offset.of(start), self._present()
        self.reading.check(begin, present)
        self.reading.check_kept(begin, present)
        end = self._end(begin.snapshot, self.target or present.snapshot, limit)
        if end is None:
            return start
        found = Offset(end, present.system)
        self.reading.check_range(begin, found, present)
        return found.kept()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self.latest is None else self.latest.kept()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Part]:
        begin, behind, present = Offset.of(start), Offset.of(end), self._present()
        self.reading.check_range(begin, behind, present)
        return self.driver.ask(lambda cursor: self.reading.parts(cursor, begin, behind, present))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.reading.rows(partition)

    def stop(self) -> None:
        self.driver.close()

    def _present(self) -> Present:
        present = self.driver.ask(self.followed.present)
        self.latest = Offset(present.snapshot, present.system)
        return present

    def _end(self, start: Snapshot, target: Snapshot, limit: ReadLimit) -> Snapshot | None:
        since = self.searched[1] if self.searched is not None and self.searched[0] == start else start
        if not self.driver.ask(lambda cursor: self.followed.has_rows(cursor, since, target)):
            self.searched = (start, target)
            return None
        if not isinstance(limit, ReadMaxRows):
            return target
        return self.driver.ask(lambda cursor: self.reading.limited(cursor, start, target, limit.max_rows))


class Driver:
    """The driver's connection, opened when it is needed, and anew when it broke: it only reads."""

    def __init__(self, connecting: Connecting) -> None:
        self.connecting = connecting
        self.connection: psycopg.Connection[Any] | None = None

    def ask(self, question: Callable[[Cursor], Answer]) -> Answer:
        try:
            if self.connection is not None:
                try:
                    return self._asked(self.connection, question)
                except psycopg.OperationalError:
                    if not self.connection.closed:
                        raise
            return self._asked(self._opened(), question)
        except psycopg.Error as error:
            self.connecting.refuse(error, "the queue's views")

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _opened(self) -> psycopg.Connection[Any]:
        self.connection = self.connecting.connect()
        with self.connection.cursor() as cursor:
            Followed.prepare(cursor)
        return self.connection

    @staticmethod
    def _asked(connection: psycopg.Connection[Any], question: Callable[[Cursor], Answer]) -> Answer:
        with connection.cursor() as cursor:
            return question(cursor)
