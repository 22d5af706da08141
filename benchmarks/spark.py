"""./run bench spark: through Spark against straight to PostgreSQL, in turns within one run.

The COPY and Spark's own JDBC writer fill a table with the columns and indexes that messages have, and do
nothing else; a DataFrame into the queue is staged, checked and published. A history is read by Spark and by
ADBC alone. The report goes over a history of its own, and the memory of Spark's processes is watched.
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

from benchmarks.arena import arena
from lonnymq.install import install
from lonnymq.spark import session
from lonnymq.spark.connection import QueueAddress
from lonnymq.spark.reports.build import report

JDBC_DRIVER = Path("/usr/share/java/postgresql.jar")  # Debian's libpostgresql-jdbc-java
VARIABLE = "LONNYMQ_BENCH_DSN"
OPTIONS = {"dsnEnv": VARIABLE}
CHANNELS = 100
COLUMNS = ("id", "channel", "dequeue_at", "created_at", "content")
RAW = "COPY of ready Arrow into a like table"
ADBC = "ADBC alone"


@dataclass(frozen=True)
class Ground:
    spark: SparkSession
    conn: psycopg.Connection
    dsn: str
    rows: DataFrame
    """Of as many messages as a load has."""
    ready: pa.Table


def raw_copy(ground: Ground) -> None:
    encoder = pgpq.ArrowToPostgresBinaryEncoder(ground.ready.schema)
    into = f"COPY raw ({', '.join(COLUMNS)}) FROM STDIN (FORMAT BINARY)"
    with psycopg.connect(ground.dsn) as conn, conn.cursor() as cursor, cursor.copy(into) as copy:
        copy.write(encoder.write_header())
        for batch in ground.ready.to_batches():
            copy.write(encoder.write_batch(batch))
        copy.write(encoder.finish())


def through_jdbc(ground: Ground) -> None:
    where = conninfo_to_dict(ground.dsn)
    writer = ground.rows.write.format("jdbc").mode("append").option("driver", "org.postgresql.Driver")
    writer = writer.option("url", f"jdbc:postgresql://{where['host']}:{where['port']}/{where['dbname']}")
    writer = writer.options(user=where["user"], password=where.get("password") or "")
    writer.options(dbtable="raw", batchsize=10_000, reWriteBatchedInserts="true").save()


def into_the_queue(ground: Ground) -> None:
    ground.rows.select("channel", "content").write.format("lonnymq").options(**OPTIONS).mode("append").save()


def adbc_alone(_: Ground) -> None:
    with QueueAddress.of(OPTIONS).adbc() as conn, conn.cursor() as cursor:
        cursor.execute("SELECT * FROM lonnymq.finished")
        for batch in cursor.fetch_record_batch():
            assert batch.num_rows


def through_spark(ground: Ground) -> None:
    read = ground.spark.read.format("lonnymq_history").options(**OPTIONS)
    read.load().write.format("noop").mode("overwrite").save()


LOADS: dict[str, Callable[[Ground], None]] = {
    RAW: raw_copy,
    "Spark's JDBC writer into a like table": through_jdbc,
    "DataFrame into the queue": into_the_queue,
}
READS: dict[str, Callable[[Ground], None]] = {ADBC: adbc_alone, "lonnymq_history": through_spark}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./run bench spark", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="a load, and the history that is read")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--report-rows", type=int, default=10_000_000, help="of history, for the report; 0: none"
    )
    parser.add_argument("--json", action="store_true", help="every sample, on stdout")
    options = parser.parse_args(arguments)
    if options.rows < 1 or options.rounds < 1 or options.report_rows < 0:
        parser.error("--rows and --rounds take 1 or more, --report-rows 0 or more")
    console = Console(stderr=True)
    with arena() as ground:
        os.environ[VARIABLE] = ground.server.dsn()
        jars = {"spark.jars": str(JDBC_DRIVER)} if JDBC_DRIVER.exists() else {}
        spark = session("local[2]", **{"spark.driver.memory": "2g"}, **jars)
        with psycopg.connect(ground.server.dsn(), autocommit=True) as conn:
            install(conn)
            rates = measure(prepared(spark, conn, ground.server.dsn(), options.rows), options.rounds, console)
            report_run = reported(spark, conn, options.report_rows, console) if options.report_rows else None
        spark.stop()
    if options.json:
        json.dump({"rates": rates, "report": report_run}, sys.stdout, indent=1)
        return 0
    for first, ways in ((RAW, LOADS), (ADBC, READS)):
        table = Table("", "rows/s", f"/ {first}")
        for way in ways:
            if way in rates:
                ratio = statistics.median(a / b for a, b in zip(rates[way], rates[first], strict=True))
                table.add_row(way, f"{statistics.median(rates[way]):,.0f}", f"{ratio:.2f}")
        Console().print(table)
    if report_run:
        Console().print(
            f"report over {options.report_rows:,} rows: {report_run['seconds']:.0f} s,"
            f" at most {report_run['peak_mb']:,.0f} MB in all of Spark's processes",
            highlight=False,
        )
    return 0


def prepared(spark: SparkSession, conn: psycopg.Connection, dsn: str, rows: int) -> Ground:
    conn.execute("CREATE TABLE raw (LIKE lonnymq.message INCLUDING ALL EXCLUDING IDENTITY)")
    text = "some forty bytes of text that says little"
    made = spark.range(rows).select(
        "id",
        concat(lit("c"), (col("id") % CHANNELS).cast("string")).alias("channel"),
        lit(1).cast("long").alias("dequeue_at"),
        lit(1).cast("long").alias("created_at"),
        concat(lit('{"row":'), col("id").cast("string"), lit(f',"text":"{text}"}}'))
        .cast("binary")
        .alias("content"),
    )
    made.cache().count()
    fill_history(conn, rows)
    return Ground(spark, conn, dsn, made, made.toArrow())


def fill_history(conn: psycopg.Connection, rows: int) -> None:
    """A day of a hundred channels, in transactions of a thousand messages."""
    conn.execute("TRUNCATE lonnymq.finished")
    conn.execute("SELECT lonnymq.queue_set(p_history => TRUE)")
    for first in range(0, rows, 100_000):
        conn.execute(
            """
            INSERT INTO lonnymq.finished (id, created_at, dequeue_at, first_dequeued_at, dequeued_at,
                finished_at, attempts, content_bytes, outcome, channel)
            SELECT n, at, at, at + n % 977, at + n % 977, at + n % 977 + n % 53, 1 + (n % 50 = 0)::INT, 100,
                CASE WHEN n % 500 = 0 THEN 'dead' ELSE 'completed' END, 'c' || n % %(channels)s
            FROM generate_series(%(first)s::BIGINT, %(last)s::BIGINT) n
            CROSS JOIN LATERAL (SELECT 1700000000000 + n * 86400000 / %(rows)s AS at) t""".replace(
                "n % ", "n %% "
            ),
            {"channels": CHANNELS, "first": first, "last": min(first + 100_000, rows) - 1, "rows": rows},
        )
    conn.execute("ANALYZE lonnymq.finished")


def measure(ground: Ground, rounds: int, console: Console) -> dict[str, list[float]]:
    """Rows a second, a round each."""
    ways = LOADS | READS
    if not JDBC_DRIVER.exists():
        console.print("Spark's JDBC writer is left out: apt-get install libpostgresql-jdbc-java")
        ways.pop("Spark's JDBC writer into a like table")
    for run in ways.values():  # Spark compiles what it runs for the first time
        cleared(ground)
        run(ground)
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(rounds):
        for way, run in ways.items() if turn % 2 == 0 else reversed(ways.items()):
            cleared(ground)
            start = time.perf_counter()
            run(ground)
            rates[way].append(ground.ready.num_rows / (time.perf_counter() - start))
            console.print(f"[{turn + 1}/{rounds}] {way}: {rates[way][-1]:,.0f}/s", highlight=False)
    return rates


def cleared(ground: Ground) -> None:
    ground.conn.execute("TRUNCATE raw, lonnymq.message, lonnymq.notice")
    ground.conn.execute("CHECKPOINT")


def reported(spark: SparkSession, conn: psycopg.Connection, rows: int, console: Console) -> dict[str, float]:
    console.print(f"a history of {rows:,} rows is made ...")
    fill_history(conn, rows)
    console.print("and reported on")
    start = time.perf_counter()
    with watched() as memory:
        history = spark.read.format("lonnymq_history").options(
            **OPTIONS, includeContent="false", minPartitions=16
        )
        found = report(spark, history.load())
    assert sum(tenant.messages for tenant in found.tenants) == rows
    return {"rows": rows, "seconds": time.perf_counter() - start, "peak_mb": memory.peak / 2**20}


@dataclass
class Memory:
    peak: int = 0
    is_over: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self.is_over.wait(0.2):
            self.peak = max(self.peak, sum(resident(pid) for pid in descendants(os.getpid())))


@contextmanager
def watched() -> Iterator[Memory]:
    """What this process and all below it have in memory, but for PostgreSQL."""
    memory = Memory()
    thread = threading.Thread(target=memory.watch, daemon=True)
    thread.start()
    yield memory
    memory.is_over.set()
    thread.join()


def descendants(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        if "postgres" not in name:
            parents[int(stat.parent.name)] = int(rest.split()[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
