"""What mypy makes of a user's code: the right uses pass, and each wrong one is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
MARK = re.compile(r"# error: (?P<codes>[a-z, -]+)$")
REFUSAL = re.compile(r"^[^:]+:(?P<line>\d+): error: .*\[(?P<code>[a-z-]+)\]$")


def refusals(program: str, folder: Path) -> dict[int, set[str]]:
    """The codes of mypy's errors, by line."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--no-error-summary",
            "--hide-error-context",
            "program.py",
        ],
        cwd=folder,  # none of this checkout's settings
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    found: dict[int, set[str]] = {}
    for line in done.stdout.splitlines():
        if refusal := REFUSAL.match(line):
            found.setdefault(int(refusal["line"]), set()).add(refusal["code"])
        else:
            assert ": note: " in line, line
    return found


def test_right_uses_are_of_the_right_types(tmp_path: Path) -> None:
    assert refusals((HERE / "right_uses.py").read_text(encoding="utf-8"), tmp_path) == {}


def test_each_wrong_use_is_refused(tmp_path: Path) -> None:
    program = (HERE / "wrong_uses.txt").read_text(encoding="utf-8")
    marked = {
        number: set(mark["codes"].split(", "))
        for number, line in enumerate(program.splitlines(), start=1)
        if (mark := MARK.search(line))
    }
    assert len(marked) > 40
    assert refusals(program, tmp_path) == marked
