"""What executors do to write: copy rows into `staging`, and tell the driver under which batch.

Each attempt at a task has a batch of its own. Attempts that are killed, repeated or doubled leave batches
that nobody publishes, and that are cleaned away when they are a day old.
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
from lonnymq.errors import ConnectionDropped, DatabaseUnreachable, LonnyMQError, RetryTransaction
from lonnymq.install.roles import STAGING
from lonnymq.spark.connection import Connecting
from lonnymq.spark.sink.message_columns import Claim, Contents
from lonnymq.spark.sink.row_batch import RowRefused

QUERY_ID = "sql.streaming.queryId"
PASSING = (ConnectionDropped, DatabaseUnreachable, RetryTransaction)
"""What may go well the next time."""


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What an attempt at a task tells the driver."""

    query: str | None = None
    batch: UUID | None = None
    rows: int = 0
    claims: frozenset[Claim] = frozenset()
    refusal: LonnyMQError | None = None
    """Told, not raised: a task that fails is tried again, and this would not go well."""


@dataclass(frozen=True)
class Stager:
    connecting: Connecting
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
            return self._copied(query, rows, batches)
        except PASSING:
            raise
        except LonnyMQError as error:
            return Staged(query, refusal=error)

    def _copied(self, query: str | None, first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Staged:
        batch = uuid4()
        with self.connecting.connect() as connection:
            limit = run(connection, self.connecting.schema, QueueGet()).content_max_bytes
            staged = self.contents.staged(first, batch, 0, limit)
            encoder = ArrowToPostgresBinaryEncoder(staged.schema)
            try:
                with connection.cursor() as cursor, cursor.copy(self._copy(staged.schema.names)) as copy:
                    copy.write(encoder.write_header())
                    copy.write(encoder.write_batch(staged))
                    claims = self.contents.claims(first, 0)
                    number = len(first)
                    for rows in others:
                        copy.write(encoder.write_batch(self.contents.staged(rows, batch, number, limit)))
                        claims |= self.contents.claims(rows, number)
                        number += len(rows)
                    copy.write(encoder.finish())
            except psycopg.DataError as error:
                raise RowRefused(error.diag.message_primary or "PostgreSQL refused a row") from error
            except psycopg.Error as error:
                self.connecting.refuse(error, STAGING)
        return Staged(query, batch, number, frozenset(claims))

    def _copy(self, columns: Sequence[str]) -> sql.Composed:
        return sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
            sql.Identifier(self.connecting.schema, STAGING),
            sql.SQL(", ").join(map(sql.Identifier, columns)),
        )
