"""demo: three tenants on a PostgreSQL of its own, and what fairness does for them."""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.options import Json, print_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from lonnymq.demo import Outcome
    from lonnymq.demo.service import Record

VARIABLE = "LONNYMQ_DEMO_DSN"
BUCKET_S = 0.1  # it is over in seconds


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    *,
    spark: Annotated[bool, typer.Option(help="End with an archive and a report on Spark.")] = True,
    as_json: Json = False,
) -> None:
    """Show three tenants served fairly, on a PostgreSQL made for it and removed afterwards."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from lonnymq.demo import TENANTS, run, temporary_server

    screen = Console(stderr=True)
    screen.print("A PostgreSQL starts in a temporary folder ...")
    columns = TextColumn("{task.description:>12}"), BarColumn(), MofNCompleteColumn()
    with temporary_server() as server:
        with Progress(*columns, console=screen) as progress:
            bars = {
                tenant.channel: progress.add_task(tenant.channel, total=tenant.messages) for tenant in TENANTS
            }

            def watch(record: Record) -> None:
                for channel, bar in bars.items():
                    progress.update(bar, completed=record.order.count(channel))

            shown = run(server.dsn(), watch=watch)
        if not as_json:
            Console().print(_table(shown))
            typer.echo(_summary(shown))
        reported = _report(server.dsn(), screen, is_shown=not as_json) if spark else None
    if as_json:
        print_json(asdict(shown) | ({} if reported is None else asdict(reported)))
    else:
        typer.echo("The server is stopped and its folder removed.")


@dataclass(frozen=True)
class _Reported:
    lake: str
    report: str


def _report(dsn: str, screen: Console, *, is_shown: bool) -> _Reported:
    """Archive the demo's history and report on it. Both stay, to be looked at."""
    from lonnymq.spark import archive, lake, report, session

    folder = Path(tempfile.mkdtemp(prefix="lonnymq-report-"))
    page, tables = folder / "report.html", folder / "lake"
    os.environ[VARIABLE] = dsn
    with screen.status("Spark starts ...") as status:
        spark = session()
        try:
            status.update("The history goes into the lake ...")
            archive(spark, str(tables), {"dsnEnv": VARIABLE})
            status.update("and is reported on ...")
            found = report(spark, lake.read(spark, f"{tables}/history"), bucket=BUCKET_S)
        finally:
            spark.stop()
    found.write_html(page)
    if is_shown:
        found.print()
        typer.echo(f"Archived on Spark into {tables}\nReport with plots: {page}")
    return _Reported(str(tables), str(page))


def _table(shown: Outcome) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, title="After how many messages was a tenant done?")
    table.add_column("tenant", no_wrap=True)
    for name in ("sent", "served", "dead", "done at", "with FIFO", "at once", "limit"):
        table.add_column(name, justify="right", no_wrap=True)
    for tenant in shown.tenants:
        numbers = (tenant.messages, tenant.completed, tenant.dead, tenant.last_position, tenant.fifo_position)
        limit = str(tenant.max_concurrency or "-")
        table.add_row(tenant.channel, *map(str, numbers), str(tenant.most_held), limit)
    return table


def _summary(shown: Outcome) -> str:
    total = sum(tenant.messages for tenant in shown.tenants)
    loud, *others = shown.tenants
    names = " and ".join(tenant.channel for tenant in others)
    return (
        f"{total} messages in {shown.seconds:.1f} s. {loud.channel} sent its {loud.messages} first;"
        f" {names} did not wait for them."
    )
