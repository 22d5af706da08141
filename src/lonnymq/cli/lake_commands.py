"""spark optimize and expire: look after the files of an archive. They need no Spark and no database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer

from lonnymq.cli.confirm import confirm
from lonnymq.cli.display import seconds
from lonnymq.cli.failure import BadValue
from lonnymq.cli.options import Json, Yes, print_json
from lonnymq.formatting import plural

Catalog = Annotated[
    str | None,
    typer.Option(
        envvar="LONNYMQ_ICEBERG_CATALOG",
        help="Iceberg catalog, as NAME or NAME.NAMESPACE, from pyiceberg's configuration. Default: a file in"
        " the lake.",
        show_default=False,
    ),
]
Lake = Annotated[str, typer.Argument(help="Folder or object store URL of the archive.")]


def optimize(
    lake: Lake,
    *,
    file_mb: Annotated[int, typer.Option(min=1, help="Size of a file to aim at, in MB.")] = 256,
    catalog: Catalog = None,
    as_json: Json = False,
) -> None:
    """Make one file per day out of many small ones. The archive may run meanwhile.

    Example: lonnymq spark optimize /srv/lake
    """
    from lonnymq.spark.lake.maintain_lake import optimize as run

    with _progress("optimizing") as show:
        done = run(lake, file_bytes=file_mb * 1024 * 1024, catalog=catalog, on_table=show)
    if as_json:
        print_json({"lake": lake, "tables": [asdict(table) for table in done]})
        return
    for table in done:
        typer.echo(f"{table.table}: {plural(table.files_before, 'file')}, now {table.files_after:,}")


def expire(
    lake: Lake,
    *,
    keep: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long rows are kept, such as 90d.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count. Nothing changes.")] = False,
    catalog: Catalog = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Remove rows of days (UTC) that are too old, and files that have not been needed for a week.

    Example: lonnymq spark expire /srv/lake --keep 90d --yes
    """
    from lonnymq.spark.lake.maintain_lake import expire as run

    if keep is None:
        raise BadValue("how long should rows be kept?", "give --keep, such as --keep 90d")
    kept = timedelta(seconds=seconds(keep))
    if not dry_run:
        confirm(f"Remove all rows older than {keep} from {lake}?", yes=yes)
    with _progress("expiring") as show:
        done = run(lake, kept, is_dry_run=dry_run, catalog=catalog, on_table=show)
    if as_json:
        print_json({"lake": lake, "is_dry_run": dry_run, "tables": [asdict(table) for table in done]})
        return
    removed, deleted = ("would remove", "delete") if dry_run else ("removed", "deleted")
    for table in done:
        typer.echo(
            f"{table.table}: {removed} {plural(table.rows, 'row')} of {plural(table.days, 'day')},"
            f" {deleted} {plural(table.deleted_files, 'unused file')}"
        )


@contextmanager
def _progress(doing: str) -> Iterator[Callable[[str], None]]:
    from rich.console import Console

    with Console(stderr=True).status(f"{doing} ...") as status:
        yield lambda table: status.update(f"{doing} {table} ...")
