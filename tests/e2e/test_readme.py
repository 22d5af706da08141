"""The commands of README.md are commands; tests/examples runs the rest of it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_commands_of_the_readme_are_commands() -> None:
    run = README.parent / "run"
    names = set(re.findall(r"\./run ([a-z]+)", README.read_text(encoding="utf-8")))
    assert names >= {"demo", "test"}
    done = subprocess.run([run, "--help"], capture_output=True, text=True, check=False, env=os.environ)
    for name in names:
        assert f"\n  {name} " in done.stdout
