"""Faults while rows are written. The result is every row once, or an error and no row."""

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
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from lonnymq import Queue
from lonnymq.errors import ConnectionDropped, DatabaseUnreachable
from lonnymq.spark import transient_errors
from lonnymq.spark.connection import QueueAddress
from lonnymq.spark.sink.message_columns import Contents
from lonnymq.spark.sink.publish import Publisher
from lonnymq.spark.sink.staging import Staged, Stager
from tests.database import Connect
from tests.faults.test_dropped_connections import DroppingProxy, terminate, waiting
from tests.invariants import check
from tests.queues import loop
from tests.spark.conftest import Services
from tests.spark.sink_calls import Options, count, count_staged, counts, messages, until, write

ROWS = 2_000
GATE = 4711
PUBLISHING = "staging_publish_once"
COPYING = "COPY"


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    """Rows in two partitions."""
    return spark.range(0, ROWS, 1, 2).select(
        f.lit("a").alias("channel"), f.col("id").cast("string").alias("content")
    )


def every_row_once(conn: psycopg.Connection) -> None:
    assert messages(conn, "content") == [(b"%d" % n,) for n in range(ROWS)]
    check(conn)


@contextmanager
def writing(rows: DataFrame, options: Options, **more: str) -> Iterator[Future[None]]:
    def work() -> None:
        # Spark looks for the format in the active session of this thread; this call makes the session active.
        rows.sparkSession.createDataFrame([], "nothing int")
        write(rows, options, **more)

    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(work)


@contextmanager
def gate_before_the_end_of_copies(conn: psycopg.Connection) -> Iterator[psycopg.Connection]:
    """A session that has copied its rows waits before its commit, until this connection unlocks."""
    conn.execute(
        f"CREATE FUNCTION at_the_gate () RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN "
        f"PERFORM pg_advisory_xact_lock_shared({GATE}); RETURN NULL; END $$".encode()
    )
    conn.execute("CREATE TRIGGER at_the_gate AFTER INSERT ON staging_chunk EXECUTE FUNCTION at_the_gate()")
    conn.execute("SELECT pg_advisory_lock(%s)", (GATE,))
    yield conn
    conn.execute("SELECT pg_advisory_unlock_all()")


def kill_python_workers(spark: SparkSession) -> None:
    """Kill the workers that run tasks: the children of Spark's daemon, which is a child of its Java."""
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

    @pytest.mark.long  # the next test kills them a moment later
    def test_killed_before_they_staged(
        self,
        spark: SparkSession,
        rows: DataFrame,
        options: Options,
        connect: Connect,
        conn: psycopg.Connection,
    ) -> None:
        with connect(autocommit=False) as holder:
            holder.execute("LOCK TABLE staging_chunk IN ACCESS EXCLUSIVE MODE")
            with writing(rows, options) as written:
                until(lambda: len(waiting(conn, COPYING)) == 2, "both tasks to wait", written)
                kill_python_workers(spark)
                until(lambda: len(waiting(conn, COPYING)) > 2, "others to be started", written)
                holder.rollback()
                written.result()
        every_row_once(conn)
        assert count_staged(conn) == 0

    def test_killed_after_they_staged(
        self,
        spark: SparkSession,
        rows: DataFrame,
        options: Options,
        connect: Connect,
        conn: psycopg.Connection,
    ) -> None:
        """PostgreSQL commits what they copied, but the driver never hears of it."""
        with gate_before_the_end_of_copies(connect()) as gate, writing(rows, options) as written:
            until(lambda: len(waiting(conn, COPYING)) == 2, "both tasks to have copied", written)
            kill_python_workers(spark)
            until(lambda: len(waiting(conn, COPYING)) == 4, "others to have copied too", written)
            gate.execute("SELECT pg_advisory_unlock_all()")
            written.result()
        every_row_once(conn)
        assert count_staged(conn) == ROWS, "batches that nobody publishes"

    def test_killed_too_often(
        self,
        spark: SparkSession,
        rows: DataFrame,
        options: Options,
        connect: Connect,
        conn: psycopg.Connection,
    ) -> None:
        with connect(autocommit=False) as holder:
            holder.execute("LOCK TABLE staging_chunk IN ACCESS EXCLUSIVE MODE")
            with writing(rows.coalesce(1), options) as written:
                # An attempt may get an idle worker that was killed too; then it fails before it copies.
                for times in range(1, 5):
                    until(partial(self.have_failed_or_copied, written, conn, times), f"attempt {times}")
                    kill_python_workers(spark)
                holder.rollback()
                with pytest.raises(Exception, match="Python worker exited unexpectedly"):
                    written.result()
        assert counts(conn) == (0, 0, 0)


def test_executors_lose_their_sessions(
    rows: DataFrame, options: Options, connect: Connect, conn: psycopg.Connection
) -> None:
    with connect(autocommit=False) as holder:
        holder.execute("LOCK TABLE staging_chunk IN ACCESS EXCLUSIVE MODE")
        with writing(rows, options) as written:
            until(lambda: len(waiting(conn, COPYING)) == 2, "both tasks to wait", written)
            for pid in waiting(conn, COPYING):
                terminate(conn, pid)
            until(lambda: len(waiting(conn, COPYING)) == 2, "both to be tried again", written)
            holder.rollback()
            written.result()
    every_row_once(conn)
    assert counts(conn) == (ROWS, 0, 1)


