"""The driver is killed, its commit fails, or the database restarts: the next run has every row once."""

import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lonnymq.embedded import Server
from lonnymq.embedded.server import StopMode
from lonnymq.errors import ConnectionDropped, DatabaseUnreachable
from lonnymq.install import install
from lonnymq.spark.lake.archive import archive
from lonnymq.spark.sink.publish import StagingLost
from lonnymq.spark.unwrap_errors import unwrap_spark_errors
from tests.database import create_database
from tests.faults.clusters import cluster, connect
from tests.spark import quick_java
from tests.spark.conftest import SCHEMA, Services
from tests.spark.driver_process import Driver, stream, write
from tests.spark.outside_faults import (
    COMMITTED,
    COPIED,
    Gate,
    enqueued,
    in_the_lake,
    kill,
    staged,
    until,
    waiting_sessions,
)
from tests.spark.traffic import finish

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

ROWS = 100
EVERY_NUMBER = sorted(map(str, range(ROWS)))
LOCAL = {"master": "local[2]", "spark.driver.memory": "512m", **quick_java.INTERPRETED}
ONCE = {"txnAppId": "numbers", "txnVersion": "1"}


@pytest.fixture
def lines(tmp_path: Path) -> list[str]:
    """Lines in files that a stream reads, one file per batch."""
    folder = tmp_path / "lines"
    folder.mkdir()
    for file in "ab":
        (folder / f"{file}.txt").write_text(f"{file}1\n{file}2\n", encoding="utf-8")
    return ["a1", "a2", "b1", "b2"]


def logged(checkpoint: Path, log: str) -> list[str]:
    """The batches in a log of Spark's checkpoint."""
    return sorted(file.name for file in (checkpoint / log).glob("[0-9]*"))


@pytest.mark.long  # the next test kills the commit only, and test_consuming_faults.py a driver
@pytest.mark.parametrize("is_killed_before", [False, True])
def test_a_stream_whose_driver_is_killed(
    spark: SparkSession,
    conn: psycopg.Connection,
    gate: Gate,
    gate_options: dict[str, str],
    options: dict[str, str],
    tmp_path: Path,
    lines: list[str],
    is_killed_before: bool,
) -> None:
    """After Spark's commit, when the next batch is staged. Before that, maybe, another driver between
    PostgreSQL's commit and Spark's; the next test kills only the commit there.
    """
    checkpoint = tmp_path / "checkpoint"
    folders = {"folder": str(tmp_path / "lines"), "checkpoint": str(checkpoint)}
    if is_killed_before:
        with Driver(**LOCAL) as driver:
            gate.hold(COMMITTED)
            gate.held(driver.call("stream", options=gate_options, **folders))
            assert (len(enqueued(conn)), staged(conn)) == (2, [])
            assert (logged(checkpoint, "offsets"), logged(checkpoint, "commits")) == (["0"], [])
            driver.kill()
    with Driver(**LOCAL) as driver:
        gate.hold(COPIED, after=1)
        gate.held(driver.call("stream", options=gate_options, **folders))
        assert (len(enqueued(conn)), staged(conn)) == (2, [2])
        assert (logged(checkpoint, "offsets"), logged(checkpoint, "commits")) == (["0", "1"], ["0"])
        driver.kill()
    stream(spark, options, **folders)
    assert enqueued(conn) == lines
    assert logged(checkpoint, "commits") == ["0", "1"]


def test_the_commit_of_a_stream_dies_after_it_committed(
    spark: SparkSession,
    conn: psycopg.Connection,
    gate: Gate,
    gate_options: dict[str, str],
    tmp_path: Path,
    lines: list[str],
) -> None:
    folder, checkpoint = str(tmp_path / "lines"), str(tmp_path / "checkpoint")
    gate.hold(COMMITTED)
    with gate.running(stream, spark, gate_options, folder, checkpoint) as streaming:
        [held] = gate.held(streaming)
        kill(held.process)
        with pytest.raises(PySparkException):
            streaming.result()
    assert len(enqueued(conn)) == 2
    stream(spark, gate_options, folder, checkpoint)
    assert enqueued(conn) == lines


