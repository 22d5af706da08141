"""docs/cli.md does what it shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.main import get_command

from lonnymq.cli.app import app
from lonnymq.embedded import Server

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
BLOCK = re.compile(
    r"^```sh\n(?P<code>.*?)^```\n(?:```text\n(?P<output>.*?)^```\n)?", re.DOTALL | re.MULTILINE
)
# What is another time each time: ages, durations, moments, and the blanks that align them.
PASSING = [
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<moment>"),
    (r'("\w+_(?:at|ms)"): [1-9]\d*', r"\1: <number>"),
    (r"\bnow\b|\d+ (?:ms|s)(?: ago)?\b", "<age>"),
    (r"in \d+ min", "in <age>"),
    (r"\d+ of \d+ in use|\d+ rows are left", "<number>"),
    (r'File "[^"]*shop.py"', "File <shop.py>"),
    (r"PostgreSQL \d+\.\d+", "PostgreSQL <version>"),
    (r"<age>\s+<age>|<age>", "<age>"),
    (r"[ ]+", " "),
]


@dataclass(frozen=True)
class Block:
    code: str
    output: str
    line: int


def blocks() -> list[Block]:
    text = PAGE.read_text(encoding="utf-8")
    return [
        Block(found["code"], found["output"] or "", text.count("\n", 0, found.start()) + 1)
        for found in BLOCK.finditer(text)
    ]


def lasting(text: str) -> str:
    for pattern, instead in PASSING:
        text = re.sub(pattern, instead, text)
    return text


@pytest.fixture
def dsn() -> Iterator[str]:
    """On a server as people have it, which doctor finds nothing wrong with."""
    folder = Path(tempfile.mkdtemp(prefix="lonnymq-guide-"))
    server = Server(folder)
    try:
        with server:
            yield server.dsn()
    finally:
        server.erase()
        shutil.rmtree(folder, ignore_errors=True)


def printed(code: str, folder: Path, dsn: str) -> str:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LONNYMQ_", "DATABASE_URL"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=folder,
        env=clean | {"LONNYMQ_DSN": dsn, "NO_COLOR": "1", "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_its_blocks_print_what_stands_below_them(dsn: str, tmp_path: Path) -> None:
    for block in blocks():
        assert lasting(printed(block.code, tmp_path, dsn)) == lasting(block.output), (
            f"cli.md, line {block.line}"
        )


def test_every_block_of_it_is_run() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.count("```sh\n") == len(blocks()) > 10
    assert text.count("```text\n") == sum(bool(block.output) for block in blocks())


SHOWN = ("install", "queue", "enqueue", "channels", "messages", "dead", "stats", "history", "doctor")
TOLD = ("upgrade", "verify", "uninstall", "sql")


def test_it_has_an_example_of_every_command() -> None:
    shown = "\n".join(block.code for block in blocks())
    told = PAGE.read_text(encoding="utf-8")
    commands = getattr(get_command(app), "commands", {})
    for name in (*SHOWN, *TOLD):
        for part in getattr(commands[name], "commands", [""]):
            full = f"{name} {part}".strip()
            assert f"lonnymq {full}" in shown if name in SHOWN else full in told, full


def test_what_it_links_to_is_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^a-z ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for link in re.findall(r"\]\(([^)]+)\)", text):
        file, _, anchor = link.partition("#")
        assert (PAGE.parent / file).exists() if file else anchor in anchors, link
