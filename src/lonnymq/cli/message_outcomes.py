"""Prints the outcome of a command for each message it was given."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from lonnymq.cli.failure import FAILURE
from lonnymq.cli.options import print_json

if TYPE_CHECKING:
    from lonnymq.commands import Outcome


def print_outcomes(
    outcomes: Sequence[Outcome], good: Collection[str], meanings: Mapping[str, str], *, as_json: bool
) -> None:
    """One line per message. The command fails if any outcome is not among the good ones."""
    for outcome in outcomes:
        if as_json:
            print_json({"id": outcome.id, "result": outcome.result})
        else:
            typer.echo(f"{outcome.id} {outcome.result}: {meanings[outcome.result]}")
    if any(outcome.result not in good for outcome in outcomes):
        raise typer.Exit(FAILURE)
