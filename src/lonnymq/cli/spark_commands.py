"""spark: load files, archive the history, report on it, simulate other settings, and replay it."""

from __future__ import annotations

import typer

from lonnymq.cli.archive_command import archive
from lonnymq.cli.lake_commands import expire, optimize
from lonnymq.cli.load_commands import load, replay
from lonnymq.cli.report_commands import report, simulate_settings

app = typer.Typer(
    help="Load files, archive the history, report on it and replay it, with Spark.", no_args_is_help=True
)
app.command()(load)
app.command()(archive)
app.command()(replay)
app.command()(report)
app.command("simulate")(simulate_settings)
app.command()(optimize)
app.command()(expire)