class TestPublishing:
    @pytest.fixture
    def proxy(self, dsn: str) -> Iterator[DroppingProxy]:
        with loop() as running:
            proxy = DroppingProxy(dsn, running)
            running(proxy.start())
            try:
                yield proxy
            finally:
                running(proxy.stop())

    @pytest.fixture
    def through(self, proxy: DroppingProxy, options: Options, services: Services) -> Options:
        return options | {"service": services.add(proxy.dsn, f"cut{proxy.port}")}

    def test_a_session_that_ends_before_it_is_committed(
        self, rows: DataFrame, options: Options, connect: Connect, conn: psycopg.Connection
    ) -> None:
        with connect(autocommit=False) as holder:
            holder.execute("LOCK TABLE message IN ACCESS EXCLUSIVE MODE")
            with writing(rows, options) as written:
                for _ in range(2):
                    until(lambda: waiting(conn, PUBLISHING), "it to wait", written)
                    [pid] = waiting(conn, PUBLISHING)
                    terminate(conn, pid)
                holder.rollback()
                written.result()
        every_row_once(conn)
        assert counts(conn) == (ROWS, 0, 1)

    @pytest.mark.parametrize("more", [{}, {"txnAppId": "a", "txnVersion": "7"}])
    def test_an_answer_that_is_lost(
        self,
        rows: DataFrame,
        through: Options,
        proxy: DroppingProxy,
        conn: psycopg.Connection,
        more: dict[str, str],
    ) -> None:
        """The connection breaks after the commit: the driver calls again, and the ledger has the version."""
        proxy.drop_after(PUBLISHING)
        write(rows, through, **more)
        assert proxy.drops == 1
        every_row_once(conn)
        assert counts(conn) == (ROWS, 0, 1)

    def test_a_database_that_stays_away(
        self,
        monkeypatch: pytest.MonkeyPatch,
        through: Options,
        options: Options,
        proxy: DroppingProxy,
        conn: psycopg.Connection,
    ) -> None:
        """The commit succeeded, but its answer is lost and the write fails. Nothing is undone, and the same
        job finds that it was done when it runs again.
        """
        monkeypatch.setattr(transient_errors, "RETRY_TIMEOUT_S", 0.2)
        publisher = Publisher(QueueAddress.of(through))
        staged = [stage(options, 10), stage(options, 10)]
        proxy.drop_after(PUBLISHING, then_refuse=True)
        with pytest.raises((ConnectionDropped, DatabaseUnreachable)):
            publisher.publish("app", 0, staged)
        publisher.abandon(staged)
        assert counts(conn) == (20, 0, 1)
        again = [stage(options, 10), stage(options, 10)]
        assert Publisher(QueueAddress.of(options)).publish("app", 0, again).is_repeat
        assert counts(conn) == (20, 0, 1)

    def test_abort_keeps_what_may_still_be_published(
        self, options: Options, conn: psycopg.Connection
    ) -> None:
        """Spark aborts when commit() fails, but the lost session may still publish, and needs all rows."""
        staged = [stage(options, 10), stage(options, 10)]
        publisher = Publisher(QueueAddress.of(options))
        publisher.abandon(staged)
        assert count_staged(conn) == 20
        publisher.abandon([*staged, None])
        assert count_staged(conn) == 0, "after a failed task, nothing can be on its way"

    def test_two_drivers_publish_the_same(
        self, options: Options, connect: Connect, conn: psycopg.Connection
    ) -> None:
        """Two drivers with one checkpoint: one publishes, the other waits and finds it done."""
        publisher = Publisher(QueueAddress.of(options))
        with connect(autocommit=False) as holder, ThreadPoolExecutor(2) as pool:
            holder.execute("LOCK TABLE message IN ACCESS EXCLUSIVE MODE")
            both = [pool.submit(publisher.publish, "app", 0, [stage(options, 10)]) for _ in range(2)]
            until(lambda: len(waiting(conn, PUBLISHING)) == 2, "both to wait")
            holder.rollback()
            assert sorted(one.result().is_repeat for one in both) == [False, True]
        assert counts(conn) == (10, 0, 1)


def stage(options: Options, rows: int) -> Staged:
    schema = StructType([StructField("channel", StringType()), StructField("content", BinaryType())])
    stager = Stager(QueueAddress.of(options), Contents.of(schema))
    batch = pa.record_batch({"channel": ["a"] * rows, "content": pa.array([b"x"] * rows)})
    return stager.stage(iter([batch.slice(0, 0), batch.slice(0, 3), batch.slice(3, 0), batch.slice(3)]))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("many", [150_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_a_large_write_locks_nobody_out(
    spark: SparkSession, options: Options, dsn: str, conn: psycopg.Connection, many: int
) -> None:
    """Others produce and consume in the same channels all the time, also while the rows are published."""
    channels = many // 100
    rows = spark.range(0, many, 1, 8).selectExpr(
        f"concat('tenant ', id % {channels}) AS channel", "CAST(id AS STRING) AS content"
    )
    done = threading.Event()

    def produce() -> list[str]:
        """For each enqueued message: whether the driver was publishing meanwhile."""
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
    assert count_staged(conn) == 0


def running(conn: psycopg.Connection, statement: str) -> list[int]:
    found = conn.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' "
        "AND pid <> pg_backend_pid() AND query LIKE %s",
        (f"%{statement}%",),
    )
    return [pid for (pid,) in found]
