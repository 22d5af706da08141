"""docs/cli.md tells of all there is."""

from __future__ import annotations

from typer.main import get_command

from lonnymq.cli.app import app
from tests.examples.page import CHECKOUT, blocks

PAGE = CHECKOUT / "docs" / "cli.md"
SHOWN = ("install", "queue", "enqueue", "channels", "messages", "dead", "stats", "history", "doctor")
TOLD = ("upgrade", "verify", "uninstall", "sql")


def test_it_has_an_example_of_every_command() -> None:
    shown = "\n".join(block.code for block in blocks(PAGE) if block.language == "sh")
    told = PAGE.read_text(encoding="utf-8")
    commands = getattr(get_command(app), "commands", {})
    for name in (*SHOWN, *TOLD):
        for part in getattr(commands[name], "commands", [""]):
            full = f"{name} {part}".strip()
            assert f"lonnymq {full}" in shown if name in SHOWN else full in told, full
