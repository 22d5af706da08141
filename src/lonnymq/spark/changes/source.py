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
from lonnymq.spark.changes.filters import Pushed
from lonnymq.spark.changes.offsets import Offset
from lonnymq.spark.changes.reader import Part, Reading
from lonnymq.spark.changes.snapshots import EARLIEST, Snapshot
from lonnymq.spark.changes.view import Cursor, Followed, Present
from lonnymq.spark.connection import Connecting
from lonnymq.spark.source_options import InvalidOption, Options

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
        start, end = self.settings.starting, self.settings.ending
        if not isinstance(start, Offset):
            start = Offset(EARLIEST, present.system)
        if not isinstance(end, Offset):
            end = reading.marked(cursor, present.snapshot, present.system)
        reading.check_range(cursor, start, end, present)
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
        return self.driver.ask(self._initial).kept()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.target = self.driver.ask(self._present).snapshot

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.settings.limit is None else ReadMaxRows(self.settings.limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The start where nothing is new: transactions that wrote no such row make no batch."""
        begin = Offset.of(start)
        end = self.driver.ask(lambda cursor: self._end(cursor, begin, limit))
        return start if end is None else end.kept()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self.latest is None else self.latest.kept()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Part]:
        begin, behind = Offset.of(start), Offset.of(end)
        return self.driver.ask(lambda cursor: self._parts(cursor, begin, behind))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.reading.rows(partition)

    def stop(self) -> None:
        self.driver.close()

    # Each of these asks all that it asks on one connection, so that a database that takes the place of
    # another between two questions is found out.

    def _present(self, cursor: Cursor) -> Present:
        present = self.followed.present(cursor)
        self.latest = Offset(present.snapshot, present.system)
        return present

    def _initial(self, cursor: Cursor) -> Offset:
        present, place = self._present(cursor), self.settings.starting
        if isinstance(place, Offset):
            self.reading.check(cursor, place, present)
            return place
        earliest = Offset(EARLIEST, present.system)
        if place == "earliest" or not self.followed.has_rows(cursor, EARLIEST, present.snapshot):
            return earliest
        return self.reading.end(cursor, earliest, present.snapshot, None)

    def _end(self, cursor: Cursor, start: Offset, limit: ReadLimit) -> Offset | None:
        present = self._present(cursor)
        self._check_start(cursor, start, present)
        self.reading.check_kept(start, present)
        target, begin = self.target or present.snapshot, start.snapshot
        since = self.searched[1] if self.searched is not None and self.searched[0] == begin else begin
        if not self.followed.has_rows(cursor, since, target):
            self.searched = (begin, target)
            return None
        end = self.reading.end(
            cursor, start, target, limit.max_rows if isinstance(limit, ReadMaxRows) else None
        )
        self.reading.check_range(cursor, start, end, present)
        return end

    def _parts(self, cursor: Cursor, start: Offset, end: Offset) -> list[Part]:
        present = self._present(cursor)
        self.reading.check_range(cursor, start, end, present)
        return self.reading.parts(cursor, start, end, present)

    def _check_start(self, cursor: Cursor, start: Offset, present: Present) -> None:
        """An idle stream asks a hundred times a second, and a connection leads to one database."""
        if self.driver.checked != start:
            self.reading.check(cursor, start, present)
            self.driver.checked = start
        self.reading.check_present(start, present)


class Driver:
    """The driver's connection, opened when it is needed, and anew when it broke: it only reads."""

    def __init__(self, connecting: Connecting) -> None:
        self.connecting = connecting
        self.connection: psycopg.Connection[Any] | None = None
        self.checked: Offset | None = None
        """A position that was found to be of this database's past, on this connection."""

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
        self.connection, self.checked = self.connecting.connect(), None
        with self.connection.cursor() as cursor:
            Followed.prepare(cursor)
        return self.connection

    @staticmethod
    def _asked(connection: psycopg.Connection[Any], question: Callable[[Cursor], Answer]) -> Answer:
        with connection.cursor() as cursor:
            return question(cursor)
