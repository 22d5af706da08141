"""`load`: enqueue the rows of files, which may be Parquet, CSV, JSON lines or Delta."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import uuid4

from lonnymq.errors import InvalidArgument
from lonnymq.message_options import UNCHANGED
from lonnymq.spark.lake import delta_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lonnymq.spark.sink.publication import Publication

FORMATS = ("parquet", "csv", "json", "delta")
MESSAGE_COLUMNS = ("run_at", "dequeue_at", "headers", *UNCHANGED)


def load(
    spark: SparkSession,
    path: str,
    options: Mapping[str, str],
    *,
    file_format: str | None = None,
    channel: str | None = None,
    channel_column: str = "channel",
    content_column: str | None = None,
    once: str | None = None,
    drop_full: bool = False,
) -> Publication:
    """Enqueue one message per row, all or none. Returns how many were created.

    The content is `content_column`, or the column "content", or else a JSON object of all columns that are
    not the channel or a setting of the message (`priority`, `lane`, ...). With `once`, a load of that name is
    done only once, however often it is started; started again, it returns the numbers of the first time.

    Raises ChannelFull when a row does not fit into its channel. With `drop_full` such rows are left out, and
    counted as refused.
    """
    rows = shaped(
        read(spark, path, file_format or format_of(path)),
        channel=channel,
        channel_column=channel_column,
        content_column=content_column,
    )
    return write(rows, options, once, drop_full=drop_full)


def write(
    rows: DataFrame, options: Mapping[str, str], once: str | None = None, *, drop_full: bool = False
) -> Publication:
    from lonnymq.spark.sink.publication import publication

    # Spark looks for the format in the active session of this thread; this call makes the session active.
    rows.sparkSession.createDataFrame([], "nothing int")
    job = uuid4()
    writer = rows.write.format("lonnymq").mode("append").options(**options).option("jobId", str(job))
    if once is not None:
        writer = writer.options(txnAppId=once, txnVersion="0")
    if drop_full:
        writer = writer.options(onFull="drop")
    writer.save()
    app, version = (str(job), None) if once is None else (once, 0)
    return publication(rows.sparkSession, options, app, version, job)


def format_of(path: str) -> str:
    """
    >>> format_of("s3://lake/orders.csv.gz"), format_of("orders.jsonl"), format_of("orders/")
    ('csv', 'json', 'parquet')
    """
    name = path.rstrip("/").rpartition("/")[2].lower().removesuffix(".gz")
    if name.endswith((".csv", ".tsv")):
        return "csv"
    if name.endswith((".json", ".jsonl", ".ndjson")):
        return "json"
    return "parquet"


def read(spark: SparkSession, path: str, file_format: str) -> DataFrame:
    if file_format not in FORMATS:
        raise InvalidArgument(
            f"{file_format!r} is not a file format that can be loaded", f"use one of {', '.join(FORMATS)}"
        )
    if file_format == "delta":
        return delta_table.read(spark, path)
    reader = spark.read.format(file_format)
    if file_format == "csv":
        separator = "\t" if path.lower().removesuffix(".gz").endswith(".tsv") else ","
        reader = reader.options(header="true", sep=separator, mode="FAILFAST")
    elif file_format == "json":
        reader = reader.options(mode="FAILFAST")
    return reader.load(path)


def shaped(
    rows: DataFrame, *, channel: str | None, channel_column: str, content_column: str | None
) -> DataFrame:
    """The rows with the columns that the sink expects."""
    from pyspark.sql.functions import col, lit, struct

    columns = rows.columns
    if channel is None and channel_column not in columns:
        raise InvalidArgument(
            f"there is no column {channel_column!r}; the columns are {', '.join(columns)}",
            "give one channel for all rows, or the column that holds the channel",
        )
    if content_column is not None and content_column not in columns:
        raise InvalidArgument(
            f"there is no column {content_column!r}; the columns are {', '.join(columns)}",
            "give the column that holds the content",
        )
    if content_column is None and "content" in columns:
        content_column = "content"
    kept = [name for name in MESSAGE_COLUMNS if name in columns]
    rest = [name for name in columns if name not in kept and (channel is not None or name != channel_column)]
    if content_column is None and not rest:
        raise InvalidArgument("no column is left for the content", "give the column that holds it")
    content = (
        col(_quoted(content_column)) if content_column else struct(*[col(_quoted(name)) for name in rest])
    )
    to = lit(channel) if channel is not None else col(_quoted(channel_column))
    return rows.select(to.alias("channel"), content.alias("content"), *[col(_quoted(name)) for name in kept])


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
