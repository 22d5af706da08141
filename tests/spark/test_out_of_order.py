"""Transactions do not commit in the order of their ids. Streams by snapshot lose no row nevertheless."""

from pathlib import Path

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.database import Connect
from tests.spark.change_rows import Row, finish, run


class IdCursor:
    """The common, wrong way to read new rows: those after the last id."""

    def __init__(self, conn: psycopg.Connection) -> None:
        self.conn = conn
        self.last = 0

    def read(self) -> list[int]:
        rows = self.conn.execute("SELECT id FROM history WHERE id > %s ORDER BY id", (self.last,)).fetchall()
        self.last = max([self.last, *(row[0] for row in rows)])
        return [row[0] for row in rows]


def history(spark: SparkSession, options: dict[str, str], **more: str) -> DataFrame:
    return spark.readStream.format("lonnymq_history").options(**options).options(**more).load()


def ids(batches: list[list[Row]]) -> list[int]:
    return [row[1] for rows in batches for row in rows]


def test_a_row_that_commits_late_is_not_lost(
    spark: SparkSession, options: dict[str, str], conn: psycopg.Connection, connect: Connect, tmp_path: Path
) -> None:
    by_id = IdCursor(conn)
    slow = connect(autocommit=False)
    finish(slow, 1)
    finish(conn, 2)
    found = ids(run(history(spark, options), tmp_path))
    lossy = by_id.read()
    assert (found, lossy) == ([2], [2])
    slow.commit()
    finish(conn, 3)
    found += ids(run(history(spark, options), tmp_path))
    lossy += by_id.read()
    assert sorted(found) == [1, 2, 3]
    assert lossy == [2, 3]


@pytest.mark.long  # the test before leaves one open over one batch, and test_change_readers.py over several
def test_a_transaction_left_open_over_many_batches(
    spark: SparkSession, options: dict[str, str], conn: psycopg.Connection, connect: Connect, tmp_path: Path
) -> None:
    """The stream does not wait for it, and gets its rows when it commits."""
    slow = connect(autocommit=False)
    finish(slow, 1, 5)
    seen: list[int] = []
    for one in (11, 12, 13):
        finish(conn, one)
        finish(conn, one * 10)
        batches = run(history(spark, options, maxOffsetsPerTrigger="1"), tmp_path)
        assert len(batches) == 2
        seen += ids(batches)
    finish(slow, 6)
    assert sorted(seen) == [11, 12, 13, 110, 120, 130]
    assert run(history(spark, options), tmp_path) == []
    slow.commit()
    finish(conn, 14)
    batches = run(history(spark, options, maxOffsetsPerTrigger="1"), tmp_path)
    assert [sorted(ids([rows])) for rows in batches] == [[1, 2, 3, 4, 5, 6], [14]]


def test_rolled_back_rows_never_come(
    spark: SparkSession, options: dict[str, str], conn: psycopg.Connection, connect: Connect, tmp_path: Path
) -> None:
    gone, partly = connect(autocommit=False), connect(autocommit=False)
    finish(gone, 1)
    finish(partly, 2)
    partly.execute("SAVEPOINT here")
    finish(partly, 3)
    partly.execute("ROLLBACK TO here")
    finish(partly, 4)
    finish(conn, 5)
    assert ids(run(history(spark, options), tmp_path)) == [5]
    gone.rollback()
    partly.commit()
    assert sorted(ids(run(history(spark, options), tmp_path))) == [2, 4]


def test_a_prepared_transaction_comes_when_it_is_committed(
    spark: SparkSession, options: dict[str, str], conn: psycopg.Connection, connect: Connect, tmp_path: Path
) -> None:
    two_phase = connect(autocommit=False)
    name = f"{conn.info.dbname} two-phase"
    finish(two_phase, 1)
    two_phase.execute(f"PREPARE TRANSACTION '{name}'".encode())
    finish(conn, 2)
    assert ids(run(history(spark, options), tmp_path)) == [2]
    conn.execute(f"COMMIT PREPARED '{name}'".encode())
    assert ids(run(history(spark, options), tmp_path)) == [1]
