"""What README.md shows works as pasted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_python_of_the_readme_runs() -> None:
    text = README.read_text(encoding="utf-8")
    [(program, output)] = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    # Not pytest's own folder: under root, the account that a server runs as cannot reach that one.
    with tempfile.TemporaryDirectory(prefix="lonnymq-e2e-") as folder:
        Path(folder).chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-"], input=program, cwd=folder, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout == output


def test_what_the_readme_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8"))
    assert "docs/sql.md" in links
    for link in links:
        assert (README.parent / link).exists(), link


def test_the_commands_of_the_readme_are_commands() -> None:
    run = README.parent / "run"
    names = set(re.findall(r"^\./run ([a-z]+)", README.read_text(encoding="utf-8"), re.MULTILINE))
    assert names >= {"demo", "test"}
    done = subprocess.run([run, "--help"], capture_output=True, text=True, check=False, env=os.environ)
    for name in names:
        assert name in done.stdout + done.stderr
