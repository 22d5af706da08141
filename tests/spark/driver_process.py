"""A driver in its own process, which runs calls for a test and can be killed.

It reads one call per line, and answers with one line: the error, or null.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lonnymq.spark.lake.archive import archive
from lonnymq.spark.sessions.spark_session import session
from tests.spark.outside_faults import kill_tree

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 240.0


class DriverFailed(Exception):
    """An error that was raised in the driver."""


class Driver:
    def __init__(self, master: str, **conf: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.driver_process", json.dumps({"master": master} | conf)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self._caller = ThreadPoolExecutor(1)

    def call(self, name: str, **arguments: Any) -> Future[None]:
        return self._caller.submit(self._call, name, arguments)

    def run(self, name: str, **arguments: Any) -> None:
        self.call(name, **arguments).result(TIMEOUT_S)

    def kill(self) -> None:
        kill_tree(self._process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._process.wait()
        self._caller.shutdown()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _call(self, name: str, arguments: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise DriverFailed("the process has died")
        raised = json.loads(answer)
        if raised is not None:
            raise DriverFailed(raised)


def write(spark: SparkSession, options: Mapping[str, str], rows: int, parts: int, filled: int = 0) -> None:
    """Write numbers into three channels, each number followed by `filled` dots."""
    numbers = spark.range(0, rows, 1, parts).selectExpr(
        "'channel ' || id % 3 AS channel", f"id || repeat('.', {filled}) AS content"
    )
    numbers.write.format("lonnymq").options(**options).mode("append").save()


def stream(spark: SparkSession, options: Mapping[str, str], folder: str, checkpoint: str) -> None:
    """Stream the lines of files into a channel, one file per batch, until there are no more."""
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", "1").load(folder)
    query = (
        lines.selectExpr("'lines' AS channel", "value AS content")
        .writeStream.format("lonnymq")
        .options(**options)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def archive_and_stop(spark: SparkSession, options: Mapping[str, str], lake: str, stop: str) -> None:
    """Hang before or after the commit. `stop` is "before" or "after" and a file to create at that point."""
    commit = DeltaTable.create_write_transaction
    when, path = stop.split(" ", 1)

    def stopping(*arguments: Any, **keywords: Any) -> None:
        if when == "after":
            commit(*arguments, **keywords)
        Path(path).touch()
        while True:
            time.sleep(60)

    DeltaTable.create_write_transaction = stopping  # type: ignore[method-assign]
    archive(spark, lake, options, tables=["history"])


def await_executors(spark: SparkSession, number: int) -> None:
    status = spark.sparkContext._jsc.sc().getExecutorMemoryStatus
    while status().size() != number + 1:  # the driver counts as one
        time.sleep(0.05)


def archive_all(spark: SparkSession, options: Mapping[str, str], lake: str, folder: str = ".") -> None:
    """Archive from another working directory, as a notebook does that has changed it since Spark started."""
    os.chdir(folder)
    archive(spark, lake, options, tables=["history"])


CALLS: dict[str, Callable[..., None]] = {
    "archive": archive_all,
    "archive_and_stop": archive_and_stop,
    "await_executors": await_executors,
    "stream": stream,
    "write": write,
}


def main() -> None:
    spark = session(**json.loads(sys.argv[1]))
    for line in sys.stdin:
        name, arguments = json.loads(line)
        raised = None
        try:
            CALLS[name](spark, **arguments)
        except Exception as error:  # noqa: BLE001 it is sent to the test
            raised = f"{type(error).__name__}: {error}"
        print(json.dumps(raised), flush=True)


if __name__ == "__main__":
    main()
