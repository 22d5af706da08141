"""docs/spark.md does what it shows."""

from pathlib import Path

import pytest

from tests.examples.page import CHECKOUT, check

PAGE = CHECKOUT / "docs" / "spark.md"


@pytest.mark.slow
@pytest.mark.cluster
def test_its_blocks_print_what_stands_below_them(dsn: str, tmp_path: Path) -> None:
    """On a Spark of its own, as its reader would: with the address in the environment, of Spark too."""
    check(PAGE, tmp_path, dsn, ADDRESS=dsn, LONNYMQ_SPARK_DSN=dsn, PYTHONWARNINGS="default")
    assert "acme" in (tmp_path / "report.html").read_text(encoding="utf-8")
