"""When schedules tick, and which ticks are made up for: in summer and winter, and after a downtime."""

import itertools
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lonnymq.errors import InvalidArgument, MissingExtra
from lonnymq.worker.catch_up import GRACE_MS, PIECE, CatchUp, Move, next_move
from lonnymq.worker.cron import CronMessage, cron
from lonnymq.worker.cron_times import Ticks

BERLIN = ZoneInfo("Europe/Berlin")
MESSAGE = CronMessage("reports", b"{}")
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000


def ms(text: str, tz: tzinfo = UTC, fold: int = 0) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=tz, fold=fold).timestamp() * 1000)


def utc(ticks: Sequence[int]) -> list[str]:
    return [datetime.fromtimestamp(tick / 1000, UTC).strftime("%m-%d %H:%M") for tick in ticks]


def between(ticks: Ticks, after: int, upto: int) -> list[int]:
    return list(itertools.takewhile(lambda tick: tick <= upto, ticks.following(after)))


def on(expression: str, day: str, tz: tzinfo = BERLIN) -> list[str]:
    """The ticks of a day, from midnight on the wall to the next; in UTC."""
    begin = datetime.fromisoformat(day)
    first = ms(begin.isoformat(), tz) - 1
    last = ms((begin + timedelta(days=1)).isoformat(), tz) - 1
    return utc(between(Ticks(expression, tz), first, last))


SPRING, AUTUMN, ANY_DAY = "2026-03-29", "2026-10-25", "2026-07-01"


@pytest.mark.parametrize(
    ("expression", "spring", "autumn", "any_day"),
    [
        ("30 2 * * *", ["03-29 01:00"], ["10-25 00:30"], ["07-01 00:30"]),
        ("0 2 * * *", ["03-29 01:00"], ["10-25 00:00"], ["07-01 00:00"]),
        ("0 3 * * *", ["03-29 01:00"], ["10-25 02:00"], ["07-01 01:00"]),
        ("15,45 2 * * *", ["03-29 01:00"], ["10-25 00:15", "10-25 00:45"], ["07-01 00:15", "07-01 00:45"]),
        (
            "30 1,2,3 * * *",
            ["03-29 00:30", "03-29 01:00", "03-29 01:30"],
            ["10-24 23:30", "10-25 00:30", "10-25 02:30"],
            ["06-30 23:30", "07-01 00:30", "07-01 01:30"],
        ),
    ],
)
def test_a_time_of_day_comes_once_a_day(
    expression: str, spring: list[str], autumn: list[str], any_day: list[str]
) -> None:
    """What the clock leaves out comes when it has jumped; what comes twice, the first time."""
    assert on(expression, SPRING) == spring
    assert on(expression, AUTUMN) == autumn
    assert on(expression, ANY_DAY) == any_day


@pytest.mark.parametrize(
    ("expression", "spring", "autumn", "any_day"),
    [
        ("*/15 * * * *", 23 * 4, 25 * 4, 24 * 4),
        ("* * * * *", 23 * 60, 25 * 60, 24 * 60),
        ("0 * * * *", 23, 25, 24),
        ("30 * * * *", 23, 25, 24),
        ("*/15 2 * * *", 0, 8, 4),
        ("0 */2 * * *", 11, 13, 12),
        ("0 30 2 * * *", 0, 2, 1),
    ],
)
def test_others_follow_the_time_that_passes(expression: str, spring: int, autumn: int, any_day: int) -> None:
    assert [len(on(expression, day)) for day in (SPRING, AUTUMN, ANY_DAY)] == [spring, autumn, any_day]


def test_a_quarter_of_an_hour_is_one_through_the_whole_year() -> None:
    begin = ms("2026-01-01T00:00", BERLIN)
    ticks = between(Ticks("*/15 * * * *", BERLIN), begin, begin + 365 * DAY)
    assert {b - a for a, b in itertools.pairwise(ticks)} == {15 * MINUTE}
    assert len(ticks) == 365 * 24 * 4


@pytest.mark.parametrize("minute", range(0, 120, 7))
def test_from_within_the_hour_that_comes_twice(minute: int) -> None:
    """A worker that looks then does not go back to the time of day that it had an hour ago."""
    at = ms("2026-10-25T00:00") + minute * MINUTE
    ticks = Ticks("30 2 * * *", BERLIN)
    assert ticks.after(at) == (ms("2026-10-25T00:30") if minute < 30 else ms("2026-10-26T01:30"))


