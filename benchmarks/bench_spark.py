"""./run bench spark: compares Spark with direct access to PostgreSQL, alternating.

Writing: COPY, Spark's tasks with COPY and Spark's JDBC writer fill a table with the columns and indexes of
the table of messages; a DataFrame written to the queue is also staged, checked and published, in one
transaction. Before each load, the tables are emptied by DELETE and VACUUM.
Reading: Spark and plain ADBC read a history. The report runs over a separate history, and the memory of
Spark's processes is measured.
"""

import argparse
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pgpq
import psycopg
import pyarrow as pa
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, concat, lit
from rich.console import Console
from rich.table import Table

from benchmarks.bench_server import bench_server
from lonnymq.install import install
from lonnymq.spark import session
from lonnymq.spark.connection import QueueAddress
from lonnymq.spark.reports.build import report

JDBC_DRIVER = Path("/usr/share/java/postgresql.jar")  # Debian's libpostgresql-jdbc-java
VARIABLE = "LONNYMQ_BENCH_DSN"
OPTIONS = {"dsnEnv": VARIABLE}
CHANNELS = 100
COLUMNS = ("id", "channel", "dequeue_at", "created_at", "content")
RAW = "COPY of prepared Arrow data into a similar table"
TASKS = "COPY of the same DataFrame into a similar table, by Spark's tasks"
ADBC = "plain ADBC"
WARM_UPS = 3  # Spark compiles each job the first time, and Java what runs often


@dataclass(frozen=True)
class SparkSetup:
    spark: SparkSession
    conn: psycopg.Connection
    dsn: str
    rows: DataFrame
    """The messages of one load."""
    arrow: pa.Table
    """The same as Arrow data."""


def raw_copy(setup: SparkSetup) -> None:
    encoder = pgpq.ArrowToPostgresBinaryEncoder(setup.arrow.schema)
    into = f"COPY raw ({', '.join(COLUMNS)}) FROM STDIN (FORMAT BINARY)"
    with psycopg.connect(setup.dsn) as conn, conn.cursor() as cursor, cursor.copy(into) as copy:
        copy.write(encoder.write_header())
        for batch in setup.arrow.to_batches():
            copy.write(encoder.write_batch(batch))
        copy.write(encoder.finish())


