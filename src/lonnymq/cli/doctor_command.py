"""doctor: find problems of a queue and its database, and say how to fix them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from lonnymq.cli.failure import FAILURE
from lonnymq.cli.failure import SCHEMA as BAD_SCHEMA
from lonnymq.cli.options import DEFAULT_SCHEMA, Dsn, Json, Schema
from lonnymq.cli.printing import note, print_records, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lonnymq.doctor.checks import Finding

STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(*, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """Find problems of the queue and its database, and say how to fix them.

    Changes nothing. Exits with code 1 if there is a problem, and with 4 if the schema is missing or this
    package does not work with it.

    Example: lonnymq doctor
    """
    from lonnymq.cli.database import connect
    from lonnymq.doctor.checks import CheckStatus, Database
    from lonnymq.doctor.run_checks import SCHEMA_CHECK, run_checks
    from lonnymq.schema_name import check_schema_name

    check_schema_name(schema)
    with connect(dsn) as conn:
        found = run_checks(Database(conn, schema))
    if as_json:
        print_records(found)
    else:
        _print(found)
    problems = [finding.check for finding in found if finding.status == CheckStatus.PROBLEM]
    if problems:
        raise typer.Exit(BAD_SCHEMA if SCHEMA_CHECK in problems else FAILURE)


def _print(found: Sequence[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for finding in found:
        text = f"{finding.message}\n-> {finding.advice}" if finding.advice else finding.message
        table.add_row(Text(finding.status, STYLES[finding.status]), finding.check, Text(text))
    show(table)
    count = {status: sum(finding.status == status for finding in found) for status in STYLES}
    note(", ".join(_status_count(number, status) for status, number in count.items() if number))


def _status_count(number: int, status: str) -> str:
    return f"{number} {status}" if number == 1 or status == "ok" else f"{number} {status}s"
