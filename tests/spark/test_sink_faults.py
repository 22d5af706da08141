"""What goes wrong while rows are written: each ends in every row once, or in none and an error."""

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from lonnymq import Queue
from lonnymq.errors import ConnectionDropped, DatabaseUnreachable
from lonnymq.spark import transient_errors
from lonnymq.spark.connection import QueueAddress
from lonnymq.spark.sink.message_columns import Contents
from lonnymq.spark.sink.publish import Publisher
from lonnymq.spark.sink.staging import Staged, Stager
from tests.database import Connect
from tests.faults.test_dropped_connections import Cutter, end, waiting
from tests.invariants import check
from tests.queues import loop
from tests.spark.conftest import Services
from tests.spark.sinking import Options, count, counts, messages, until, write

ROWS = 2_000
GATE = 4711
PUBLISHING = "staging_publish_once"
COPYING = "COPY"


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    """In two partitions."""
    return spark.range(0, ROWS, 1, 2).select(
        f.lit("a").alias("channel"), f.col("id").cast("string").alias("content")
    )


def every_row_once(conn: psycopg.Connection) -> None:
    assert messages(conn, "content") == [(b"%d" % n,) for n in range(ROWS)]
    check(conn)


@contextmanager
def writing(rows: DataFrame, options: Options, **more: str) -> Iterator[Future[None]]:
    def work() -> None:
        # Spark asks its active session for formats, and a thread has none until it has made some rows.
        rows.sparkSession.createDataFrame([], "nothing int")
        write(rows, options, **more)

    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(work)


@contextmanager
def gate_before_the_end_of_copies(conn: psycopg.Connection) -> Iterator[psycopg.Connection]:
    """Who has copied waits before it is committed, until this connection lets it."""
    conn.execute(
        f"CREATE FUNCTION at_the_gate () RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN "
        f"PERFORM pg_advisory_xact_lock_shared({GATE}); RETURN NULL; END $$".encode()
    )
    conn.execute("CREATE TRIGGER at_the_gate AFTER INSERT ON staging EXECUTE FUNCTION at_the_gate()")
    conn.execute("SELECT pg_advisory_lock(%s)", (GATE,))
    yield conn
    conn.execute("SELECT pg_advisory_unlock_all()")