def copy_from_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs on executors, one COPY and transaction per task: the least that Spark can do."""
    into = f"COPY raw ({', '.join(COLUMNS)}) FROM STDIN (FORMAT BINARY)"
    encoder = None
    with psycopg.connect(os.environ[VARIABLE]) as conn, conn.cursor() as cursor, cursor.copy(into) as copy:
        for batch in batches:
            if encoder is None:
                encoder = pgpq.ArrowToPostgresBinaryEncoder(batch.schema)
                copy.write(encoder.write_header())
            copy.write(encoder.write_batch(batch))
            yield pa.record_batch({"rows": pa.array([batch.num_rows], pa.int64())})
        if encoder is not None:
            copy.write(encoder.finish())


def write_tasks(setup: SparkSetup) -> None:
    copied = setup.rows.select(*COLUMNS).mapInArrow(copy_from_task, "rows long")
    copied.write.format("noop").mode("overwrite").save()


def write_jdbc(setup: SparkSetup) -> None:
    where = conninfo_to_dict(setup.dsn)
    writer = setup.rows.write.format("jdbc").mode("append").option("driver", "org.postgresql.Driver")
    writer = writer.option("url", f"jdbc:postgresql://{where['host']}:{where['port']}/{where['dbname']}")
    writer = writer.options(user=where["user"], password=where.get("password") or "")
    writer.options(dbtable="raw", batchsize=10_000, reWriteBatchedInserts="true").save()


def write_queue(setup: SparkSetup) -> None:
    setup.rows.select("channel", "content").write.format("lonnymq").options(**OPTIONS).mode("append").save()


def read_adbc(_: SparkSetup) -> None:
    with QueueAddress.of(OPTIONS).adbc() as conn, conn.cursor() as cursor:
        cursor.execute("SELECT * FROM lonnymq.finished")
        for batch in cursor.fetch_record_batch():
            assert batch.num_rows


def read_spark(setup: SparkSetup) -> None:
    read = setup.spark.read.format("lonnymq_history").options(**OPTIONS)
    read.load().write.format("noop").mode("overwrite").save()


LOADS: dict[str, Callable[[SparkSetup], None]] = {
    RAW: raw_copy,
    TASKS: write_tasks,
    "Spark's JDBC writer into a similar table": write_jdbc,
    "DataFrame into the queue": write_queue,
}
READS: dict[str, Callable[[SparkSetup], None]] = {ADBC: read_adbc, "lonnymq_history": read_spark}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./run bench spark", description=__doc__)
    parser.add_argument(
        "--rows", type=int, default=200_000, help="rows per load, and of the history that is read"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--report-rows", type=int, default=10_000_000, help="rows of history for the report; 0 leaves it out"
    )
    parser.add_argument("--json", action="store_true", help="print every sample to stdout as JSON")
    options = parser.parse_args(arguments)
    if options.rows < 1 or options.rounds < 1 or options.report_rows < 0:
        parser.error("--rows and --rounds must be at least 1, --report-rows at least 0")
    console = Console(stderr=True)
    with bench_server() as server:
        os.environ[VARIABLE] = server.postgres.dsn()
        jars = {"spark.jars": str(JDBC_DRIVER)} if JDBC_DRIVER.exists() else {}
        spark = session("local[2]", **{"spark.driver.memory": "2g"}, **jars)
        with psycopg.connect(server.postgres.dsn(), autocommit=True) as conn:
            install(conn)
            rates = measure(
                prepare(spark, conn, server.postgres.dsn(), options.rows), options.rounds, console
            )
            report_run = (
                run_report(spark, conn, options.report_rows, console) if options.report_rows else None
            )
        spark.stop()
    if options.json:
        json.dump({"rates": rates, "report": report_run}, sys.stdout, indent=1)
        return 0
    for first, methods in ((RAW, LOADS), (ADBC, READS)):
        table = Table("", "rows/s", f"/ {first}")
        for method in methods:
            if method in rates:
                ratio = statistics.median(a / b for a, b in zip(rates[method], rates[first], strict=True))
                table.add_row(method, f"{statistics.median(rates[method]):,.0f}", f"{ratio:.2f}")
        Console().print(table)
    if report_run:
        Console().print(
            f"report over {options.report_rows:,} rows: {report_run['seconds']:.0f} s,"
            f" peak {report_run['peak_mb']:,.0f} MB in all Spark processes",
            highlight=False,
        )
    return 0


def prepare(spark: SparkSession, conn: psycopg.Connection, dsn: str, rows: int) -> SparkSetup:
    conn.execute("CREATE TABLE raw (LIKE lonnymq.message INCLUDING ALL EXCLUDING IDENTITY)")
    text = "some forty bytes of text that says little"
    rows_frame = spark.range(rows).select(
        "id",
        concat(lit("c"), (col("id") % CHANNELS).cast("string")).alias("channel"),
        lit(1).cast("long").alias("dequeue_at"),
        lit(1).cast("long").alias("created_at"),
        concat(lit('{"row":'), col("id").cast("string"), lit(f',"text":"{text}"}}'))
        .cast("binary")
        .alias("content"),
    )
    rows_frame.cache().count()
    fill_history(conn, rows)
    return SparkSetup(spark, conn, dsn, rows_frame, rows_frame.toArrow())


def fill_history(conn: psycopg.Connection, rows: int) -> None:
    """Insert one day of history for a hundred channels."""
    conn.execute("TRUNCATE lonnymq.finished")
    conn.execute("SELECT lonnymq.queue_set(p_history => TRUE)")
    for first in range(0, rows, 100_000):
        conn.execute(
            """
            INSERT INTO lonnymq.finished (id, created_at, dequeue_at, first_dequeued_at, dequeued_at,
                finished_at, attempts, content_bytes, cost, priority, lane, outcome, channel)
            SELECT n, at, at, at + n % 977, at + n % 977, at + n % 977 + n % 53, 1 + (n % 50 = 0)::INT, 100,
                1, 0, 'default', CASE WHEN n % 500 = 0 THEN 'dead' ELSE 'completed' END,
                'c' || n % %(channels)s
            FROM generate_series(%(first)s::BIGINT, %(last)s::BIGINT) n
            CROSS JOIN LATERAL (SELECT 1700000000000 + n * 86400000 / %(rows)s AS at) t""".replace(
                "n % ", "n %% "
            ),
            {"channels": CHANNELS, "first": first, "last": min(first + 100_000, rows) - 1, "rows": rows},
        )
    conn.execute("ANALYZE lonnymq.finished")


def measure(setup: SparkSetup, rounds: int, console: Console) -> dict[str, list[float]]:
    """Returns rows per second, one value per round."""
    methods = LOADS | READS
    if not JDBC_DRIVER.exists():
        console.print("skipping Spark's JDBC writer; to include it: apt-get install libpostgresql-jdbc-java")
        methods.pop("Spark's JDBC writer into a similar table")
    for _ in range(WARM_UPS):
        for run in methods.values():
            clear(setup)
            run(setup)
    rates: dict[str, list[float]] = {method: [] for method in methods}
    for turn in range(rounds):
        for method, run in methods.items() if turn % 2 == 0 else reversed(methods.items()):
            clear(setup)
            start = time.perf_counter()
            run(setup)
            rates[method].append(setup.arrow.num_rows / (time.perf_counter() - start))
            console.print(f"[{turn + 1}/{rounds}] {method}: {rates[method][-1]:,.0f}/s", highlight=False)
    return rates


def clear(setup: SparkSetup) -> None:
    """Empty the tables as a queue's are emptied, row by row: the files keep their size, and are filled again.
    TRUNCATE would make each load extend them, which only happens to a queue that has never been this long.
    """
    for table in ("raw", "lonnymq.message", "lonnymq.notice"):
        setup.conn.execute(f"DELETE FROM {table}")
        setup.conn.execute(f"VACUUM (TRUNCATE off) {table}")
    setup.conn.execute("CHECKPOINT")


def run_report(
    spark: SparkSession, conn: psycopg.Connection, rows: int, console: Console
) -> dict[str, float]:
    console.print(f"creating a history of {rows:,} rows ...")
    fill_history(conn, rows)
    console.print("running the report")
    start = time.perf_counter()
    with watch_memory() as memory:
        history = spark.read.format("lonnymq_history").options(
            **OPTIONS, includeContent="false", minPartitions=16
        )
        found = report(spark, history.load())
    assert sum(tenant.messages for tenant in found.tenants) == rows
    return {"rows": rows, "seconds": time.perf_counter() - start, "peak_mb": memory.peak / 2**20}


@dataclass
class Memory:
    peak: int = 0
    is_done: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self.is_done.wait(0.2):
            self.peak = max(self.peak, sum(resident_bytes(pid) for pid in descendants(os.getpid())))


@contextmanager
def watch_memory() -> Iterator[Memory]:
    """Measure the memory of this process and its descendants, without PostgreSQL."""
    memory = Memory()
    thread = threading.Thread(target=memory.watch, daemon=True)
    thread.start()
    yield memory
    memory.is_done.set()
    thread.join()


def descendants(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process exited in the meantime
        if "postgres" not in name:
            parents[int(stat.parent.name)] = int(rest.split()[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def resident_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
