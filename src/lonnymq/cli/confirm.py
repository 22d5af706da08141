"""Asks before something is destroyed."""

from __future__ import annotations

import sys

import typer

from lonnymq.cli.failure import NotConfirmed


def confirm(question: str, *, yes: bool) -> None:
    """Return if `yes` was given or the user agrees. Without a terminal, `yes` is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise NotConfirmed(
            "this cannot be undone, and without a terminal nobody can confirm it", "pass --yes"
        )
    typer.confirm(question, abort=True, err=True)
