"""The commands in README.md exist and its numbers were measured; tests/examples runs the rest."""

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


def test_its_numbers_are_those_of_the_benchmarks() -> None:
    told = " ".join(README.read_text(encoding="utf-8").split())
    measured = (README.parent / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    found = re.search(r"Here the median is (\d+), and the worst is (\d+)", told)
    assert found
    assert f"| lonnymq | {found[1]} | {found[2]} |" in measured
