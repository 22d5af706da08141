"""What ./run chaos refuses before it starts anything."""

from pathlib import Path

import pytest

from chaos.options import from_arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--messages", "abc"], "'abc' is not a whole number from 1 to 100,000,000"),
        (["--minutes", "nan"], "'nan' is not a number above 0"),
        (["--minutes", "-1"], "'-1' is not a number above 0"),
        (["--wait", "0"], "'0' is not a number above 0, and at most 3,600"),
        (["--consumers", "1000"], "'1000' is not a whole number from 1 to 25"),
        (["--pg", "99"], "no PostgreSQL 99 server was found"),
        (["--pg", "12"], "'12' is not a whole number from 15 to 99"),
        (["--only", ","], "',' names no fault; see --list"),
        (["--only", "cut,flood"], "there is no fault 'flood'; see --list"),
        (["--engine", ""], "invalid choice"),
        (["--engine", "unfair", "--without", "cut"], "--without does nothing with --engine; use --only"),
        (["--report", "/proc/nobody/x.html"], "cannot write '/proc/nobody/x.html'"),
        (["--folder", "/proc"], "'/proc' exists; name a new folder"),
    ],
)
def test_invalid_arguments(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        from_arguments(arguments)
    assert message in capsys.readouterr().err


def test_a_report_is_not_made_before_the_run(tmp_path: Path) -> None:
    page = tmp_path / "new" / "chaos.html"
    assert from_arguments(["--report", str(page)]).report == page
    assert not page.exists()
