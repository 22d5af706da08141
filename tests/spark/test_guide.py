"""The examples of docs/spark.md run and print what the page shows."""

from pathlib import Path

import pytest

from tests.examples.page import CHECKOUT, check
from tests.spark import quick_java

PAGE = CHECKOUT / "docs" / "spark.md"


@pytest.mark.slow
@pytest.mark.cluster
def test_the_examples_print_what_the_page_shows(
    dsn: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In another Spark, as a reader would run them, with the address in the environment."""
    quick = quick_java.interpreted(tmp_path_factory.mktemp("settings"))
    check(PAGE, tmp_path, dsn, ADDRESS=dsn, LONNYMQ_SPARK_DSN=dsn, PYTHONWARNINGS="default", **quick)
    assert "acme" in (tmp_path / "report.html").read_text(encoding="utf-8")
