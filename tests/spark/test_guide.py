"""docs/spark.md does what it shows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.page import blocks

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "docs" / "spark.md"


@pytest.mark.slow
@pytest.mark.cluster
def test_its_blocks_print_what_stands_below_them(dsn: str) -> None:
    """On a Spark of its own, as its reader would: with the address in the environment."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.examples.page", PAGE, dsn],
        cwd=CHECKOUT,
        env=os.environ | {"ADDRESS": dsn},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = blocks(PAGE)
    assert len(shown) >= 12
    for block, printed in zip(shown, json.loads(done.stdout), strict=True):
        assert printed == block.output, f"spark.md, line {block.line}"


def test_every_block_of_it_is_run() -> None:
    assert PAGE.read_text(encoding="utf-8").count("```python") == len(blocks(PAGE))
