"""The documentation as a site, made by zensical of what is in the checkout."""

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
# A list of a group's commands, with the first words on each; all of it comes below.
CUT_SHORT = re.compile(r"^\*\*Commands\*\*:\n\n(\* .*\n)+\n", re.MULTILINE)
COLOUR = re.compile(r"\x1b\[[\d;]*m")


class SiteFailed(Exception):
    """The site could not be built; the text says why."""


def build(folder: Path) -> Path:
    """Build the site within the folder and return its first page.

    The pages lie there as they do in the checkout, so that a link between two of them is right in both.
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
    (folder / "site" / "404.html").unlink()  # for servers alone, at the root of one
    return folder / "site" / "index.html"


def _write_commands(page: Path) -> None:
    """Not in git: who reads there has the guide, and a copy of --help would change with every option."""
    typer: list[str | Path] = [BIN / "python", "-m", "typer", "lonnymq.cli.all_commands", "utils", "docs"]
    _run([*typer, "--name", "lonnymq", "--title", "The command line", "--output", page])
    text = page.read_text(encoding="utf-8")
    page.write_text(CUT_SHORT.sub("", text), encoding="utf-8")


def _run(command: list[str | Path]) -> None:
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},  # zensical loads dev.reference
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SiteFailed(COLOUR.sub("", done.stdout))
