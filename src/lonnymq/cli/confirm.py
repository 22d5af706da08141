"""Nothing is destroyed without a yes."""

from __future__ import annotations

import sys

import typer

from lonnymq.cli.failure import NotConfirmed


def confirm(question: str, *, yes: bool) -> None:
    """Go on if the answer is yes, or was given before; where there is no one to ask, it has to be."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise NotConfirmed("this cannot be undone and there is no one to ask", "pass --yes")
    typer.confirm(question, abort=True, err=True)
