"""spark: load files, archive the history, report on it, simulate other settings, and replay it."""

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

from lonnymq.cli import lake_commands
from lonnymq.cli.options import DEFAULT_SCHEMA, Dsn, Json, Schema, print_json
from lonnymq.formatting import plural

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lonnymq.spark.lake.archive import ArchiveProgress
    from lonnymq.spark.sink.publication import Publication

DSN_VARIABLE = "LONNYMQ_SPARK_DSN"

app = typer.Typer(
    help="Load files, archive the history, report on it and replay it, with Spark.", no_args_is_help=True
)

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
Once = Annotated[
    str | None,
    typer.Option(
        help="Name of this job. A job with a name is done at most once, however often it is started.",
        show_default=False,
    ),
]
DropFull = Annotated[
    bool, typer.Option("--drop-full", help="Skip rows whose channel is full, instead of failing.")
]
Since = Annotated[
    datetime | None, typer.Option(help="Only messages finished at this time or later.", show_default=False)
]
Until = Annotated[
    datetime | None, typer.Option(help="Only messages finished before this time.", show_default=False)
]


class FileFormat(StrEnum):
    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    DELTA = "delta"


class TableFormat(StrEnum):
    DELTA = "delta"
    ICEBERG = "iceberg"


@app.command()
def load(
    path: Annotated[str, typer.Argument(help="File or folder to load.")],
    *,
    file_format: Annotated[
        FileFormat | None,
        typer.Option("--format", help="Default: guessed from the file extension.", show_default=False),
    ] = None,
    channel: Annotated[str | None, typer.Option(help="Channel for all rows.", show_default=False)] = None,
    channel_column: Annotated[str, typer.Option(help="Column with the channel of each row.")] = "channel",
    content_column: Annotated[
        str | None,
        typer.Option(
            help='Column with the payload. Default: "content" if there is one, else all columns as JSON.',
            show_default=False,
        ),
    ] = None,
    once: Once = None,
    drop_full: DropFull = False,
    master: Master = "local[*]",
    conf: Conf = None,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """Enqueue one message per row of a file, all of them or none.

    Example: lonnymq spark load orders.parquet --channel-column tenant --once orders-2030-01-01
    """
    from lonnymq.spark.load_files import load as run

    with _spark(dsn, schema, master, conf, f"loading {path}") as job:
        done = run(
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
    _print_publication(done, f"rows of {path}", once, as_json=as_json)


@app.command()
def archive(
    lake: Annotated[str, typer.Argument(help="Folder or object store URL for the tables.")],
    *,
    table_format: Annotated[
        TableFormat | None,
        typer.Option(
            "--format",
            help="Format of a new lake; the default is delta. Later runs find it.",
            show_default=False,
        ),
    ] = None,
    catalog: lake_commands.Catalog = None,
    every: Annotated[
        float | None,
        typer.Option(
            help="Keep running, and archive again every this many seconds, until Ctrl-C.", show_default=False
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option(help="Keep PostgreSQL from dropping history that is not archived yet.")
    ] = True,
    rows_per_commit: Annotated[
        int, typer.Option(min=1, help="Rows per commit to the lake, at most and approximately.")
    ] = 1_000_000,
    master: Master = "local[*]",
    conf: Conf = None,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """Archive the history, the dead letters and the policies, each row once, and a snapshot of what waits.

    The tables are Delta or Iceberg tables.

    Example: lonnymq spark archive /srv/lake --every 60
    """
    from lonnymq.spark.lake.archive import archive as run
    from lonnymq.spark.lake.waiting_snapshot import WAITING

    stop = threading.Event()
    with _spark(dsn, schema, master, conf, f"archiving into {lake}") as job, _until_interrupted(stop):

        def show_progress(progress: ArchiveProgress) -> None:
            rows = ", ".join(f"{table.rows:,} rows of {name}" for name, table in progress.tables.items())
            job.describe(f"{'waiting' if progress.is_caught_up else 'archiving'}: {rows}")

        done = run(
            job.spark,
            lake,
            job.options,
            rows_per_commit=rows_per_commit,
            table_format=None if table_format is None else str(table_format),
            catalog=catalog,
            follow=follow,
            every=every,
            stop=stop,
            on_progress=show_progress,
        )
    if as_json:
        print_json({"lake": done.lake, "tables": [asdict(table) for table in done.tables.values()]})
        return
    for name, table in done.tables.items():
        if name == WAITING:
            typer.echo(f"{name}: {plural(table.rows, 'message')} in the last snapshot")
            continue
        typer.echo(
            f"{name}: {plural(table.rows, 'row')} in {plural(table.commits, 'commit')}, "
            f"up to transaction {table.upto_xid}"
        )
        if table.begins_at:
            typer.echo(f"  it begins at {table.begins_at}: older history had already been dropped")
        if table.behind:
            typer.echo(
                f"  not yet archived: {plural(table.behind, 'row')}, until an older transaction has finished"
            )


@app.command()
def replay(
    *,
    lake: Annotated[
        str | None,
        typer.Option(help="Read messages from this archive. Default: from PostgreSQL.", show_default=False),
    ] = None,
    dead: Annotated[bool, typer.Option("--dead", help="Replay dead letters instead of history.")] = False,
    channel: Annotated[
        list[str] | None, typer.Option(help="Only this channel. Can be repeated.", show_default=False)
    ] = None,
    outcome: Annotated[
        list[str] | None,
        typer.Option(
            help="Only messages with this outcome: completed, dead or cancelled. Can be repeated.",
            show_default=False,
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    into: Annotated[
        str | None,
        typer.Option(help="Enqueue all into this channel. Default: each into its own.", show_default=False),
    ] = None,
    once: Once = None,
    drop_full: DropFull = False,
    master: Master = "local[*]",
    conf: Conf = None,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """Enqueue finished messages again, as new ones.

    Example: lonnymq spark replay --dead --channel acme --since 2030-01-01 --once after-the-outage
    """
    from lonnymq.spark.replay_messages import replay as run

    with _spark(dsn, schema, master, conf, "replaying") as job:
        done = run(
            job.finished(lake, "dead" if dead else "history", since, until),
            job.options,
            channels=channel,
            outcomes=outcome,
            since=_local(since),
            until=_local(until),
            into=into,
            once=once,
            drop_full=drop_full,
        )
    _print_publication(done, "messages again", once, as_json=as_json)


@app.command()
def report(
    *,
    lake: Annotated[
        str | None,
        typer.Option(
            help="Report on this archive. Default: on the history in PostgreSQL.", show_default=False
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    bucket: Annotated[
        float | None,
        typer.Option(
            help="Seconds per time interval. Default: the whole time in 200 intervals.", show_default=False
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write an HTML page with plots to this file.", show_default=False)
    ] = None,
    parquet: Annotated[
        Path | None,
        typer.Option(help="Write a table with one row per tenant to this file.", show_default=False),
    ] = None,
    master: Master = "local[*]",
    conf: Conf = None,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """Report how each tenant was served: waits, throughput, shares and entitlements, retries, failures.

    Example: lonnymq spark report --lake /srv/lake --since 2030-01-01 --html report.html
    """
    from lonnymq.spark.reports.build import report as run
    from lonnymq.spark.reports.sources import rows_of_lake, rows_of_queue

    begin, end = _local(since), _local(until)
    with _spark(dsn, schema, master, conf, "reporting", lake=lake) as job:
        rows = (
            rows_of_queue(job.spark, job.options)
            if lake is None
            else rows_of_lake(job.spark, lake, begin, end)
        )
        found = run(
            job.spark,
            rows.history,
            begin,
            end,
            policies=rows.policies,
            waiting=rows.waiting,
            bucket=bucket,
        )
    if html is not None:
        found.write_html(html)
    if parquet is not None:
        found.write_parquet(parquet)
    if as_json:
        typer.echo(found.to_json())
        return
    found.print()
    for path in filter(None, (html, parquet)):
        typer.echo(f"wrote {path}")


@app.command("simulate")
def simulate_settings(
    *,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="CHANNEL.SETTING=VALUE",
            help="Another max_concurrency, rate, burst, weight or paused of a channel. Can be repeated.",
            show_default=False,
        ),
    ] = None,
    consumers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Messages that are worked on at once. Default: as many as ever were.",
            show_default=False,
        ),
    ] = None,
    max_concurrency: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Another limit of the whole queue. 0: no limit. Default: as it was.",
            show_default=False,
        ),
    ] = None,
    lake: Annotated[
        str | None,
        typer.Option(help="Simulate this archive. Default: the history in PostgreSQL.", show_default=False),
    ] = None,
    since: Since = None,
    until: Until = None,
    html: Annotated[
        Path | None, typer.Option(help="Write an HTML page with plots to this file.", show_default=False)
    ] = None,
    master: Master = "local[*]",
    conf: Conf = None,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """Simulate how long messages would have waited with other settings.

    Example: lonnymq spark simulate --lake /srv/lake --set acme.max_concurrency=4 --consumers 16
    """
    from lonnymq.simulation.scenario import Scenario, parse_settings
    from lonnymq.spark.simulation.run import simulate as run

    channels = parse_settings(changes or [])
    is_changed = channels or consumers is not None or max_concurrency is not None
    scenarios = [Scenario("proposed", channels, consumers, max_concurrency)] if is_changed else []
    with _spark(dsn, schema, master, conf, "simulating", lake=lake) as job:
        found = run(
            job.spark,
            job.finished(lake, "history", since, until),
            job.policies(lake),
            scenarios,
            waiting=job.waiting(lake),
            since=_local(since),
            until=_local(until),
            progress=job.describe,
        )
    if html is not None:
        found.write_html(html)
    if as_json:
        typer.echo(found.to_json())
        return
    found.print()
    if html is not None:
        typer.echo(f"wrote {html}")


def _print_publication(done: Publication, what: str, once: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(done))
        return
    if done.is_repeat:
        typer.echo(f"Enqueued nothing now: {once!r} was done before. Its first run:")
    typer.echo(f"Enqueued {done.created:,} {what}")
    if once is not None and not (done.is_repeat or done.created or done.duplicates or done.refused):
        typer.echo(f"  there were no rows; the name {once!r} is not used up")
    if done.duplicates:
        typer.echo(
            f"  {done.duplicates:,} more were duplicates: a message with the same dedupe key was waiting"
        )
    if done.refused:
        typer.echo(f"  {done.refused:,} more were left out because their channels were full")


lake_commands.register(app)


class _Job:
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

        return read(self.spark, lake, table, since=_local(since), until=_local(until))

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
def _spark(
    dsn: str | None,
    schema: str,
    master: str,
    conf: list[str] | None,
    description: str,
    *,
    lake: str | None = None,
) -> Iterator[_Job]:
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
            yield _Job(spark, options, progress.describe)
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


def _local(at: datetime | None) -> datetime | None:
    """Local time, unless it has a time zone."""
    return at if at is None or at.tzinfo is not None else at.astimezone()


def _settings(conf: list[str] | None) -> dict[str, str]:
    from lonnymq.errors import InvalidArgument

    found = {}
    for setting in conf or []:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InvalidArgument(f"--conf {setting} is not a setting", "write --conf name=value")
        found[name] = value
    return found


@contextmanager
def _until_interrupted(stop: threading.Event) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM sets `stop`; a second one has its usual effect."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def set_stop(*_: object) -> None:
        stop.set()
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, set_stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
