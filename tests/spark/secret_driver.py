"""A driver that does everything that could reveal a password, and saves all that it printed and showed."""

import contextlib
import io
import json
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lonnymq.spark.sessions.spark_session import session

PAGES = ("jobs/", "stages/", "storage/", "environment/", "executors/", "SQL/", "StreamingQuery/")
RESOURCES = ("environment", "jobs", "stages", "allexecutors", "sql?details=true&planDescription=true")


def main(task: Mapping[str, Any]) -> None:
    folder = Path(task["folder"])
    spark = session(**task["session"])
    texts = {f"plan {way}": _used(spark, options) for way, options in task["ways"].items()}
    texts["plan stream"] = _streamed(spark, task["ways"]["variable"], folder / "checkpoint")
    for way, options in task["wrong"].items():
        texts[f"error {way}"] = _refused(spark, options)
    for name, text in (texts | dict(_shown(spark))).items():
        (folder / f"{name.replace('/', ' ')}.txt").write_text(text, encoding="utf-8")
    spark.stop()


def _used(spark: SparkSession, options: Mapping[str, str]) -> str:
    """Write and read. Returns the plans."""
    rows = spark.range(4, numPartitions=2).selectExpr("'a' AS channel", "CAST(id AS STRING) AS content")
    rows.write.format("lonnymq").options(**options).mode("append").save()
    waiting = spark.read.format("lonnymq").options(**options).load()
    history = spark.read.format("lonnymq_history").options(**options).load()
    counts = [waiting.count(), history.count()]
    assert all(counts), counts
    with contextlib.redirect_stdout(io.StringIO()) as explained:
        for frame in (waiting, history, spark.readStream.format("lonnymq_history").options(**options).load()):
            frame.explain(extended=True)
    return explained.getvalue()


def _streamed(spark: SparkSession, options: Mapping[str, str], checkpoint: Path) -> str:
    query = (
        spark.readStream.format("lonnymq_history")
        .options(**options)
        .load()
        .select("channel", "content")
        .writeStream.format("lonnymq")
        .options(**options)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    with contextlib.redirect_stdout(io.StringIO()) as explained:
        query.explain(extended=True)
    return explained.getvalue() + json.dumps(query.lastProgress, default=str)


def _refused(spark: SparkSession, options: Mapping[str, str]) -> str:
    def read() -> DataFrame:
        return spark.read.format("lonnymq_history").options(**options).load()

    try:
        print(read().count())
    except Exception as error:  # noqa: BLE001
        return f"{error!r}\n{error}"
    raise AssertionError("the read should have failed")


def _shown(spark: SparkSession) -> Iterator[tuple[str, str]]:
    address = spark.sparkContext.uiWebUrl
    api = f"{address}/api/v1/applications/{spark.sparkContext.applicationId}"
    for page in PAGES:
        yield f"page {page}", _fetched(f"{address}/{page}")
    for resource in RESOURCES:
        yield f"api {resource}", _fetched(f"{api}/{resource}")
    executions = json.loads(_fetched(f"{api}/sql"))
    for execution in executions:
        number = execution["id"]
        yield f"page execution {number}", _fetched(f"{address}/SQL/execution/?id={number}")


def _fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310
        return str(answer.read().decode())


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
