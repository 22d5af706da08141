"""spark: files into channels, history into the lake, reports, replays."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.options import Dsn, Json, Schema, print_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lonnymq.spark.lake.archive import ArchiveProgress

SCHEMA = "lonnymq"
VARIABLE = "LONNYMQ_SPARK_DSN"
LEFT_OUT = ", except those whose channel was full"

app = typer.Typer(help="Spark: load, archive, report and replay.", no_args_is_help=True)

Master = Annotated[
    str,
    typer.Option(
        help="Where Spark runs: local[*], spark://host:7077, yarn, k8s://...; sc://... for Connect."
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", help="A setting of Spark, as name=value; any number of times.", show_default=False
    ),
]
Once = Annotated[
    str | None,
    typer.Option(
        help="A name for this: done once under it, however often it is started.", show_default=False
    ),
]
DropFull = Annotated[
    bool, typer.Option("--drop-full", help="Leave out rows whose channel is full, instead of failing.")
]
Since = Annotated[datetime | None, typer.Option(help="Finished then or later.", show_default=False)]
Until = Annotated[datetime | None, typer.Option(help="Finished before.", show_default=False)]


class FileFormat(StrEnum):
    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    DELTA = "delta"


@app.command()
def load(
    path: Annotated[str, typer.Argument(help="A file or folder.")],
    *,
    file_format: Annotated[
        FileFormat | None,
        typer.Option("--format", help="Else guessed from the path's ending.", show_default=False),
    ] = None,
    channel: Annotated[str | None, typer.Option(help="The channel of all rows.", show_default=False)] = None,
    channel_column: Annotated[str, typer.Option(help="The column that names a row's channel.")] = "channel",
    content_column: Annotated[
        str | None,
        typer.Option(
            help='The column that holds the content; else "content", else all columns as JSON.',
            show_default=False,
        ),
    ] = None,
    once: Once = None,
    drop_full: DropFull = False,
    master: Master = "local[*]",
    conf: Conf = None,
    dsn: Dsn = None,
    schema: Schema = SCHEMA,
    as_json: Json = False,
) -> None:
    """Enqueue a message a row, all of them or none.

    Example: lonnymq spark load orders.parquet --channel-column tenant --once orders-2030-01-01
    """
    from lonnymq.spark.load_files import load as run

    with _spark(dsn, schema, master, conf, f"loading {path}") as job:
        rows = run(
            job.spark,
            path,
            job.options,
            file_format=None if file_format is None else str(file_format),
            channel=channel,
            channel_column=channel_column,
            content_column=content_column,
            once=once,
            drop_full=drop_full,
        )
    if as_json:
        print_json({"rows": rows})
    else:
        typer.echo(f"{rows:,} rows of {path} are in the queue{LEFT_OUT if drop_full else ''}")


@app.command()
def archive(
    lake: Annotated[str, typer.Argument(help="A folder, or an address in an object store.")],
    *,
    every: Annotated[
        float | None,
        typer.Option(help="Go on, looking again after so many seconds; Ctrl-C ends it.", show_default=False),
    ] = None,
    follow: Annotated[
        bool, typer.Option(help="Keep PostgreSQL from dropping what is not in the lake yet.")
    ] = True,
    rows_a_commit: Annotated[
        int, typer.Option(min=1, help="At most about so many rows a commit.")
    ] = 1_000_000,
    master: Master = "local[*]",
    conf: Conf = None,
    dsn: Dsn = None,
    schema: Schema = SCHEMA,
    as_json: Json = False,
) -> None:
    """Bring history and dead letters into Delta tables, each row once.

    Example: lonnymq spark archive /srv/lake --every 60
    """
    from lonnymq.spark.lake.archive import archive as run

    stop = threading.Event()
    with _spark(dsn, schema, master, conf, f"archiving into {lake}") as job, _until_interrupted(stop):

        def told(progress: ArchiveProgress) -> None:
            rows = ", ".join(f"{table.rows:,} rows of {name}" for name, table in progress.tables.items())
            job.say(f"{'waiting' if progress.is_caught_up else 'archiving'}: {rows}")

        done = run(
            job.spark,
            lake,
            job.options,
            rows_per_commit=rows_a_commit,
            follow=follow,
            every=every,
            stop=stop,
            on_progress=told,
        )
    if as_json:
        print_json({"lake": done.lake, "tables": [asdict(table) for table in done.tables.values()]})
        return
    for name, table in done.tables.items():
        typer.echo(
            f"{name}: {table.rows:,} rows in {table.commits:,} commits, up to transaction {table.upto_xid}"
        )
        if table.begins_at:
            typer.echo(f"  it begins at {table.begins_at}: older history was no longer kept")
        if table.behind:
            typer.echo(f"  {table.behind:,} more wait for a transaction that is older than theirs to end")


@app.command()
def replay(
    *,
    lake: Annotated[
        str | None,
        typer.Option(help="Take them from this archive; else from PostgreSQL.", show_default=False),
    ] = None,
    dead: Annotated[bool, typer.Option("--dead", help="Dead letters, not history.")] = False,
    channel: Annotated[
        list[str] | None, typer.Option(help="Only of these channels.", show_default=False)
    ] = None,
    outcome: Annotated[
        list[str] | None, typer.Option(help="Only completed, dead or cancelled ones.", show_default=False)
    ] = None,
    since: Since = None,
    until: Until = None,
    into: Annotated[
        str | None, typer.Option(help="One channel for all; else each its own.", show_default=False)
    ] = None,
    once: Once = None,
    drop_full: DropFull = False,
    master: Master = "local[*]",
    conf: Conf = None,
    dsn: Dsn = None,
    schema: Schema = SCHEMA,
    as_json: Json = False,
) -> None:
    """Enqueue messages of the past again, as new ones.

    Example: lonnymq spark replay --dead --channel acme --since 2030-01-01 --once after-the-outage
    """
    from lonnymq.spark.replay_messages import replay as run

    with _spark(dsn, schema, master, conf, "replaying") as job:
        rows = run(
            job.past(lake, "dead" if dead else "history"),
            job.options,
            channels=channel,
            outcomes=outcome,
            since=_local(since),
            until=_local(until),
            into=into,
            once=once,
            drop_full=drop_full,
        )
    if as_json:
        print_json({"rows": rows})
    else:
        typer.echo(f"{rows:,} messages are in the queue again{LEFT_OUT if drop_full else ''}")


@app.command()
def report(
    *,
    lake: Annotated[
        str | None,
        typer.Option(help="Report on this archive; else on PostgreSQL's history.", show_default=False),
    ] = None,
    since: Since = None,
    until: Until = None,
    bucket: Annotated[
        float | None,
        typer.Option(help="Cut time into so many seconds; else into 200 pieces.", show_default=False),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with plots here.", show_default=False)
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option(help="Write a row a tenant here, for others.", show_default=False)
    ] = None,
    master: Master = "local[*]",
    conf: Conf = None,
    dsn: Dsn = None,
    schema: Schema = SCHEMA,
    as_json: Json = False,
) -> None:
    """How every tenant was served: waits, throughput, shares, retries, failures.

    Example: lonnymq spark report --lake /srv/lake --since 2030-01-01 --html report.html
    """
    from lonnymq.spark.reports.build import report as run

    with _spark(dsn, schema, master, conf, "reporting", lake=lake) as job:
        found = run(job.spark, job.past(lake, "history"), _local(since), _local(until), bucket=bucket)
    if html is not None:
        found.write_html(html)
    if parquet is not None:
        found.write_parquet(parquet)
    if as_json:
        typer.echo(found.to_json())
        return
    found.print()
    for path in filter(None, (html, parquet)):
        typer.echo(f"written: {path}")


class _Job:
    def __init__(self, spark: SparkSession, options: dict[str, str], say: Callable[[str], None]) -> None:
        self.spark, self.options, self.say = spark, options, say

    def past(self, lake: str | None, table: str) -> DataFrame:
        if lake is None:
            return self.spark.read.format(f"lonnymq_{table}").options(**self.options).load()
        from lonnymq.spark.lake.delta_table import read

        return read(self.spark, f"{lake.rstrip('/')}/{table}")


@contextmanager
def _spark(
    dsn: str | None,
    schema: str,
    master: str,
    conf: list[str] | None,
    what: str,
    *,
    lake: str | None = None,
) -> Iterator[_Job]:
    """A session for one command, with progress on stderr; its errors as plain as ours.

    What works on a lake alone wants no database.
    """
    from rich.console import Console

    from lonnymq.cli.spark_progress import Progressing
    from lonnymq.spark import session
    from lonnymq.spark.unwrap_errors import unwrap_spark_errors

    screen = Console(stderr=True)
    settings = _settings(conf)
    options = {} if lake is not None else _options(dsn, schema, is_remote=master.startswith("sc://"))
    with screen.status("Spark starts ..."):
        where = {"remote": master} if master.startswith("sc://") else {"master": master}
        spark = session(**where, **settings)
    try:
        with Progressing(spark, screen, what) as progress, unwrap_spark_errors():
            yield _Job(spark, options, progress.say)
    finally:
        spark.stop()


def _options(dsn: str | None, schema: str, *, is_remote: bool) -> dict[str, str]:
    """The address goes by the environment: options are shown in Spark's plans and logs.

    What is wrong with the queue is said before Spark starts, unless only a Spark elsewhere need reach it.
    """
    from lonnymq.cli.database import address, connect
    from lonnymq.cli.open_queue import check_schema

    found = address(dsn)
    if not is_remote:
        with connect(dsn) as conn:
            check_schema(conn, schema)
    if not found:
        return {"schema": schema}
    os.environ[VARIABLE] = found
    return {"schema": schema, "dsnEnv": VARIABLE}


def _local(at: datetime | None) -> datetime | None:
    """As it is on the clock on the wall, unless a zone was given."""
    return at if at is None or at.tzinfo is not None else at.astimezone()


def _settings(conf: list[str] | None) -> dict[str, str]:
    from lonnymq.errors import InvalidArgument

    found = {}
    for setting in conf or []:
        name, is_there, value = setting.partition("=")
        if not is_there:
            raise InvalidArgument(f"--conf {setting} is no setting", "write --conf name=value")
        found[name] = value
    return found


@contextmanager
def _until_interrupted(stop: threading.Event) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM sets it; a second one is as ever."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def interrupted(*_: object) -> None:
        stop.set()
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, interrupted)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
