"""The writers that Spark calls, on executors and on the driver, to enqueue the rows of a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast
from uuid import UUID, uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lonnymq.spark.connection import QueueAddress
from lonnymq.spark.sink.message_columns import Contents
from lonnymq.spark.sink.publish import Publisher, StagingLost, TaskResults
from lonnymq.spark.sink.staging import Staged, Stager
from lonnymq.spark.source_options import InvalidOption, SourceOptions

OPTIONS = ("channel", "complete", "contentType", "jobId", "onFull", "txnAppId", "txnVersion")
FAIL, DROP = "fail", "drop"
APP_MAX_BYTES = 200
"""The database allows 255 bytes, and for a stream the id of the query is appended."""

Messages = list[WriterCommitMessage | None]


class BatchWriter(DataSourceArrowWriter):
    """Publishes once per txnAppId and txnVersion. Without them, the job is an app with one version.

    `jobId` is a UUID for this job, by which `publication` finds out what it did. The default is random.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidOption("a queue cannot be overwritten", 'use mode("append")')
        options = SourceOptions(given, OPTIONS)
        app, version = _app(options), options.integer("txnVersion", at_least=0)
        if (app is None) is not (version is None):
            raise InvalidOption("only one of txnAppId and txnVersion is given", "give both, or neither")
        self._job = _job(options)
        self._app, self._version = app or str(self._job), version
        self._stager = _stager(options, schema)
        self._publisher = Publisher(self._stager.address, _drops_full(options))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return self._stager.stage(iterator)

    def commit(self, messages: Messages) -> None:
        self._publisher.publish(self._app, self._version, cast("TaskResults", messages), self._job)

    def abort(self, messages: Messages) -> None:
        self._publisher.abandon(cast("TaskResults", messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Spark makes a new one for every batch, without the id of the query; the tasks report that id."""

    def __init__(self, given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidOption(
                "a queue cannot be overwritten", 'use outputMode("append") or outputMode("update")'
            )
        options = SourceOptions(given, OPTIONS)
        for name in ("txnVersion", "jobId"):
            if name in options:
                raise InvalidOption(f"a stream takes no {name}", "leave it out: its batches have numbers")
        self._app = _app(options)
        self._stager = _stager(options, schema)
        self._publisher = Publisher(self._stager.address, _drops_full(options))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return self._stager.stage(iterator)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        results = cast("TaskResults", messages)
        query = next((staged.query for staged in results if staged is not None), None)
        if query is None and any(staged is not None and staged.rows for staged in results):
            raise StagingLost(
                "the tasks did not report which stream their rows belong to", "this is a bug: report it"
            )
        if query is not None:
            app = query if self._app is None else f"{self._app} {query}"
            self._publisher.publish(app, batchId, results)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: ARG002, N803
        self._publisher.abandon(cast("TaskResults", messages))


def _app(options: SourceOptions) -> str | None:
    app = options.text("txnAppId")
    if app is not None and not 1 <= len(app.encode()) <= APP_MAX_BYTES:
        raise InvalidOption(f"txnAppId is {len(app.encode())} bytes long", f"use 1 to {APP_MAX_BYTES} bytes")
    return app


def _job(options: SourceOptions) -> UUID:
    given = options.text("jobId")
    if given is None:
        return uuid4()
    try:
        return UUID(given)
    except ValueError as error:
        raise InvalidOption(f"jobId {given!r} is not a UUID", "leave it out: it is random then") from error


def _drops_full(options: SourceOptions) -> bool:
    is_dropping = options.choice("onFull", (FAIL, DROP), FAIL) == DROP
    if is_dropping and options.boolean("complete", default=False):
        raise InvalidOption(
            "onFull=drop cannot be used with complete: a message could be completed although its result was"
            " dropped",
            "leave out one of them",
        )
    return is_dropping


def _stager(options: SourceOptions, schema: StructType) -> Stager:
    contents = Contents.of(
        schema,
        channel=options.text("channel"),
        content_type=options.text("contentType"),
        completes=options.boolean("complete", default=False),
    )
    return Stager(QueueAddress.of(options.given), contents)