@pytest.mark.parametrize("zone", ["America/Havana", "America/Santiago", "Africa/Cairo", "Asia/Beirut"])
def test_where_the_clock_changes_at_midnight(zone: str) -> None:
    """A day's first moment may not be there, or be there twice."""
    tz = ZoneInfo(zone)
    begin = ms("2026-01-01T00:00", tz) - 1
    midnights = between(Ticks("0 0 * * *", tz), begin, begin + 365 * DAY)
    assert len(midnights) == 365
    assert len({datetime.fromtimestamp(tick / 1000, tz).date() for tick in midnights}) == 365
    hours = between(Ticks("0 * * * *", tz), begin, begin + 365 * DAY)
    assert {b - a for a, b in itertools.pairwise(hours)} == {HOUR}


def test_leap_days() -> None:
    after = Ticks("0 0 29 2 *", UTC).following(ms("2026-01-01T00:00"))
    assert list(itertools.islice(after, 2)) == [ms("2028-02-29T00:00"), ms("2032-02-29T00:00")]
    century = Ticks("0 0 29 2 *", UTC).following(ms("2097-01-01T00:00"))
    assert next(century) == ms("2104-02-29T00:00")


def test_days_of_month_and_week() -> None:
    begin = ms("2026-11-01T00:00") - 1
    either = between(Ticks("0 0 13 * FRI", UTC), begin, begin + 30 * DAY)
    assert utc(either) == [f"11-{day:02} 00:00" for day in (6, 13, 20, 27)], "either of the two, as ever"
    assert utc(between(Ticks("0 9 L * *", UTC), begin, begin + 61 * DAY)) == ["11-30 09:00", "12-31 09:00"]
    assert utc(between(Ticks("0 9 * * MON#1", UTC), begin, begin + 30 * DAY)) == ["11-02 09:00"]


def test_seconds_may_be_named() -> None:
    at = ms("2026-11-15T12:00:07.250")
    ticks = Ticks("*/10 * * * * *", UTC)
    assert list(itertools.islice(ticks.following(at), 2)) == [
        ms("2026-11-15T12:00:10"),
        ms("2026-11-15T12:00:20"),
    ]


def test_a_tick_is_not_after_itself() -> None:
    tick = ms("2026-11-15T12:05")
    ticks = Ticks("*/5 * * * *", UTC)
    assert ticks.after(tick - 1) == tick
    assert ticks.after(tick) == tick + 5 * MINUTE


def test_beyond_what_python_counts_there_is_none() -> None:
    assert Ticks("* * * * *", UTC).after(2**53) is None
    assert Ticks("* * * * *", BERLIN).after(-(2**53)) is None
    assert Ticks("0 0 29 2 *", UTC).after(ms("9999-01-01T00:00")) is None


EXPRESSIONS = (
    *(
        "* * * * *",
        "*/5 * * * *",
        "7 * * * *",
        "30 2 * * *",
        "0-59 2 * * *",
        "0,30 1-3 * * *",
        "*/20 2 * * *",
    ),
    *("0 0 * * *", "0 0 1 * *", "59 23 31 12 *", "0 12 * * MON-FRI", "15 3 L * *", "*/7 * * * * *"),
)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "America/Havana", "Asia/Kolkata", "Pacific/Apia")
moments = st.integers(ms("2020-01-01T00:00"), ms("2035-01-01T00:00"))


def changes(zone: str) -> list[int]:
    """Moments about which the clocks of a zone change."""
    tz, hours = ZoneInfo(zone), range(ms("2026-01-01T00:00"), ms("2027-01-01T00:00"), HOUR)
    offsets = [(at, datetime.fromtimestamp(at / 1000, tz).utcoffset()) for at in hours]
    return [a for (a, before), (_, after) in itertools.pairwise(offsets) if before != after]


near_changes = st.builds(
    lambda change, off: change + off,
    st.sampled_from([at for zone in ZONES for at in changes(zone)]),
    st.integers(-3 * HOUR, 3 * HOUR),
)


