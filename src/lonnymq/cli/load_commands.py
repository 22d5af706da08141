"""spark load and replay: enqueue the rows of files, or finished messages again."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.options import DEFAULT_SCHEMA, Dsn, Json, Schema, print_json
from lonnymq.cli.spark_job import Conf, Master, Since, Until, local_time, spark_job

if TYPE_CHECKING:
    from lonnymq.spark.sink.publication import Publication

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


class FileFormat(StrEnum):
    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    DELTA = "delta"


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

    with spark_job(dsn, schema, master, conf, f"loading {path}") as job:
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

    with spark_job(dsn, schema, master, conf, "replaying") as job:
        done = run(
            job.finished(lake, "dead" if dead else "history", since, until),
            job.options,
            channels=channel,
            outcomes=outcome,
            since=local_time(since),
            until=local_time(until),
            into=into,
            once=once,
            drop_full=drop_full,
        )
    _print_publication(done, "messages again", once, as_json=as_json)


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
