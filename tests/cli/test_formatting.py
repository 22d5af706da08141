"""How text, numbers and times are formatted for people."""

import doctest
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import ModuleType

import pytest

from lonnymq import formatting, quantile
from lonnymq.cli import display
from lonnymq.cli.display import due, moment
from lonnymq.cli.failure import BadValue
from lonnymq.formatting import DAY, HOUR, MINUTE, SECOND, YEAR, duration, exactly, printable, size


@pytest.mark.parametrize("module", [formatting, display, quantile])
def test_examples(module: ModuleType) -> None:
    failed, tried = doctest.testmod(module)
    assert (failed, tried > 0) == (0, True)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (SECOND, "1 s"),
        (2 * MINUTE - 1, "119 s"),
        (2 * MINUTE, "2 min"),
        (2 * HOUR - 1, "119 min"),
        (2 * HOUR, "2 h"),
        (2 * DAY, "2 d"),
        (2 * YEAR - 1, "729 d"),
        (2 * YEAR, "2 y"),
        (2**53, "285,616 y"),
    ],
)
def test_durations(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


def test_times_outside_the_calendar() -> None:
    assert exactly(2**53, 0) == "in 285,616 y (9007199254740992)"
    assert exactly(None, 0) == ""
    assert due(-(2**53), 0, is_exact=True) == "first"


def test_control_characters_are_escaped() -> None:
    assert printable("Zoë 🦜 [red]") == "Zoë 🦜 [red]"
    assert printable("a\x1b]0;title\x07\r\n\t\u202e\x9b") == r"a\x1b]0;title\x07\r\n\t\u202e\x9b"


def test_sizes() -> None:
    assert [size(n) for n in (0, 1023, 1024, 2**20, 2**30, 2**50)] == [
        "0 B",
        "1023 B",
        "1 KiB",
        "1 MiB",
        "1 GiB",
        "1,024 TiB",
    ]


@pytest.fixture(params=["UTC0", "LOCAL-05:30"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as here:
        here.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


def test_moments(zone: None) -> None:
    assert moment("2030-12-31T09:00+01:00") == datetime(2030, 12, 31, 8, tzinfo=UTC)
    assert moment("2030-12-31T09:00Z") == datetime(2030, 12, 31, 9, tzinfo=UTC)
    here = datetime(2030, 12, 31).astimezone()
    assert (moment("2030-12-31"), moment("2030-12-31").utcoffset()) == (here, here.utcoffset())
    assert moment("2030-12-31 00:00:01") - here == timedelta(seconds=1)
    for text in ("", "soon", "2030-13-01", "1893456000", "0001-01-01"):
        with pytest.raises(BadValue, match="is not a time"):
            moment(text)
