"""spark archive: copy the history into a lake, once or until it is stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.lake_commands import Catalog
from lonnymq.cli.options import DEFAULT_SCHEMA, Dsn, Json, Schema, print_json
from lonnymq.cli.spark_job import Conf, Master, spark_job
from lonnymq.formatting import plural

if TYPE_CHECKING:
    from lonnymq.spark.lake.archive import ArchiveProgress


class TableFormat(StrEnum):
    DELTA = "delta"
    ICEBERG = "iceberg"


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
    catalog: Catalog = None,
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
    with spark_job(dsn, schema, master, conf, f"archiving into {lake}") as job, _until_interrupted(stop):

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
