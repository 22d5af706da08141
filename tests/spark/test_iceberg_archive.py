"""The archive in Iceberg tables, and what both formats share: followers, and executors without room."""

import contextlib
import os
import resource
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import psycopg
import pytest
from pyiceberg.table import Transaction
from pyspark.sql import SparkSession

from lonnymq.spark.lake.archive import archive
from lonnymq.spark.lake.find_lake import open_lake
from lonnymq.spark.lake.iceberg_table import IcebergLake, IcebergLakeTable
from lonnymq.spark.lake.identity import former_follower
from lonnymq.spark.lake.lake_table import LakeConflict, LakeNotWritable, TableOptions
from lonnymq.spark.lake.maintain_lake import optimize
from lonnymq.spark.lake.read_lake import read
from tests.spark.outside_faults import ancestors, command, processes
from tests.spark.test_archive import comparable, followers, in_postgresql
from tests.spark.traffic import finish, kill

OPENED = IcebergLake.open


@pytest.fixture(autouse=True)
def history(conn: psycopg.Connection) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE, p_history_content => TRUE)")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "my lake")


def table_of(folder: str, name: str = "history") -> Any:
    with open_lake(folder) as lake:
        return lake.table(name).table  # type: ignore[attr-defined]


def ids(folder: str, name: str = "history") -> list[int]:
    return sorted(table_of(folder, name).scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())


def straight(spark: SparkSession, options: dict[str, str]) -> list[list[tuple[str, Any]]]:
    """The history in PostgreSQL, in the order of its ids."""
    rows = spark.read.format("lonnymq_history").options(**options, headersFormat="json").load()
    return comparable(rows.orderBy("id").toArrow().to_pylist())


def test_every_engine_reads_the_same_rows(
    spark: SparkSession,
    conn: psycopg.Connection,
    options: dict[str, str],
    folder: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    conn.execute("SELECT message_create('zoë 🦉', '', p_headers => '{\"who\": \"ö\"}', p_dequeue_at => -7)")
    kept = finish(conn, "acme", [b"x", bytes(range(256))])
    conn.execute("UPDATE finished SET finished_at = finished_at - 86400000 WHERE id = %s", (kept[0],))
    dead = kill(conn, "acme", [b"y"])
    done = archive(spark, folder, options, table_format="iceberg").tables
    assert (done["history"].rows, done["dead"].rows) == (4, 1)
    expected = straight(spark, options)
    for is_optimized in (False, True):
        if is_optimized:
            finish(conn, "acme", [b"z"])
            assert archive(spark, folder, options).tables["history"].rows == 1  # it knows its format
            optimize(folder)
            expected = straight(spark, options)
        table = table_of(folder)
        with_spark = read(spark, folder, "history").drop("day").orderBy("id").toArrow().to_pylist()
        with_polars = pl.scan_iceberg(table).sort("id").collect().to_arrow().to_pylist()
        # pyiceberg's own `to_duckdb` makes an empty list of a list that is null.
        files = [task.file.file_path for task in table.scan().plan_files()]
        with_duckdb = duckdb.read_parquet(files, hive_partitioning=False).order("id").to_arrow_table()
        assert comparable(with_spark) == expected
        assert comparable(with_polars) == expected
        assert comparable(with_duckdb.to_pylist()) == expected
    assert (ids(folder), ids(folder, "dead")) == (in_postgresql(conn), dead)
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    some = read(spark, folder, "history", since=midnight - timedelta(days=1), until=midnight)
    assert ([row.id for row in some.collect()], len(some.inputFiles())) == ([kept[0]], 1)
    [row] = some.select("day").distinct().collect()
    assert row.day == (midnight - timedelta(days=1)).date()


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_archive_that_is_stopped_at_its_commit(
    spark: SparkSession,
    conn: psycopg.Connection,
    options: dict[str, str],
    folder: str,
    monkeypatch: pytest.MonkeyPatch,
    when: str,
) -> None:
    finish(conn, "acme", [b"x"] * 3)
    archive(spark, folder, options, tables=["history"], table_format="iceberg")
    finish(conn, "acme", [b"y"] * 3)
    commit = Transaction.commit_transaction

    def stopping(change: Transaction) -> None:
        if when == "after":
            commit(change)
        raise KeyboardInterrupt

    monkeypatch.setattr(Transaction, "commit_transaction", stopping)
    with pytest.raises(KeyboardInterrupt):
        archive(spark, folder, options, tables=["history"])
    monkeypatch.undo()
    assert len(list(Path(folder, "history").glob("day=*/*.parquet"))) == 2
    assert len(ids(folder)) == (6 if when == "after" else 3)
    finish(conn, "acme", [b"z"])
    archive(spark, folder, options, tables=["history"])
    assert ids(folder) == in_postgresql(conn)


def test_two_archives_at_once_write_nothing_twice(
    spark: SparkSession,
    conn: psycopg.Connection,
    options: dict[str, str],
    folder: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finish(conn, "acme", [b"x"] * 3)

    def overtaken(lake: IcebergLake, table: TableOptions) -> IcebergLakeTable:
        found = OPENED(lake, table)
        monkeypatch.undo()
        archive(spark, folder, options, tables=["history"], table_format="iceberg")
        return found

    monkeypatch.setattr(IcebergLake, "open", overtaken)
    with pytest.raises(LakeConflict, match="another archive has committed"):
        archive(spark, folder, options, tables=["history"], table_format="iceberg")
    assert ids(folder) == in_postgresql(conn)


def test_the_follower_of_a_lake_that_is_moved(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], tmp_path: Path
) -> None:
    """And the one that an older version registered, with the folder in its name, is forgotten."""
    older = former_follower(f"{tmp_path}/lake/history")
    conn.execute("SELECT history_follow(%s, '3:3:')", (older,))
    finish(conn, "acme", [b"x"])
    first = archive(spark, str(tmp_path / "lake"), options, tables=["history"]).tables["history"]
    assert [name for name, _ in followers(conn)] == [first.follower]
    (tmp_path / "lake").rename(tmp_path / "moved")
    finish(conn, "acme", [b"y"])
    second = archive(spark, str(tmp_path / "moved"), options, tables=["history"]).tables["history"]
    assert (second.rows, second.follower) == (1, first.follower)
    assert [name for name, _ in followers(conn)] == [first.follower]


@contextlib.contextmanager
def limited_files() -> Iterator[None]:
    """Limit the size of files that Spark's Python processes write: writing fails as on a full disk."""
    workers = [
        one for one in processes() if os.getpid() in ancestors(one) and "pyspark.daemon" in command(one)
    ]
    assert workers
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    for soft in (100, unlimited[0]):
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(worker, resource.RLIMIT_FSIZE, (soft, unlimited[1]))
        if soft == 100:
            yield


@pytest.mark.parametrize("table_format", ["delta", pytest.param("iceberg", marks=pytest.mark.long)])
def test_executors_have_no_room(
    spark: SparkSession,
    conn: psycopg.Connection,
    options: dict[str, str],
    folder: str,
    table_format: str,
) -> None:
    finish(conn, "acme", [b"x"])
    archive(spark, folder, options, tables=["history"], table_format=table_format)
    more = finish(conn, "acme", [b"y"])
    with (
        limited_files(),
        pytest.raises(LakeNotWritable, match="File too large; nothing was committed") as refused,
    ):
        archive(spark, folder, options, tables=["history"])
    assert "\n" not in str(refused.value)
    assert archive(spark, folder, options, tables=["history"]).tables["history"].rows == 1
    assert read(spark, folder, "history").where(f"id = {more[0]}").count() == 1