def kill_python_workers(spark: SparkSession) -> None:
    """Those of this Spark that run tasks: children of its daemon, which is a child of its Java."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    java = int(jvm.java.lang.ProcessHandle.current().pid())
    parents = dict(_parents())
    for pid, parent in parents.items():
        if parents.get(parent) == java:
            with suppress(ProcessLookupError):  # gone meanwhile
                os.kill(pid, signal.SIGKILL)


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:  # gone meanwhile
                continue
            yield int(entry.name), int(stat.rpartition(")")[2].split()[1])


class TestPythonWorkers:
    def have_copied(self, conn: psycopg.Connection, tasks: int) -> bool:
        return len(waiting(conn, COPYING)) >= tasks

    def have_failed_or_copied(self, written: Future[None], conn: psycopg.Connection, tasks: int) -> bool:
        return written.done() or self.have_copied(conn, tasks)

    def test_killed_before_they_staged(
        self,
        spark: SparkSession,
        rows: DataFrame,
        options: Options,
        connect: Connect,
        conn: psycopg.Connection,
    ) -> None:
        with connect(autocommit=False) as holder:
            holder.execute("LOCK TABLE staging IN ACCESS EXCLUSIVE MODE")
            with writing(rows, options) as written:
                until(lambda: len(waiting(conn, COPYING)) == 2, "both tasks to wait", written)
                kill_python_workers(spark)
                until(lambda: len(waiting(conn, COPYING)) > 2, "others to be started", written)
                holder.rollback()
                written.result()
        every_row_once(conn)
        assert count(conn, "staging") == 0

    def test_killed_after_they_staged(
        self,
        spark: SparkSession,
        rows: DataFrame,
        options: Options,
        connect: Connect,
        conn: psycopg.Connection,
    ) -> None:
        """PostgreSQL commits what they copied, and nobody ever tells the driver."""
        with gate_before_the_end_of_copies(connect()) as gate, writing(rows, options) as written:
            until(lambda: len(waiting(conn, COPYING)) == 2, "both tasks to have copied", written)
            kill_python_workers(spark)
            until(lambda: len(waiting(conn, COPYING)) == 4, "others to have copied too", written)
            gate.execute("SELECT pg_advisory_unlock_all()")
            written.result()
        every_row_once(conn)
        assert count(conn, "staging") == ROWS, "under batches that were not published, and age"

    def test_killed_too_often(
        self,
        spark: SparkSession,
        rows: DataFrame,
        options: Options,
        connect: Connect,
        conn: psycopg.Connection,
    ) -> None:
        with connect(autocommit=False) as holder:
            holder.execute("LOCK TABLE staging IN ACCESS EXCLUSIVE MODE")
            with writing(rows.coalesce(1), options) as written:
                # An attempt that gets a worker which was idle, and is dead too, fails before it copies.
                for times in range(1, 5):
                    until(partial(self.have_failed_or_copied, written, conn, times), f"attempt {times}")
                    kill_python_workers(spark)
                holder.rollback()
                with pytest.raises(Exception, match="Python worker exited unexpectedly"):
                    written.result()
        assert counts(conn) == (0, 0, 0)


def test_sessions_of_executors_that_end(
    rows: DataFrame, options: Options, connect: Connect, conn: psycopg.Connection
) -> None:
    with connect(autocommit=False) as holder:
        holder.execute("LOCK TABLE staging IN ACCESS EXCLUSIVE MODE")
        with writing(rows, options) as written:
            until(lambda: len(waiting(conn, COPYING)) == 2, "both tasks to wait", written)
            for pid in waiting(conn, COPYING):
                end(conn, pid)
            until(lambda: len(waiting(conn, COPYING)) == 2, "both to be tried again", written)
            holder.rollback()
            written.result()
    every_row_once(conn)
    assert counts(conn) == (ROWS, 0, 1)


class TestPublishing:
    @pytest.fixture
    def cutter(self, dsn: str) -> Iterator[Cutter]:
        with loop() as running:
            proxy = Cutter(dsn, running)
            running(proxy.start())
            try:
                yield proxy
            finally:
                running(proxy.stop())

    @pytest.fixture
    def through(self, cutter: Cutter, options: Options, services: Services) -> Options:
        return options | {"service": services.add(cutter.dsn, f"cut{cutter.port}")}

    def test_a_session_that_ends_before_it_is_committed(
        self, rows: DataFrame, options: Options, connect: Connect, conn: psycopg.Connection
    ) -> None:
        with connect(autocommit=False) as holder:
            holder.execute("LOCK TABLE message IN ACCESS EXCLUSIVE MODE")
            with writing(rows, options) as written:
                for _ in range(2):
                    until(lambda: waiting(conn, PUBLISHING), "it to wait", written)
                    [pid] = waiting(conn, PUBLISHING)
                    end(conn, pid)
                holder.rollback()
                written.result()
        every_row_once(conn)
        assert counts(conn) == (ROWS, 0, 1)

    @pytest.mark.parametrize("more", [{}, {"txnAppId": "a", "txnVersion": "7"}])
    def test_an_answer_that_is_lost(
        self,
        rows: DataFrame,
        through: Options,
        cutter: Cutter,
        conn: psycopg.Connection,
        more: dict[str, str],
    ) -> None:
        """The connection breaks after the commit: it is asked again, and the ledger knows."""
        cutter.cut_after(PUBLISHING)
        write(rows, through, **more)
        assert cutter.cuts == 1
        every_row_once(conn)
        assert counts(conn) == (ROWS, 0, 1)

    def test_a_database_that_stays_away(
        self,
        monkeypatch: pytest.MonkeyPatch,
        through: Options,
        options: Options,
        cutter: Cutter,
        conn: psycopg.Connection,
    ) -> None:
        """It was committed, nobody knows, and Spark is told to give up. Nothing is undone, and the same job
        once more finds that it was done.
        """
        monkeypatch.setattr(transient_errors, "RETRY_TIMEOUT_S", 0.2)
        publisher = Publisher(QueueAddress.of(through))
        staged = [stage(options, 10), stage(options, 10)]
        cutter.cut_after(PUBLISHING, then_shut=True)
        with pytest.raises((ConnectionDropped, DatabaseUnreachable)):
            publisher.publish("app", 0, staged)
        publisher.abandon(staged)
        assert counts(conn) == (20, 0, 1)
        again = [stage(options, 10), stage(options, 10)]
        assert Publisher(QueueAddress.of(options)).publish("app", 0, again).is_repeat
        assert counts(conn) == (20, 0, 1)

    def test_what_may_be_on_its_way_is_not_taken_away(
        self, options: Options, conn: psycopg.Connection
    ) -> None:
        """Spark aborts when commit() fails; a session that was given up may publish yet, and needs it all."""
        staged = [stage(options, 10), stage(options, 10)]
        publisher = Publisher(QueueAddress.of(options))
        publisher.abandon(staged)
        assert count(conn, "staging") == 20
        publisher.abandon([*staged, None])
        assert count(conn, "staging") == 0, "with a task that failed, nothing was asked to be published"

    def test_two_that_publish_the_same(
        self, options: Options, connect: Connect, conn: psycopg.Connection
    ) -> None:
        """Two drivers with one checkpoint: one of them does it, the other waits and finds it done."""
        publisher = Publisher(QueueAddress.of(options))
        with connect(autocommit=False) as holder, ThreadPoolExecutor(2) as pool:
            holder.execute("LOCK TABLE message IN ACCESS EXCLUSIVE MODE")
            both = [pool.submit(publisher.publish, "app", 0, [stage(options, 10)]) for _ in range(2)]
            until(lambda: len(waiting(conn, PUBLISHING)) == 2, "both to wait")
            holder.rollback()
            assert sorted(one.result().is_repeat for one in both) == [False, True]
        assert counts(conn) == (10, 0, 1)


def stage(options: Options, rows: int) -> Staged:
    schema = StructType.fromDDL("channel string, content binary")
    assert isinstance(schema, StructType)
    stager = Stager(QueueAddress.of(options), Contents.of(schema))
    batch = pa.record_batch({"channel": ["a"] * rows, "content": pa.array([b"x"] * rows)})
    return stager.stage(iter([batch.slice(0, 0), batch.slice(0, 3), batch.slice(3, 0), batch.slice(3)]))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_million_rows_lock_nobody_out(
    spark: SparkSession, options: Options, dsn: str, conn: psycopg.Connection
) -> None:
    """Ten thousand channels, while others produce and consume: all the time, also while it is published."""
    many, channels = 1_000_000, 10_000
    rows = spark.range(0, many, 1, 8).selectExpr(
        f"concat('tenant ', id % {channels}) AS channel", "CAST(id AS STRING) AS content"
    )
    done = threading.Event()

    def produce() -> list[str]:
        """What was enqueued while the driver published."""
        made: list[str] = []
        with Queue(dsn) as queue:
            while not done.is_set():
                is_publishing = bool(running(conn, PUBLISHING))
                queue.enqueue(b"native", channel=f"tenant {len(made) % channels}")
                made.append("meanwhile" if is_publishing and running(conn, PUBLISHING) else "else")
        return made

    def consume() -> list[str]:
        taken: list[str] = []
        with Queue(dsn) as queue, psycopg.connect(dsn, autocommit=True) as watcher:
            while not done.is_set():
                is_publishing = bool(running(watcher, PUBLISHING))
                for delivery in queue.dequeue(10, wait=0.1):
                    assert queue.complete(delivery) == "completed"
                    taken.append("meanwhile" if is_publishing and running(watcher, PUBLISHING) else "else")
        return taken

    with ThreadPoolExecutor(2) as pool:
        produced, consumed = pool.submit(produce), pool.submit(consume)
        try:
            write(rows, options)
        finally:
            done.set()
        made, taken = produced.result(), consumed.result()
    print(f"while it was published: {made.count('meanwhile')} produced, {taken.count('meanwhile')} consumed")
    assert made.count("meanwhile") > 10
    assert taken.count("meanwhile") > 10
    assert count(conn) == many + len(made) - len(taken)
    assert count(conn, "staging") == 0


def running(conn: psycopg.Connection, statement: str) -> list[int]:
    found = conn.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' "
        "AND pid <> pg_backend_pid() AND query LIKE %s",
        (f"%{statement}%",),
    )
    return [pid for (pid,) in found]
