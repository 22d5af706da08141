"""The times of cron expressions, around clock changes too, and which missed times are caught up after a
downtime.
"""

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
from lonnymq.worker.catch_up import GRACE_MS, TIMES_MAX, CatchUp, Firing, next_firing
from lonnymq.worker.cron import CronMessage, cron
from lonnymq.worker.cron_times import CronTimes

BERLIN = ZoneInfo("Europe/Berlin")
MESSAGE = CronMessage("reports", b"{}")
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000


def ms(text: str, tz: tzinfo = UTC, fold: int = 0) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=tz, fold=fold).timestamp() * 1000)


def utc(times: Sequence[int]) -> list[str]:
    return [datetime.fromtimestamp(time / 1000, UTC).strftime("%m-%d %H:%M") for time in times]


def between(times: CronTimes, after: int, upto: int) -> list[int]:
    return list(itertools.takewhile(lambda time: time <= upto, times.following(after)))


def on(expression: str, day: str, tz: tzinfo = BERLIN) -> list[str]:
    """The times of a day, from one local midnight to the next, in UTC."""
    begin = datetime.fromisoformat(day)
    first = ms(begin.isoformat(), tz) - 1
    last = ms((begin + timedelta(days=1)).isoformat(), tz) - 1
    return utc(between(CronTimes(expression, tz), first, last))


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
def test_a_time_of_day_comes_once_per_day(
    expression: str, spring: list[str], autumn: list[str], any_day: list[str]
) -> None:
    """A time that the clock skips comes right after the jump; one that comes twice counts the first time."""
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
def test_other_expressions_follow_elapsed_time(
    expression: str, spring: int, autumn: int, any_day: int
) -> None:
    assert [len(on(expression, day)) for day in (SPRING, AUTUMN, ANY_DAY)] == [spring, autumn, any_day]


def test_every_quarter_of_an_hour_through_the_whole_year() -> None:
    begin = ms("2026-01-01T00:00", BERLIN)
    times = between(CronTimes("*/15 * * * *", BERLIN), begin, begin + 365 * DAY)
    assert {b - a for a, b in itertools.pairwise(times)} == {15 * MINUTE}
    assert len(times) == 365 * 24 * 4


@pytest.mark.parametrize("minute", range(0, 120, 7))
def test_starting_within_the_hour_that_comes_twice(minute: int) -> None:
    """A worker that starts then does not repeat the time of day of an hour ago."""
    at = ms("2026-10-25T00:00") + minute * MINUTE
    times = CronTimes("30 2 * * *", BERLIN)
    assert times.after(at) == (ms("2026-10-25T00:30") if minute < 30 else ms("2026-10-26T01:30"))


@pytest.mark.parametrize("zone", ["America/Havana", "America/Santiago", "Africa/Cairo", "Asia/Beirut"])
def test_where_the_clock_changes_at_midnight(zone: str) -> None:
    """Midnight may be skipped, or come twice."""
    tz = ZoneInfo(zone)
    begin = ms("2026-01-01T00:00", tz) - 1
    midnights = between(CronTimes("0 0 * * *", tz), begin, begin + 365 * DAY)
    assert len(midnights) == 365
    assert len({datetime.fromtimestamp(time / 1000, tz).date() for time in midnights}) == 365
    hours = between(CronTimes("0 * * * *", tz), begin, begin + 365 * DAY)
    assert {b - a for a, b in itertools.pairwise(hours)} == {HOUR}


def test_leap_days() -> None:
    after = CronTimes("0 0 29 2 *", UTC).following(ms("2026-01-01T00:00"))
    assert list(itertools.islice(after, 2)) == [ms("2028-02-29T00:00"), ms("2032-02-29T00:00")]
    century = CronTimes("0 0 29 2 *", UTC).following(ms("2097-01-01T00:00"))
    assert next(century) == ms("2104-02-29T00:00")


def test_days_of_month_and_week() -> None:
    begin = ms("2026-11-01T00:00") - 1
    either = between(CronTimes("0 0 13 * FRI", UTC), begin, begin + 30 * DAY)
    assert utc(either) == [f"11-{day:02} 00:00" for day in (6, 13, 20, 27)], (
        "either of the two matches, as in other crons"
    )
    assert utc(between(CronTimes("0 9 L * *", UTC), begin, begin + 61 * DAY)) == [
        "11-30 09:00",
        "12-31 09:00",
    ]
    assert utc(between(CronTimes("0 9 * * MON#1", UTC), begin, begin + 30 * DAY)) == ["11-02 09:00"]


