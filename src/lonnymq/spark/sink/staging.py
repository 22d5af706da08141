"""The executors' side of a write: copy rows into `staging_chunk`, and report the batch to the driver.

Every attempt of a task has its own batch. An attempt that is killed, repeated or run twice leaves a batch
that nobody publishes, and that is deleted when it is a day old.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

import psycopg
import pyarrow as pa
from pgpq import ArrowToPostgresBinaryEncoder
from psycopg import sql
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from lonnymq.adapters.psycopg import run
from lonnymq.commands import QueueGet
from lonnymq.errors import LonnyMQError
from lonnymq.install.roles import STAGING_CHUNK
from lonnymq.spark.connection import QueueAddress
from lonnymq.spark.sink.chunks import as_chunk, chunks
from lonnymq.spark.sink.message_columns import ConsumerClaim, Contents, FailedMessage
from lonnymq.spark.sink.row_batch import RowRefused
from lonnymq.spark.transient_errors import TRANSIENT_ERRORS

QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """The result that an attempt of a task sends to the driver."""

    query: str | None = None
    batch: UUID | None = None
    rows: int = 0
    claims: frozenset[ConsumerClaim] = frozenset()
    failed: tuple[FailedMessage, ...] = ()
    refusal: LonnyMQError | None = None
    """Sent, not raised: Spark would retry a failed task, and this error would come again."""


@dataclass(frozen=True)
class Stager:
    address: QueueAddress
    contents: Contents

    def stage(self, batches: Iterator[pa.RecordBatch]) -> Staged:
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY_ID)
        rows = next(batches, None)
        while rows is not None and not len(rows):
            rows = next(batches, None)
        if rows is None:
            return Staged(query)
        try:
            return self._copy(query, rows, batches)
        except TRANSIENT_ERRORS:
            raise
        except LonnyMQError as error:
            return Staged(query, refusal=error)

    def _copy(self, query: str | None, first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Staged:
        batch = uuid4()
        with self.address.connect() as connection:
            limit = run(connection, self.address.schema, QueueGet()).content_max_bytes
            claims = self.contents.claims(first, 0)
            kept, positions, failed = self.contents.failures(first, 0)
            staged = self.contents.staged(kept, 0, limit, positions)
            schema = as_chunk(staged, batch, 0).schema
            encoder = ArrowToPostgresBinaryEncoder(schema)
            try:
                with connection.cursor() as cursor, cursor.copy(self._copy_statement(schema.names)) as copy:
                    copy.write(encoder.write_header())
                    for chunk in chunks(staged, batch, 0):
                        copy.write(encoder.write_batch(chunk))
                    read, written = len(first), len(kept)
                    for rows in others:
                        claims |= self.contents.claims(rows, read)
                        kept, positions, more = self.contents.failures(rows, read)
                        failed += more
                        staged = self.contents.staged(kept, read, limit, positions)
                        for chunk in chunks(staged, batch, read):
                            copy.write(encoder.write_batch(chunk))
                        read += len(rows)
                        written += len(kept)
                    copy.write(encoder.finish())
            except psycopg.DataError as error:
                raise RowRefused(error.diag.message_primary or "PostgreSQL refused a row") from error
            except psycopg.Error as error:
                self.address.refuse(error, STAGING_CHUNK)
        return Staged(query, batch, written, frozenset(claims), tuple(failed))

    def _copy_statement(self, columns: Sequence[str]) -> sql.Composed:
        return sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
            sql.Identifier(self.address.schema, STAGING_CHUNK),
            sql.SQL(", ").join(map(sql.Identifier, columns)),
        )
