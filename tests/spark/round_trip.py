"""A driver in its own process: it writes to the queue, reads it back, and prints what it read.

Its command line is JSON with `session` (arguments for a session) and `options` (of the formats).
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from lonnymq.spark.sessions.spark_session import session

CHECKOUT = Path(__file__).parents[2]
TIMEOUT_S = 240


class DriverFailed(AssertionError):
    """The driver failed; the message is what it printed."""


def drive(
    arguments: Mapping[str, Any], options: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run this file in its own process. Returns what it read, and its stderr."""
    task = json.dumps({"session": arguments, "options": options})
    answer = subprocess.run(
        [sys.executable, "-m", "tests.spark.round_trip", task],
        cwd=CHECKOUT,
        env=os.environ | (environment or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if answer.returncode != 0:
        raise DriverFailed(f"{answer.stdout}\n{answer.stderr}")
    return {**json.loads(answer.stdout), "stderr": answer.stderr}


def main(task: Mapping[str, Any]) -> dict[str, Any]:
    spark = session(**task["session"])
    options = task["options"]
    rows = spark.range(40, numPartitions=4).selectExpr(
        "'channel ' || id % 4 AS channel", "CAST(id AS STRING) AS content"
    )
    rows.write.format("lonnymq").options(**options).mode("append").save()
    waiting = spark.read.format("lonnymq").options(**options).load()
    history = spark.read.format("lonnymq_history").options(**options, minPartitions=2).load()
    homes = spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'java.home') AS home")
    hosts = spark.range(20, numPartitions=20).mapInArrow(_hosts, "host STRING").distinct()
    seen = {
        "waiting": sorted(int(row.content) for row in waiting.select("content").collect()),
        "finished": sorted(row.content.decode() for row in history.select("content").collect()),
        "java": [row.home for row in homes.collect()],
        "hosts": sorted(row.host for row in hosts.collect()),
    }
    spark.stop()
    return seen


def _hosts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The host that a task runs on. It takes a moment, so that one executor does not run all tasks."""
    for batch in batches:
        time.sleep(0.2)
        host = os.environ.get("SPARK_LOCAL_IP", "")
        yield pa.RecordBatch.from_pydict({"host": [host] * batch.num_rows})


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