def test_a_sixth_field_is_seconds() -> None:
    at = ms("2026-11-15T12:00:07.250")
    times = CronTimes("*/10 * * * * *", UTC)
    assert list(itertools.islice(times.following(at), 2)) == [
        ms("2026-11-15T12:00:10"),
        ms("2026-11-15T12:00:20"),
    ]


def test_a_time_is_not_after_itself() -> None:
    time = ms("2026-11-15T12:05")
    times = CronTimes("*/5 * * * *", UTC)
    assert times.after(time - 1) == time
    assert times.after(time) == time + 5 * MINUTE


def test_no_times_beyond_the_years_of_datetime() -> None:
    assert CronTimes("* * * * *", UTC).after(2**53) is None
    assert CronTimes("* * * * *", BERLIN).after(-(2**53)) is None
    assert CronTimes("0 0 29 2 *", UTC).after(ms("9999-01-01T00:00")) is None


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
    """The hours in which the clocks of a zone change."""
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
def test_times_ascend_and_do_not_depend_on_when_one_asks(expression: str, zone: str, at: int) -> None:
    """Workers that ask at different moments agree."""
    times = CronTimes(expression, ZoneInfo(zone))
    found = list(itertools.islice(times.following(at), 5))
    assert at < found[0]
    assert all(a < b for a, b in itertools.pairwise(found))
    for a, b in itertools.pairwise([at, *found]):
        for moment in (a, (a + b) // 2, b - 1):
            assert times.after(moment) == b


@given(st.sampled_from(EXPRESSIONS), moments)
def test_each_time_matches_the_expression(expression: str, at: int) -> None:
    """In UTC, where every time of day comes once: each field matches, and no time was skipped."""
    times = CronTimes(expression, UTC)
    first = times.after(at)
    assert first is not None
    assert says(expression, first)
    step = SECOND if len(expression.split()) == 6 else MINUTE
    passed = range(at // step * step + step, min(first, at + DAY), step)
    assert not any(says(expression, moment) for moment in passed)


def says(expression: str, at: int) -> bool:
    """A second implementation, slow and simple."""
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
def test_the_last_time_is_the_last_of_all(expression: str, zone: str, at: int, span: int) -> None:
    span = span // 100 if expression.startswith("*") else span
    times = CronTimes(expression, ZoneInfo(zone))
    every = between(times, at, at + span)
    assert times.last(at, at + span) == (every[-1] if every else None)


def test_the_last_of_millions_is_found_quickly() -> None:
    """A schedule of every second that has not fired for thirty years."""
    now = ms("2026-11-15T12:00")
    assert CronTimes("* * * * * *", BERLIN).last(now - 30 * 365 * DAY, now) == now


# Catching up


def firing_after(
    catch_up: CatchUp, missed: float, expression: str = "*/5 * * * *"
) -> tuple[Firing | None, int]:
    """What fires after no worker ran for `missed` minutes, and the last time before now."""
    now = ms("2026-11-15T12:00:20")
    handled_until = now - round(missed * MINUTE)
    return next_firing(CronTimes(expression, UTC), catch_up, handled_until, now), ms("2026-11-15T12:00")


@pytest.mark.parametrize("catch_up", ["one", "all", "none"])
def test_a_time_that_is_due_fires(catch_up: CatchUp) -> None:
    made, time = firing_after(catch_up, 1)
    assert made == Firing(time, [time])


@pytest.mark.parametrize("catch_up", ["one", "all", "none"])
def test_nothing_is_due(catch_up: CatchUp) -> None:
    made, _ = firing_after(catch_up, 0.3)
    assert made is None


def test_one_fires_the_latest() -> None:
    made, time = firing_after("one", 60)
    assert made == Firing(time, [time])


def test_all_fires_every_time_in_order() -> None:
    made, time = firing_after("all", 20)
    assert made == Firing(time, [time - 15 * MINUTE, time - 10 * MINUTE, time - 5 * MINUTE, time])


def test_all_fires_in_batches() -> None:
    now = ms("2026-11-15T12:00")
    times = CronTimes("* * * * *", UTC)
    handled_until, sizes, fired = now - 2500 * MINUTE, [], []
    while (made := next_firing(times, "all", handled_until, now)) is not None:
        assert made.upto == made.times[-1]
        sizes.append(len(made.times))
        fired += made.times
        handled_until = made.upto
    assert sizes == [TIMES_MAX, TIMES_MAX, 500]
    assert fired == list(range(now - 2499 * MINUTE, now + 1, MINUTE))


def test_none_fires_what_is_not_late() -> None:
    made, time = firing_after("none", 60)
    assert made == Firing(time, [time])


def test_none_leaves_out_what_is_late() -> None:
    now = ms("2026-11-15T12:03")
    times = CronTimes("*/5 * * * *", UTC)
    late = ms("2026-11-15T12:00")
    assert next_firing(times, "none", now - HOUR, now) == Firing(late, [])
    assert next_firing(times, "none", late, now) is None, "nothing else is due"


@pytest.mark.parametrize(("late_ms", "fires"), [(GRACE_MS, True), (GRACE_MS + 1, False)])
def test_a_minute_is_not_late(late_ms: int, fires: bool) -> None:
    time = ms("2026-11-15T12:00")
    made = next_firing(CronTimes("0 * * * *", UTC), "none", time - 1, time + late_ms)
    assert made == Firing(time, [time] if fires else [])


def test_none_never_goes_back_before_what_is_handled() -> None:
    now = ms("2026-11-15T12:00:30")
    made = next_firing(CronTimes("*/10 * * * * *", UTC), "none", now - 15 * SECOND, now)
    assert made == Firing(now, [now - 10 * SECOND, now])


@given(
    st.sampled_from(("one", "all", "none")),
    st.sampled_from(EXPRESSIONS),
    moments,
    st.integers(0, 30 * MINUTE),
)
def test_every_time_is_handled_once_however_often_one_asks(
    catch_up: CatchUp, expression: str, begin: int, step: int
) -> None:
    """All that is due is handled, nothing twice, and nothing before its time."""
    times = CronTimes(expression, ZoneInfo("Europe/Berlin"))
    handled_until, now, fired = begin, begin, []
    for _ in range(5):
        now += step
        while (made := next_firing(times, catch_up, handled_until, now)) is not None:
            assert handled_until < made.upto <= now
            assert all(handled_until < time <= made.upto for time in made.times)
            fired += made.times
            handled_until = made.upto
    due = between(times, begin, now)
    assert handled_until == (due[-1] if due else begin)
    assert fired == sorted(set(fired))
    assert set(fired) <= set(due)
    if catch_up == "all":
        assert fired == due


# Invalid schedules


def test_a_schedule() -> None:
    made = cron("nightly", "0 3 * * *", MESSAGE, tz="Europe/Berlin", catch_up="all")
    assert (made.name, made.times, made.catch_up) == ("nightly", CronTimes("0 3 * * *", BERLIN), "all")
    assert cron("n", "0 3 * * *", MESSAGE).times.tz is UTC
    offset = timezone(timedelta(hours=5, minutes=30))
    assert utc([cron("n", "0 3 * * *", MESSAGE, tz=offset).times.after(0) or 0]) == ["01-01 21:30"]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({"expression": ""}, "Wrong number of fields"),
    "four fields": ({"expression": "* * * *"}, "Wrong number of fields"),
    "seven fields": ({"expression": "* * * * * * *"}, "Wrong number of fields"),
    "a nickname": ({"expression": "@daily"}, "Wrong number of fields"),
    "a minute that does not exist": ({"expression": "60 * * * *"}, "Bad minute"),
    "an hour that does not exist": ({"expression": "0 24 * * *"}, "Bad hour"),
    "a step of zero": ({"expression": "*/0 * * * *"}, "Bad minute"),
    "a range that ends before it begins": ({"expression": "0 5-3 * * *"}, "Bad hour"),
    "a word": ({"expression": "0 noon * * *"}, "Bad hour"),
    "a very long number": ({"expression": "9" * 5000 + " * * * *"}, "is not a cron expression"),
    "not a text": ({"expression": None}, "is not a cron expression"),
    "the 30th of February": ({"expression": "0 0 30 2 *"}, "Bad day-of-month"),
    "the 31st of short months": ({"expression": "0 0 31 4,6,9,11 *"}, "Bad day-of-month"),
    "a second Monday that is the first of the month": ({"expression": "0 0 */40 * MON#2"}, "no next time"),
    "a zone that does not exist": ({"tz": "Europe/Atlantis"}, "no time zone 'Europe/Atlantis'"),
    "a folder of zones": ({"tz": "Europe"}, "no time zone"),
    "a way out of the folder": ({"tz": "../../etc/passwd"}, "no time zone"),
    "a zone without a name": ({"tz": ""}, "no time zone"),
    "a number for a zone": ({"tz": 2}, "no time zone"),
    "an unknown way to catch up": ({"catch_up": "some"}, "one, all, none"),
    "no name": ({"name": ""}, "1 to 255 bytes"),
    "a long name": ({"name": "ü" * 128}, "1 to 255 bytes"),
    "a name that is not a text": ({"name": None}, "1 to 255 bytes"),
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
