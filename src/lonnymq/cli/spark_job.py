"""The Spark session of one command, and the options that the commands of Spark share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.failure import BadValue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DSN_VARIABLE = "LONNYMQ_SPARK_DSN"

Master = Annotated[
    str,
    typer.Option(
        help="Spark master: local[*], spark://host:7077, yarn, k8s://...; or sc://... for Spark Connect."
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", help="Spark setting, as name=value. Can be repeated.", show_default=False),
]
Since = Annotated[
    datetime | None, typer.Option(help="Only messages finished at this time or later.", show_default=False)
]
Until = Annotated[
    datetime | None, typer.Option(help="Only messages finished before this time.", show_default=False)
]


class Job:
    def __init__(self, spark: SparkSession, options: dict[str, str], describe: Callable[[str], None]) -> None:
        self.spark, self.options, self.describe = spark, options, describe

    def finished(
        self, lake: str | None, table: str, since: datetime | None = None, until: datetime | None = None
    ) -> DataFrame:
        """Rows of the lake are limited to the days from `since` to `until`."""
        if lake is None:
            source = self.spark.read.format(f"lonnymq_{table}").options(**self.options)
            if table != "policies":  # which have no headers
                source = source.option("headersFormat", "json")  # so that a replay loses nothing
            return source.load()
        from lonnymq.spark.lake.read_lake import read

        return read(self.spark, lake, table, since=local_time(since), until=local_time(until))

    def policies(self, lake: str | None) -> DataFrame:
        from lonnymq.errors import InvalidArgument
        from lonnymq.spark.lake.lake_table import LakeUnsuitable

        try:
            return self.finished(lake, "policies")
        except LakeUnsuitable as error:
            raise InvalidArgument(
                f"{lake} has no table policies, which has the limits that channels had",
                "archive again with this version, and wait until there is history from after that",
            ) from error

    def waiting(self, lake: str | None) -> DataFrame | None:
        """What waits at the end of an archive, if it has that."""
        from lonnymq.spark.lake.lake_table import LakeUnsuitable

        if lake is None:
            return None
        try:
            return self.finished(lake, "waiting")
        except LakeUnsuitable:
            return None


@contextmanager
def spark_job(
    dsn: str | None,
    schema: str,
    master: str,
    conf: list[str] | None,
    description: str,
    *,
    lake: str | None = None,
) -> Iterator[Job]:
    """A Spark session for one command, with a progress bar on stderr and short error messages.

    A command that only reads a lake needs no database.
    """
    from rich.console import Console

    from lonnymq.cli.spark_progress import SparkProgress
    from lonnymq.spark import session
    from lonnymq.spark.unwrap_errors import unwrap_spark_errors

    screen = Console(stderr=True)
    settings = _settings(conf)
    options = {} if lake is not None else _options(dsn, schema, is_remote=master.startswith("sc://"))
    with screen.status("Starting Spark ..."):
        where = {"remote": master} if master.startswith("sc://") else {"master": master}
        spark = session(**where, **settings)
    try:
        with SparkProgress(spark, screen, description) as progress, unwrap_spark_errors():
            yield Job(spark, options, progress.describe)
    finally:
        spark.stop()


def _options(dsn: str | None, schema: str, *, is_remote: bool) -> dict[str, str]:
    """Pass the address in the environment, as Spark shows options in its plans and logs.

    Check the queue before Spark starts. A remote Spark may reach a database that this machine cannot.
    """
    from lonnymq.cli.database import address, connect
    from lonnymq.cli.open_queue import check_schema

    found = address(dsn)
    if not is_remote:
        with connect(dsn) as conn:
            check_schema(conn, schema)
    if not found:
        return {"schema": schema}
    os.environ[DSN_VARIABLE] = found
    return {"schema": schema, "dsnEnv": DSN_VARIABLE}


def local_time(at: datetime | None) -> datetime | None:
    """Local time, unless it has a time zone."""
    try:
        found = at if at is None or at.tzinfo is not None else at.astimezone()
        if found is not None:
            found.astimezone(UTC)  # which files of a lake are named after
    except (ValueError, OverflowError):
        raise BadValue(f"the time {at} is too far away", "leave out --since or --until") from None
    return found


def _settings(conf: list[str] | None) -> dict[str, str]:
    from lonnymq.errors import InvalidArgument

    found = {}
    for setting in conf or []:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InvalidArgument(f"--conf {setting} is not a setting", "write --conf name=value")
        found[name] = value
    return found