def test_the_commit_of_a_write_dies_after_it_committed(
    spark: SparkSession, conn: psycopg.Connection, gate: Gate, gate_options: dict[str, str]
) -> None:
    gate.hold(COMMITTED)
    with gate.running(write, spark, gate_options | ONCE, ROWS, 2) as writing:
        [held] = gate.held(writing)
        kill(held.process)
        with pytest.raises(Exception, match="EOFException"):
            writing.result()
    assert enqueued(conn) == EVERY_NUMBER
    write(spark, gate_options | ONCE, ROWS, 2)
    assert (enqueued(conn), staged(conn)) == (EVERY_NUMBER, [])


@pytest.mark.long  # the next test ends the archive but not the driver; test_archive.py, before the commit
@pytest.mark.parametrize("stops", [["after"], ["before", "after"]])
def test_an_archive_whose_driver_is_killed(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], tmp_path: Path, stops: list[str]
) -> None:
    """Maybe when the files are written but not committed, and in any case right after the commit."""
    conn.execute("SELECT queue_set(p_history => TRUE)")
    ids = finish(conn, "acme", [b"x"] * ROWS)
    lake = str(tmp_path / "lake")
    for when in stops:
        with Driver(**LOCAL) as driver:
            stopped = tmp_path / when
            driver.call("archive_and_stop", options=options, lake=lake, stop=f"{when} {stopped}")
            until(stopped.exists, f"the archive to stop {when} its commit")
            driver.kill()
        assert list(Path(lake, "history").glob("day=*/*.parquet"))
        assert in_the_lake(lake) == (ids if when == "after" else [])
    more = finish(conn, "acme", [b"y"])
    archive(spark, lake, options, tables=["history"])
    assert in_the_lake(lake) == ids + more


def test_an_archive_that_ends_after_its_commit(
    spark: SparkSession,
    conn: psycopg.Connection,
    options: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE)")
    ids = finish(conn, "acme", [b"x"] * ROWS)
    lake = str(tmp_path / "lake")
    commit = DeltaTable.create_write_transaction

    def ending(*arguments: Any, **keywords: Any) -> None:
        commit(*arguments, **keywords)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", ending)
        with pytest.raises(KeyboardInterrupt):
            archive(spark, lake, options, tables=["history"])
    assert in_the_lake(lake) == ids
    more = finish(conn, "acme", [b"y"])
    archive(spark, lake, options, tables=["history"])
    assert in_the_lake(lake) == ids + more


def test_a_python_worker_is_killed_while_it_archives(
    spark: SparkSession, conn: psycopg.Connection, gate: Gate, gate_options: dict[str, str], tmp_path: Path
) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE)")
    ids = finish(conn, "acme", [b"x"] * ROWS)
    gate.hold(COPIED)
    with gate.running(archive, spark, str(tmp_path), gate_options) as archiving:
        [held] = gate.held(archiving)
        kill(held.process)
        archiving.result()
    assert in_the_lake(str(tmp_path)) == ids


@pytest.fixture(scope="module")
def restartable_server(pytestconfig: pytest.Config) -> Iterator[Server]:
    """A server that tests may stop, unlike the one that all tests share."""
    with cluster(pytestconfig.getoption("--pg")) as running:
        create_database(running, "template")
        with connect(running, "template") as conn:
            install(conn, schema=SCHEMA)
        yield running