@given(st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES), moments | near_changes)
@example("30 2 * * *", "Europe/Berlin", ms("2026-10-25T01:00"))
def test_ticks_ascend_and_do_not_depend_on_who_asks_when(expression: str, zone: str, at: int) -> None:
    """From each moment on the same ticks: workers that look at different times agree."""
    ticks = Ticks(expression, ZoneInfo(zone))
    found = list(itertools.islice(ticks.following(at), 5))
    assert at < found[0]
    assert all(a < b for a, b in itertools.pairwise(found))
    for a, b in itertools.pairwise([at, *found]):
        for moment in (a, (a + b) // 2, b - 1):
            assert ticks.after(moment) == b


@given(st.sampled_from(EXPRESSIONS), moments)
def test_each_tick_is_what_the_expression_says(expression: str, at: int) -> None:
    """In UTC, where every time of day comes once: each field holds, and none between was passed over."""
    ticks = Ticks(expression, UTC)
    first = ticks.after(at)
    assert first is not None
    assert says(expression, first)
    step = SECOND if len(expression.split()) == 6 else MINUTE
    passed = range(at // step * step + step, min(first, at + DAY), step)
    assert not any(says(expression, moment) for moment in passed)


def says(expression: str, at: int) -> bool:
    """Written anew, and slowly."""
    moment = datetime.fromtimestamp(at / 1000, UTC)
    *seconds, minute, hour, day, month, weekday = expression.split()
    last_of_month = (moment + timedelta(days=1)).month != moment.month
    return (
        field(seconds[0] if seconds else "0", moment.second)
        and field(minute, moment.minute)
        and field(hour, moment.hour)
        and (last_of_month if day == "L" else field(day, moment.day))
        and field(month, moment.month)
        and (moment.weekday() < 5 if weekday == "MON-FRI" else field(weekday, moment.weekday() + 1))
    )


def field(text: str, value: int) -> bool:
    base, _, step = text.partition("/")
    if base == "*":
        return value % int(step or 1) == 0
    for part in base.split(","):
        low, _, high = part.partition("-")
        if int(low) <= value <= int(high or low):
            return True
    return False


@given(st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES), moments | near_changes, st.integers(0, 3 * DAY))
def test_the_last_tick_is_the_last_of_all(expression: str, zone: str, at: int, span: int) -> None:
    span = span // 100 if expression.startswith("*") else span
    ticks = Ticks(expression, ZoneInfo(zone))
    every = between(ticks, at, at + span)
    assert ticks.last(at, at + span) == (every[-1] if every else None)


def test_the_last_of_millions_is_found_at_once() -> None:
    """A schedule of every second that nobody has fired for thirty years."""
    now = ms("2026-11-15T12:00")
    assert Ticks("* * * * * *", BERLIN).last(now - 30 * 365 * DAY, now) == now


# Catching up


def move(catch_up: CatchUp, missed: float, expression: str = "*/5 * * * *") -> tuple[Move | None, int]:
    """After so many minutes without anyone to fire; and the last tick before now."""
    now = ms("2026-11-15T12:00:20")
    stands_at = now - round(missed * MINUTE)
    return next_move(Ticks(expression, UTC), catch_up, stands_at, now), ms("2026-11-15T12:00")


@pytest.mark.parametrize("catch_up", ["one", "all", "none"])
def test_a_tick_that_is_due_fires(catch_up: CatchUp) -> None:
    made, tick = move(catch_up, 1)
    assert made == Move(tick, [tick])


@pytest.mark.parametrize("catch_up", ["one", "all", "none"])
def test_nothing_is_due(catch_up: CatchUp) -> None:
    made, _ = move(catch_up, 0.3)
    assert made is None


def test_one_fires_the_latest() -> None:
    made, tick = move("one", 60)
    assert made == Move(tick, [tick])


def test_all_fires_every_one_in_order() -> None:
    made, tick = move("all", 20)
    assert made == Move(tick, [tick - 15 * MINUTE, tick - 10 * MINUTE, tick - 5 * MINUTE, tick])


def test_all_goes_piece_by_piece() -> None:
    now = ms("2026-11-15T12:00")
    ticks = Ticks("* * * * *", UTC)
    stands_at, sizes, fired = now - 2500 * MINUTE, [], []
    while (made := next_move(ticks, "all", stands_at, now)) is not None:
        assert made.upto == made.ticks[-1]
        sizes.append(len(made.ticks))
        fired += made.ticks
        stands_at = made.upto
    assert sizes == [PIECE, PIECE, 500]
    assert fired == list(range(now - 2499 * MINUTE, now + 1, MINUTE))


def test_none_fires_what_is_not_late() -> None:
    made, tick = move("none", 60)
    assert made == Move(tick, [tick])


def test_none_leaves_out_what_is_late() -> None:
    now = ms("2026-11-15T12:03")
    ticks = Ticks("*/5 * * * *", UTC)
    late = ms("2026-11-15T12:00")
    assert next_move(ticks, "none", now - HOUR, now) == Move(late, [])
    assert next_move(ticks, "none", late, now) is None, "and that was it"


@pytest.mark.parametrize(("late_ms", "fires"), [(GRACE_MS, True), (GRACE_MS + 1, False)])
def test_a_minute_is_not_late(late_ms: int, fires: bool) -> None:
    tick = ms("2026-11-15T12:00")
    made = next_move(Ticks("0 * * * *", UTC), "none", tick - 1, tick + late_ms)
    assert made == Move(tick, [tick] if fires else [])


def test_none_never_goes_back_behind_where_it_stands() -> None:
    now = ms("2026-11-15T12:00:30")
    made = next_move(Ticks("*/10 * * * * *", UTC), "none", now - 15 * SECOND, now)
    assert made == Move(now, [now - 10 * SECOND, now])


@given(
    st.sampled_from(("one", "all", "none")),
    st.sampled_from(EXPRESSIONS),
    moments,
    st.integers(0, 30 * MINUTE),
)
def test_every_tick_is_decided_once_whenever_one_looks(
    catch_up: CatchUp, expression: str, begin: int, step: int
) -> None:
    """Looking often or seldom: all that is due is decided, nothing twice, nothing ahead of its time."""
    ticks = Ticks(expression, ZoneInfo("Europe/Berlin"))
    stands_at, now, fired = begin, begin, []
    for _ in range(5):
        now += step
        while (made := next_move(ticks, catch_up, stands_at, now)) is not None:
            assert stands_at < made.upto <= now
            assert all(stands_at < tick <= made.upto for tick in made.ticks)
            fired += made.ticks
            stands_at = made.upto
    due = between(ticks, begin, now)
    assert stands_at == (due[-1] if due else begin)
    assert fired == sorted(set(fired))
    assert set(fired) <= set(due)
    if catch_up == "all":
        assert fired == due


# What is no schedule


def test_a_schedule() -> None:
    made = cron("nightly", "0 3 * * *", MESSAGE, tz="Europe/Berlin", catch_up="all")
    assert (made.name, made.ticks, made.catch_up) == ("nightly", Ticks("0 3 * * *", BERLIN), "all")
    assert cron("n", "0 3 * * *", MESSAGE).ticks.tz is UTC
    offset = timezone(timedelta(hours=5, minutes=30))
    assert utc([cron("n", "0 3 * * *", MESSAGE, tz=offset).ticks.after(0) or 0]) == ["01-01 21:30"]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({"expression": ""}, "Wrong number of fields"),
    "four fields": ({"expression": "* * * *"}, "Wrong number of fields"),
    "seven fields": ({"expression": "* * * * * * *"}, "Wrong number of fields"),
    "a nickname": ({"expression": "@daily"}, "Wrong number of fields"),
    "a minute that there is not": ({"expression": "60 * * * *"}, "Bad minute"),
    "an hour that there is not": ({"expression": "0 24 * * *"}, "Bad hour"),
    "a step of nothing": ({"expression": "*/0 * * * *"}, "Bad minute"),
    "the end before the beginning": ({"expression": "0 5-3 * * *"}, "Bad hour"),
    "a word": ({"expression": "0 noon * * *"}, "Bad hour"),
    "a number without end": ({"expression": "9" * 5000 + " * * * *"}, "no cron expression"),
    "none at all": ({"expression": None}, "no cron expression"),
    "the 30th of February": ({"expression": "0 0 30 2 *"}, "Bad day-of-month"),
    "the 31st of short months": ({"expression": "0 0 31 4,6,9,11 *"}, "Bad day-of-month"),
    "a first of the month that is a second Monday": ({"expression": "0 0 */40 * MON#2"}, "never comes"),
    "a zone that there is not": ({"tz": "Europe/Atlantis"}, "no time zone 'Europe/Atlantis'"),
    "a folder of zones": ({"tz": "Europe"}, "no time zone"),
    "a way out of the folder": ({"tz": "../../etc/passwd"}, "no time zone"),
    "a zone without a name": ({"tz": ""}, "no time zone"),
    "a number for a zone": ({"tz": 2}, "no time zone"),
    "another way to catch up": ({"catch_up": "some"}, "one, all, none"),
    "no name": ({"name": ""}, "1 to 255 bytes"),
    "a long name": ({"name": "ü" * 128}, "1 to 255 bytes"),
    "a name that is none": ({"name": None}, "1 to 255 bytes"),
}


@pytest.mark.parametrize(("given", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(given: dict[str, Any], says: str) -> None:
    options: dict[str, Any] = {"name": "s", "expression": "* * * * *", "message": MESSAGE} | given
    with pytest.raises(InvalidArgument) as refusal:
        cron(**options)
    assert says in str(refusal.value)
    assert refusal.value.hint


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(MissingExtra, match=r"pip install 'lonnymq\[cron\]'"):
        cron("s", "* * * * *", MESSAGE)
