"""The walk-through in docs/sql.md, run in a real psql; on the oldest PostgreSQL too."""

from pathlib import Path

from tests.examples.page import CHECKOUT, check

PAGE = CHECKOUT / "docs" / "sql.md"


def test_it_shows_what_the_page_shows(dsn: str, tmp_path: Path) -> None:
    assert check(PAGE, tmp_path, dsn) == ""
