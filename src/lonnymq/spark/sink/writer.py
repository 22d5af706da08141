"""What Spark calls, on executors and on the driver, to enqueue a DataFrame's rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lonnymq.spark.connection import Connecting
from lonnymq.spark.sink.message_columns import Contents
from lonnymq.spark.sink.publish import Answers, Publisher, StagingLost
from lonnymq.spark.sink.staging import Staged, Stager
from lonnymq.spark.source_options import InvalidOption, Options

OPTIONS = ("channel", "complete", "contentType", "onFull", "txnAppId", "txnVersion")
FAIL, DROP = "fail", "drop"
APP_MAX_BYTES = 200
"""The ledger takes 255, and a stream's query is named there too."""

Messages = list[WriterCommitMessage | None]


class BatchWriter(DataSourceArrowWriter):
    """Without a txnAppId, a job is an app of its own: what it publishes, it publishes once."""

    def __init__(self, given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidOption("a queue is not overwritten", 'use mode("append")')
        options = Options(given, OPTIONS)
        app, version = _app(options), options.integer("txnVersion", at_least=0)
        if (app is None) is not (version is None):
            raise InvalidOption("txnAppId and txnVersion go together", "give both, or neither")
        self._app, self._version = app or str(uuid4()), version
        self._stager = _stager(options, schema)
        self._publisher = Publisher(self._stager.connecting, _drops_full(options))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return self._stager.stage(iterator)

    def commit(self, messages: Messages) -> None:
        self._publisher.publish(self._app, self._version, cast("Answers", messages))

    def abort(self, messages: Messages) -> None:
        self._publisher.abandon(cast("Answers", messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Made anew for every batch, and again on the driver: which query it is, tasks tell."""

    def __init__(self, given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidOption("a queue is not overwritten", 'use outputMode("append") or ("update")')
        options = Options(given, OPTIONS)
        if "txnVersion" in options:
            raise InvalidOption("a stream has no txnVersion", "its batches are numbered already")
        self._app = _app(options)
        self._stager = _stager(options, schema)
        self._publisher = Publisher(self._stager.connecting, _drops_full(options))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return self._stager.stage(iterator)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        answers = cast("Answers", messages)
        query = next((answer.query for answer in answers if answer is not None), None)
        if query is None and any(answer is not None and answer.rows for answer in answers):
            raise StagingLost(
                "the tasks did not say which stream their rows are of", "this is a bug: report it"
            )
        if query is not None:
            app = query if self._app is None else f"{self._app} {query}"
            self._publisher.publish(app, batchId, answers)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: ARG002, N803
        self._publisher.abandon(cast("Answers", messages))


def _app(options: Options) -> str | None:
    app = options.text("txnAppId")
    if app is not None and not 1 <= len(app.encode()) <= APP_MAX_BYTES:
        raise InvalidOption(f"txnAppId is {len(app.encode())} bytes long", f"it may be 1 to {APP_MAX_BYTES}")
    return app


def _drops_full(options: Options) -> bool:
    is_dropping = options.choice("onFull", (FAIL, DROP), FAIL) == DROP
    if is_dropping and options.boolean("complete", default=False):
        raise InvalidOption(
            "onFull=drop and complete do not go together: a message would be completed, and not arrive",
            "leave out one of them",
        )
    return is_dropping


def _stager(options: Options, schema: StructType) -> Stager:
    contents = Contents.of(
        schema,
        channel=options.text("channel"),
        content_type=options.text("contentType"),
        completes=options.boolean("complete", default=False),
    )
    return Stager(Connecting.of(options.given), contents)
