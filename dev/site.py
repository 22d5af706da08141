"""Builds the documentation site with zensical, from the files of the checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from dev.environment import BIN, CHECKOUT

BUILT = CHECKOUT / "build" / "docs"
TOP = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")
FOLDERS = ("docs", "examples")
# typer writes a list of each group's commands with shortened help; the full help follows it on the page.
COMMAND_LIST = re.compile(r"^\*\*Commands\*\*:\n\n(\* .*\n)+\n", re.MULTILINE)
COLOUR = re.compile(r"\x1b\[[\d;]*m")


class SiteFailed(Exception):
    """The site could not be built; the text says why."""


def build(folder: Path) -> Path:
    """Build the site in the folder and return its first page.

    The pages are copied in the layout of the checkout, so that links between them work in both places.
    """
    pages = folder / "pages"
    shutil.rmtree(folder, ignore_errors=True)
    pages.mkdir(parents=True)
    for name in TOP:
        shutil.copy(CHECKOUT / name, pages)
    for name in FOLDERS:
        shutil.copytree(CHECKOUT / name, pages / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CHECKOUT / "mkdocs.yml", folder)
    _write_commands(pages / "docs" / "reference" / "cli.md")
    _run([BIN / "zensical", "build", "--strict", "--config-file", folder / "mkdocs.yml"])
    (folder / "site" / "404.html").unlink()  # it works only at the root of a web server
    return folder / "site" / "index.html"


def _write_commands(page: Path) -> None:
    """Write the page that lists all commands. It is not in git, where it would change with every option."""
    typer: list[str | Path] = [BIN / "python", "-m", "typer", "lonnymq.cli.all_commands", "utils", "docs"]
    _run([*typer, "--name", "lonnymq", "--title", "The command line", "--output", page])
    text = page.read_text(encoding="utf-8")
    page.write_text(COMMAND_LIST.sub("", text), encoding="utf-8")


def _run(command: list[str | Path]) -> None:
    outcome = subprocess.run(
        command,
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},  # zensical loads dev.reference
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if outcome.returncode != 0:
        raise SiteFailed(COLOUR.sub("", outcome.stdout))
