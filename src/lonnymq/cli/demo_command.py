"""demo: how twenty tenants share a queue, on a temporary PostgreSQL server."""

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

    from lonnymq.demo import OnProgress

BUCKET_S = 0.25
# This Spark session lives for seconds: optimising compilation would not pay off.
FAST_START = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
SUGGESTED_COMMANDS = ("lonnymq channels list", "lonnymq history --limit 20", "lonnymq dead list")


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    *,
    spark: Annotated[
        bool, typer.Option(help="Archive the history and write a report with Spark at the end.")
    ] = True,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the server running afterwards, until Ctrl-C.")
    ] = False,
    web: Annotated[
        bool,
        typer.Option("--web", help="Let the tenants go on, and show them in the dashboard, until Ctrl-C."),
    ] = False,
    port: Annotated[
        int,
        typer.Option(min=0, max=65_535, help="With --web: the port of the dashboard; 0: one that is free."),
    ] = 8080,
    as_json: Json = False,
) -> None:
    """Watch how a queue serves twenty tenants fairly, one of them noisy.

    Starts a temporary PostgreSQL server and two workers, and removes them afterwards. Needs no database of
    yours.

    Example: lonnymq demo --web
    """
    if web:
        _serve_dashboard(port, as_json=as_json)
        return
    from rich.console import Console

    from lonnymq.cli import demo_view as view
    from lonnymq.demo import run, temporary_server

    screen = Console(stderr=True)
    screen.print("Starting a temporary PostgreSQL server and two workers ...")
    with temporary_server() as server:
        with _live_table(screen) as show:
            result = run(server.dsn(), on_progress=show)
        if not as_json:
            page = Console(highlight=False)
            page.print(view.table(result))
            page.print(view.summary(result), soft_wrap=not page.is_terminal)
        report = _report(server.dsn(), screen, is_shown=not as_json) if spark else None
        if as_json:
            print_json(asdict(result) | ({} if report is None else asdict(report)))
        if keep:
            _wait_for_ctrl_c(server.dsn(), screen)
    if not as_json:
        typer.echo("Stopped the server and removed its folder.")


def _serve_dashboard(port: int, *, as_json: bool) -> None:
    from lonnymq.cli.web_command import DEFAULT_HOST
    from lonnymq.demo import live, temporary_server
    from lonnymq.web import create_app
    from lonnymq.web.serve import listen, rule_for, serve, url_of

    rule = rule_for(DEFAULT_HOST, os.environ)
    with listen(DEFAULT_HOST, port) as listening:
        note("Starting a temporary PostgreSQL server and two workers ...")
        with temporary_server() as server, live(server.dsn()) as queue:
            app = create_app(queue, rule)
            url = url_of(DEFAULT_HOST, listening)
            note(f"The dashboard is at {url} until Ctrl-C.")
            if as_json:
                print_json({"url": url})
            serve(app, listening)
    note("Stopped the server and removed its folder.")


@contextmanager
def _live_table(screen: Console) -> Iterator[OnProgress]:
    from rich.live import Live

    from lonnymq.cli import demo_view as view

    with Live(console=screen, refresh_per_second=4, transient=True) as live:
        counter = view.ServedCounter()
        yield lambda channels: live.update(view.progress(counter.progress(channels)))


def _wait_for_ctrl_c(dsn: str, screen: Console) -> None:
    """Keep the server running, with all messages of the demo in the history."""
    import signal

    typer.echo("\nThe server runs until Ctrl-C. Try this in another terminal:\n", err=True)
    for command in (f"export LONNYMQ_DSN='{dsn}'", *SUGGESTED_COMMANDS):
        typer.echo(f"  {command}", err=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        screen.print()


@dataclass(frozen=True)
class _SparkReport:
    lake: str
    report: str


def _report(dsn: str, screen: Console, *, is_shown: bool) -> _SparkReport | None:
    """Archive the history of the demo and write a report. Both are kept. None if Spark is not installed."""
    from lonnymq.demo.tasks import DSN_VARIABLE
    from lonnymq.spark.sessions.java import JavaMissing

    os.environ[DSN_VARIABLE] = dsn
    try:
        with screen.status("Starting Spark ...") as status:
            found = _archive_and_report(status.update)
    except (ModuleNotFoundError, JavaMissing) as error:
        note(f"Skipping the archive and the report with Spark: {sentence(error)}")
        return None
    if is_shown:
        typer.echo(f"Archive: {found.lake}\nReport with plots: {found.report}")
    return found


def _archive_and_report(show_status: Callable[[str], None]) -> _SparkReport:
    from lonnymq.demo.tasks import DSN_VARIABLE
    from lonnymq.spark import archive, report, session
    from lonnymq.spark.reports.sources import rows_of_lake

    spark = session(**FAST_START)
    folder = Path(tempfile.mkdtemp(prefix="lonnymq-report-"))
    page, lake = folder / "report.html", folder / "lake"
    try:
        show_status("Archiving the history ...")
        archive(spark, str(lake), {"dsnEnv": DSN_VARIABLE})
        show_status("Writing the report ...")
        rows = rows_of_lake(spark, str(lake))
        found = report(spark, rows.history, policies=rows.policies, waiting=rows.waiting, bucket=BUCKET_S)
    finally:
        spark.stop()
    found.write_html(page)
    return _SparkReport(str(lake), str(page))
