"""What came of a command for each of the messages it was given."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from lonnymq.cli.failure import FAILURE
from lonnymq.cli.options import print_json

if TYPE_CHECKING:
    from lonnymq.commands import Outcome


def print_outcomes(
    outcomes: Sequence[Outcome], good: Collection[str], means: Mapping[str, str], *, as_json: bool
) -> None:
    """A line each. The command fails if any is not among the good ones."""
    for outcome in outcomes:
        if as_json:
            print_json({"id": outcome.id, "result": outcome.result})
        else:
            typer.echo(f"{outcome.id} {outcome.result}: {means[outcome.result]}")
    if any(outcome.result not in good for outcome in outcomes):
        raise typer.Exit(FAILURE)
