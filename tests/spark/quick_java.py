"""Options that make Java start quickly, because tests start it dozens of times for short runs.

They turn off the second compiler, and load Spark's classes from an archive (CDS). A first Spark, which does a
little of everything, writes that archive. A Java of another version ignores the archive.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TextIO

import pyspark
import pytest

from lonnymq.spark.sessions.java import find_java

LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Settings for sessions that run many small queries: compiling a query takes Spark longer than running it.
The commands and the tests on a cluster run with Spark's own settings.
"""
MAKE_TIMEOUT_S = 200
"""Less than a test may take, because the first one waits for it."""
WARM_UP = """
import sys
from lonnymq.spark.sessions.spark_session import session
spark = session("local[1]")
rows = spark.range(9).selectExpr("id", "id % 2 AS k", "string(id) AS text", "named_struct('a', id) AS s")
rows.mapInArrow(lambda batches: batches, rows.schema).groupBy("k").count().orderBy("k").collect()
rows.createOrReplaceTempView("numbers")
spark.sql("SELECT k, percentile(id, 0.5), to_json(first(s)) FROM numbers GROUP BY k ORDER BY k").toPandas()
rows.write.parquet(sys.argv[1] + "/rows")
stream = spark.readStream.schema(rows.schema).parquet(sys.argv[1] + "/rows")
writer = stream.writeStream.option("checkpointLocation", sys.argv[1] + "/checkpoint")
writer = writer.trigger(availableNow=True)
writer.foreachBatch(lambda batch, _: batch.count()).start().awaitTermination()
spark.stop()
"""


def interpreted(folder: Path) -> dict[str, str]:
    """The variable with which programs that start their own Spark use these settings."""
    conf = folder / "spark conf"
    conf.mkdir()
    lines = [f"{name} {value}\n" for name, value in INTERPRETED.items()]
    (conf / "spark-defaults.conf").write_text("".join(lines), encoding="ascii")
    return {"SPARK_CONF_DIR": str(conf)}


def cache_of(config: pytest.Config) -> Path | None:
    """Where the archive stays for the next run. pytest may run without its cache."""
    cache: pytest.Cache | None = getattr(config, "cache", None)
    return None if cache is None else cache.mkdir("java")


def environment(cache: Path | None, scratch: Path) -> dict[str, str]:
    """The environment variables from which Spark takes the options of the Java that it starts.

    There is no archive without a folder where it can stay for the next run, or if making it takes too long.
    """
    options = LIGHT
    if cache is not None:
        archive = cache / f"spark-{pyspark.__version__}-{find_java().stat().st_mtime_ns}.jsa"
        with archive.with_suffix(".lock").open("w") as lock:
            if archive.exists() or (_is_first(lock) and _make(archive, scratch)) or archive.exists():
                options = f"{LIGHT} -XX:SharedArchiveFile={archive} -Xlog:cds*=off"
    return {"SPARK_SUBMIT_OPTS": options, "SPARK_DAEMON_JAVA_OPTS": options}


def _is_first(lock: TextIO) -> bool:
    """Whether this process locks first. The others wait, and do not try what may just have taken too long."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return False
    return True


def _make(archive: Path, scratch: Path) -> bool:
    """Make the archive. Returns whether it is there: a busy machine may take longer than a test may."""
    unfinished = archive.with_suffix(f".{os.getpid()}")
    options = f"{LIGHT} -XX:ArchiveClassesAtExit={unfinished} -Xlog:cds*=off"
    warm_up = subprocess.Popen(
        [sys.executable, "-c", WARM_UP, scratch],
        env=os.environ | {"SPARK_SUBMIT_OPTS": options},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + MAKE_TIMEOUT_S
    while _is_running(warm_up):  # Java writes the archive when it exits, after Python
        if time.monotonic() > end:
            os.killpg(warm_up.pid, signal.SIGKILL)
            warm_up.wait()
            return False
        time.sleep(0.1)
    if warm_up.returncode != 0 or not unfinished.exists():
        return False
    unfinished.rename(archive)
    return True


def _is_running(program: subprocess.Popen[bytes]) -> bool:
    """Whether the program, or a Java that it started, is still running."""
    program.poll()
    try:
        os.killpg(program.pid, 0)
    except ProcessLookupError:
        return False
    return True
