"""doctor: what is wrong with a queue and the database it is in, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from lonnymq.cli.failure import FAILURE
from lonnymq.cli.failure import SCHEMA as BAD_SCHEMA
from lonnymq.cli.options import Dsn, Json, Schema
from lonnymq.cli.printing import note, print_records, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lonnymq.cli.doctor.checks import Finding

SCHEMA = "lonnymq"
STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(*, dsn: Dsn = None, schema: Schema = SCHEMA, as_json: Json = False) -> None:
    """Look at the database and the queue in it, and say what is wrong and what to do about it.

    It changes nothing. Ends with 1 if there is a problem, with 4 if the schema is missing or does not fit.

    Example: lonnymq doctor
    """
    from lonnymq.cli.database import connect
    from lonnymq.cli.doctor.checks import Patient, Status
    from lonnymq.cli.doctor.run_checks import SCHEMA_CHECK, examine
    from lonnymq.install.sql_text import check_schema_name

    check_schema_name(schema)
    with connect(dsn) as conn:
        found = examine(Patient(conn, schema))
    if as_json:
        print_records(found)
    else:
        _print(found)
    problems = [finding.check for finding in found if finding.status == Status.PROBLEM]
    if problems:
        raise typer.Exit(BAD_SCHEMA if SCHEMA_CHECK in problems else FAILURE)


def _print(found: Sequence[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for finding in found:
        says = f"{finding.says}\n-> {finding.advice}" if finding.advice else finding.says
        table.add_row(Text(finding.status, STYLES[finding.status]), finding.check, Text(says))
    show(table)
    count = {status: sum(finding.status == status for finding in found) for status in STYLES}
    note(", ".join(_counted(number, status) for status, number in count.items() if number))


def _counted(number: int, status: str) -> str:
    return f"{number} {status}" if number == 1 or status == "ok" else f"{number} {status}s"
