"""mypy accepts correct use of the library, and reports each mistake."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
MARK = re.compile(r"# error: (?P<codes>[a-z, -]+)$")
ERROR = re.compile(r"^[^:]+:(?P<line>\d+): error: .*\[(?P<code>[a-z-]+)\]$")


def mypy_errors(program: str, folder: Path) -> dict[int, set[str]]:
    """The codes of mypy's errors, by line."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--enable-error-code=unused-awaitable",  # for enqueue_async, which returns more than a coroutine
            "--no-error-summary",
            "--hide-error-context",
            "program.py",
        ],
        cwd=folder,  # outside the checkout, so that its settings do not apply
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    found: dict[int, set[str]] = {}
    for line in done.stdout.splitlines():
        if error := ERROR.match(line):
            found.setdefault(int(error["line"]), set()).add(error["code"])
        else:
            assert ": note: " in line, line
    return found


def test_correct_uses_have_the_right_types(tmp_path: Path) -> None:
    assert mypy_errors((HERE / "right_uses.py").read_text(encoding="utf-8"), tmp_path) == {}


def test_each_mistake_is_reported(tmp_path: Path) -> None:
    program = (HERE / "wrong_uses.txt").read_text(encoding="utf-8")
    marked = {
        number: set(mark["codes"].split(", "))
        for number, line in enumerate(program.splitlines(), start=1)
        if (mark := MARK.search(line))
    }
    assert len(marked) > 40
    assert mypy_errors(program, tmp_path) == marked