class RestartableDatabase:
    """A database on that server, behind a gate."""

    def __init__(self, server: Server, gate: Gate, name: str, options: dict[str, str]) -> None:
        self.server, self.gate, self.name, self.options = server, gate, name, options

    def connect(self) -> psycopg.Connection:
        return connect(self.server, self.name)

    def stop(self, mode: StopMode = "immediate") -> None:
        self.server.stop(mode)

    def start(self) -> None:
        self.server.start()
        self.gate.forward_to(self.server.dsn(self.name))

    @contextmanager
    def locked(self, table: str) -> Iterator[psycopg.Connection]:
        """Lock a table until the server stops. Yields another connection, to watch who waits."""
        with closing(self.connect()) as holder, closing(self.connect()) as conn:
            holder.execute(f"BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
            yield conn


@pytest.fixture
def database(restartable_server: Server, services: Services) -> Iterator[RestartableDatabase]:
    name = f"queue_{secrets.token_hex(4)}"
    create_database(restartable_server, name, "template")
    with Gate(restartable_server.dsn(name)) as gate:
        options = {"service": services.add(gate.dsn, name), "schema": SCHEMA}
        yield RestartableDatabase(restartable_server, gate, name, options)
    restartable_server.start()  # for the next test, if this one left it down


def test_the_database_restarts_while_rows_are_staged(
    spark: SparkSession, database: RestartableDatabase
) -> None:
    with database.gate.running(write, spark, database.options | ONCE, ROWS, 2) as writing:
        with database.locked("staging_chunk") as conn:
            until(lambda: writing.done() or waiting_sessions(conn, "COPY"), "rows to be copied")
            database.stop()
        with pytest.raises(DatabaseUnreachable), unwrap_spark_errors():
            writing.result()
    database.start()
    with closing(database.connect()) as conn:
        assert enqueued(conn) == []
        write(spark, database.options | ONCE, ROWS, 2)
        # A task of the failed write may still stage rows, but nobody publishes them.
        assert enqueued(conn) == EVERY_NUMBER


@pytest.mark.parametrize("is_crash", [False, True], ids=["restart", "crash"])
def test_the_database_restarts_while_rows_are_published(
    spark: SparkSession, database: RestartableDatabase, *, is_crash: bool
) -> None:
    """The driver waits for the database, and then publishes. A crash empties `staging_chunk`."""
    with database.gate.running(write, spark, database.options | ONCE, ROWS, 2) as writing:
        with database.locked("message") as conn:
            until(lambda: writing.done() or waiting_sessions(conn, "staging_publish_once"), "publishing")
            database.stop("immediate" if is_crash else "fast")
        database.start()
        if is_crash:
            with pytest.raises(StagingLost, match="run it again"), unwrap_spark_errors():
                writing.result()
        else:
            writing.result()
    with closing(database.connect()) as conn:
        if is_crash:
            assert (enqueued(conn), staged(conn)) == ([], [])
            write(spark, database.options | ONCE, ROWS, 2)
        assert (enqueued(conn), staged(conn)) == (EVERY_NUMBER, [])


@pytest.mark.long  # the next test stops the database a moment earlier
def test_the_database_restarts_while_history_is_read(
    spark: SparkSession, database: RestartableDatabase, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    with closing(database.connect()) as conn:
        conn.execute("SELECT queue_set(p_history => TRUE)")
        ids = finish(conn, "acme", [b"x"] * ROWS)
    database.gate.hold(COPIED)
    with database.gate.running(archive, spark, lake, database.options) as archiving:
        [held] = database.gate.held(archiving)
        database.stop()
        held.cut()
        with pytest.raises(DatabaseUnreachable), unwrap_spark_errors():
            archiving.result()
    assert in_the_lake(lake) == []
    database.start()
    archive(spark, lake, database.options)
    assert in_the_lake(lake) == ids


def test_the_database_restarts_while_the_archive_searches(
    spark: SparkSession, database: RestartableDatabase, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    with closing(database.connect()) as conn:
        conn.execute("SELECT queue_set(p_history => TRUE)")
        ids = finish(conn, "acme", [b"x"] * ROWS)
    with database.gate.running(archive, spark, lake, database.options) as archiving:
        with database.locked("finished") as conn:
            until(lambda: archiving.done() or waiting_sessions(conn, "xid"), "the archive to search")
            database.stop()
        with pytest.raises(ConnectionDropped):
            archiving.result()
    database.start()
    archive(spark, lake, database.options)
    assert in_the_lake(lake) == ids
