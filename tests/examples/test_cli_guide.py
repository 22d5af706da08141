"""docs/cli.md shows or mentions every command."""

from __future__ import annotations

import re

from typer.main import get_command

from lonnymq.cli.all_commands import app
from tests.examples.page import CHECKOUT, blocks

PAGE = CHECKOUT / "docs" / "cli.md"
SHOWN = ("install", "queue", "enqueue", "channels", "messages", "dead", "stats", "history", "doctor")


def test_it_shows_or_mentions_every_command() -> None:
    shown = "\n".join(block.code for block in blocks(PAGE) if block.language == "sh")
    text = PAGE.read_text(encoding="utf-8")
    for name, command in getattr(get_command(app), "commands", {}).items():
        for part in getattr(command, "commands", [""]):
            full = f"{name} {part}".strip()
            mentioned = re.search(rf"`(lonnymq )?{full}\b", text)
            assert f"lonnymq {full}" in shown if name in SHOWN else mentioned, full
