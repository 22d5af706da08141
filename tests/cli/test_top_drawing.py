"""The screen of `lonnymq top`, on terminals of many sizes."""

import io
import time

import pytest
from rich.console import Console
from rich.screen import Screen

from lonnymq.cli.top.draw import PLAIN, UNICODE, Glyphs, draw, rows_that_fit
from lonnymq.cli.top.sort import Sort
from lonnymq.cli.top.view import ViewState, sorted_channels
from lonnymq.monitor.state import QueueSnapshot
from tests.cli.snapshots import channel, snapshot

CONTROL_CHARACTERS = "bad\x1b[2J\nname"


def screen(
    current: QueueSnapshot | None,
    view: ViewState | None = None,
    *,
    width: int = 80,
    height: int = 24,
    trouble: str = "",
    glyphs: Glyphs = UNICODE,
    encoding: str = "utf-8",
) -> list[str]:
    """The lines that the terminal would show."""
    view = view or ViewState()
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=width, height=height, force_terminal=True, color_system=None)
    rows = [] if current is None else sorted_channels(current, view.sort, view.prefix)
    drawing = draw(current, rows, view, width=width, height=height, trouble=trouble, glyphs=glyphs)
    with console.capture() as captured:
        console.print(Screen(drawing))
    captured.get().encode(encoding)
    lines = captured.get().split("\n")
    assert max(map(len, lines)) <= width
    return [line.rstrip() for line in lines]


def three(polls: int = 12) -> QueueSnapshot:
    return snapshot(
        *(
            [
                channel("greedy", due=1000, oldest_due_ms=90_000, leased=3, served=poll * 70),
                channel("starved", due=300, oldest_due_ms=5000, served=poll * 12),
                channel("paused", due=5, scheduled=1000, paused=True, blocked_by="paused", dead=1000),
            ]
            for poll in range(polls)
        )
    )


def test_80_columns() -> None:
    lines = screen(three())
    assert len(lines) == 24
    assert lines[0] == "lonnymq top  sorted by waiting"
    assert lines[1] == "waiting 2,305  due 2,305  leased 0  dead 0  served/s 82.0 " + "█" * 11
    assert lines[2] == "3 channels, 2 compete: a fair share is 41.0/s (50.0%) each"
    assert lines[3].split() == [
        "channel", "served/s", "trend", "fair", "waiting", "due", "leased", "oldest", "state",
    ]  # fmt: skip
    assert lines[4].split() == ["paused", "0", "▁" * 8, "1,005+", "5", "0", "paused"]
    assert lines[5].split() == [
        "greedy",
        "70.0",
        "█" * 8,
        "1.7x▲",
        "1,000",
        "1,000",
        "3",
        "90",
        "s",
        "noisy",
    ]
    assert lines[6].split() == ["starved", "12.0", "█" * 8, "0.3x▼", "300", "300", "0", "5", "s", "ready"]
    assert lines[7:23] == [""] * 16
    assert lines[23].startswith("1-3 of 3   ? help")


def test_200_columns() -> None:
    lines = screen(three(40), width=200)
    assert "share" in lines[3]
    assert "dead" in lines[3]
    greedy, starved = lines[5], lines[6]
    assert "85.4%" in greedy
    assert "█" * 30 in greedy
    assert "1.7x▲ █████████  " in greedy
    assert "0.3x▼ █    │  " in starved


@pytest.mark.parametrize("height", [1, 5, 6, 24])
def test_any_size(height: int) -> None:
    current = three(3)
    views = (
        ViewState(),
        ViewState(shows_help=True),
        ViewState(is_typing=True, prefix="x" * 300),
        ViewState(prefix="none"),
    )
    for number, width in enumerate((20, 40, 50, 60, 65, 70, 79, 99, 100, 110, 120, 139, 140, 300)):
        assert len(screen(current, views[number % 4], width=width, height=height)) == height
    assert len(screen(None, width=20, height=height)) == height


@pytest.fixture(scope="module")
def crowd() -> QueueSnapshot:
    return snapshot(
        *(
            [channel(f"tenant-{n:05}", due=n % 90, served=poll * (n % 7)) for n in range(10_000)]
            for poll in range(3)
        )
    )


@pytest.mark.slow
def test_ten_thousand_channels(crowd: QueueSnapshot) -> None:
    lines = screen(crowd, ViewState(Sort.NAME))
    assert lines[2].startswith("10,000 channels, ")
    assert lines[4].startswith("tenant-00000")
    assert lines[-1].startswith("1-19 of 10,000 ")
    scrolled = screen(crowd, ViewState(Sort.NAME, first=9_000), width=200)
    assert scrolled[4].startswith("tenant-09000")
    assert scrolled[-1].startswith("9,001-9,019 of 10,000 ")
    found = screen(crowd, ViewState(Sort.NAME, prefix="tenant-0999"))
    assert [line[:12] for line in found[4:14]] == [f"tenant-0999{n}" for n in range(10)]
    assert '1-10 of 10 starting with "tenant-0999"' in found[-1]


def test_ten_thousand_channels_are_drawn_at_once(crowd: QueueSnapshot) -> None:
    begin = time.process_time()
    for sort in Sort:
        screen(crowd, ViewState(sort), width=200, height=60)
    assert (time.process_time() - begin) / len(Sort) < 0.5


def test_names_are_cut_and_cannot_speak_to_the_terminal() -> None:
    lines = screen(
        snapshot([channel("x" * 300, due=3), channel(CONTROL_CHARACTERS, due=2), channel("語" * 50, due=1)])
    )
    assert lines[4].startswith("xxxxx")
    assert "…" in lines[4]
    assert lines[5].startswith("bad\\x1b[2J\\…")
    assert "…" in lines[6]


def test_nothing_but_ascii_where_there_is_no_more() -> None:
    lines = screen(three(), glyphs=PLAIN, encoding="ascii")
    assert "1.7x+" in lines[5]
    assert "########" in lines[5]


def test_problems_are_shown() -> None:
    assert screen(three(), trouble="The database is unreachable")[2] == "The database is unreachable"
    assert screen(None, trouble="The database is unreachable")[0] == "The database is unreachable"
    assert screen(None)[0] == "Reading the queue ..."
    assert "DISPLAY PAUSED" in screen(three(), ViewState(is_paused=True))[0]
    assert screen(snapshot([]))[-1].startswith("no channels   ?")


def test_the_first_poll_has_no_rates() -> None:
    lines = screen(three(1))
    assert lines[2] == "3 channels"
    assert lines[5].split() == ["greedy", "1,000", "1,000", "3", "90", "s", "noisy"]
    assert "served/s" not in lines[1]


def test_unfair_shares_are_highlighted() -> None:
    current = three()
    console = Console(width=80, height=24, force_terminal=True, color_system="standard", no_color=False)
    with console.capture() as captured:
        console.print(
            draw(current, sorted_channels(current, Sort.NAME), ViewState(Sort.NAME), width=80, height=24)
        )
    lines = captured.get().split("\n")
    assert "\x1b[33m" in lines[4]  # greedy
    assert "\x1b[2m" in lines[5]  # paused
    assert "\x1b[1;31m" in lines[6]  # starved


def test_the_room_for_channels() -> None:
    assert (rows_that_fit(24), rows_that_fit(3)) == (19, 1)
