"""demo: twenty tenants on a PostgreSQL of its own, and what fairness does for them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.failure import sentence
from lonnymq.cli.options import Json, print_json
from lonnymq.cli.printing import note

if TYPE_CHECKING:
    from rich.console import Console

    from lonnymq.demo import Watch

BUCKET_S = 0.25
# It lives for seconds: what Java compiles a second time, to run it faster, would never pay.
QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
LOOK_AROUND = ("lonnymq channels list", "lonnymq history --limit 20", "lonnymq dead list")


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    *,
    spark: Annotated[bool, typer.Option(help="End with an archive and a report on Spark.")] = True,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the server running, to look around, until Ctrl-C.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show twenty tenants served fairly, on a PostgreSQL made for it and removed afterwards.

    Example: lonnymq demo --no-spark
    """
    from rich.console import Console

    from lonnymq.cli import demo_view as view
    from lonnymq.demo import run, temporary_server

    screen = Console(stderr=True)
    screen.print("A PostgreSQL starts in a temporary folder, and two workers ...")
    with temporary_server() as server:
        with _watching(screen) as watch:
            shown = run(server.dsn(), watch=watch)
        if not as_json:
            page = Console(highlight=False)
            page.print(view.table(shown))
            page.print(view.summary(shown), soft_wrap=not page.is_terminal)
        reported = _report(server.dsn(), screen, is_shown=not as_json) if spark else None
        if as_json:
            print_json(asdict(shown) | ({} if reported is None else asdict(reported)))
        if keep:
            _stay(server.dsn(), screen)
    if not as_json:
        typer.echo("The server is stopped and its folder removed.")


@contextmanager
def _watching(screen: Console) -> Iterator[Watch]:
    from rich.live import Live

    from lonnymq.cli import demo_view as view

    with Live(console=screen, refresh_per_second=4, transient=True) as live:
        seen = view.Seen()
        yield lambda channels: live.update(view.progress(seen.after(channels)))


def _stay(dsn: str, screen: Console) -> None:
    """The queue stays as it is, with all that the tenants sent in its history."""
    import signal

    typer.echo("\nThe server stays until Ctrl-C. In another terminal:\n", err=True)
    for command in (f"export LONNYMQ_DSN='{dsn}'", *LOOK_AROUND):
        typer.echo(f"  {command}", err=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        screen.print()


@dataclass(frozen=True)
class _Reported:
    lake: str
    report: str


def _report(dsn: str, screen: Console, *, is_shown: bool) -> _Reported | None:
    """Archive the demo's history and report on it. Both stay, to be looked at. None: Spark is not there."""
    from lonnymq.demo.tasks import DSN_VARIABLE
    from lonnymq.spark.sessions.java import JavaMissing

    os.environ[DSN_VARIABLE] = dsn
    try:
        with screen.status("Spark starts ...") as status:
            found = _reported(status.update)
    except (ModuleNotFoundError, JavaMissing) as error:
        note(f"The archive and report on Spark are left out: {sentence(error)}")
        return None
    if is_shown:
        typer.echo(f"Archived on Spark into {found.lake}\nReport with plots: {found.report}")
    return found


def _reported(say: Callable[[str], None]) -> _Reported:
    from lonnymq.demo.tasks import DSN_VARIABLE
    from lonnymq.spark import archive, report, session
    from lonnymq.spark.lake import delta_table

    spark = session(**QUICK)
    folder = Path(tempfile.mkdtemp(prefix="lonnymq-report-"))
    page, tables = folder / "report.html", folder / "lake"
    try:
        say("The history goes into the lake ...")
        archive(spark, str(tables), {"dsnEnv": DSN_VARIABLE})
        say("and is reported on ...")
        found = report(spark, delta_table.read(spark, f"{tables}/history"), bucket=BUCKET_S)
    finally:
        spark.stop()
    found.write_html(page)
    return _Reported(str(tables), str(page))
