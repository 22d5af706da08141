"""SQL files stay short and narrow: see CONTRIBUTING.md."""

from pathlib import Path

import pytest

import lonnymq

SQL = Path(lonnymq.__file__).parent / "sql"
LINE_MAX = 120
FUNCTION_MAX = 100
"""The limit for lines outside of comments; the aim is about 80."""


@pytest.mark.parametrize("path", sorted(SQL.rglob("*.sql")), ids=lambda path: path.stem)
def test_a_file_is_short_and_narrow(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert [line for line in lines if len(line) > LINE_MAX] == []
    if "functions" in path.parts:
        assert sum(not line.startswith("--") for line in lines) <= FUNCTION_MAX
