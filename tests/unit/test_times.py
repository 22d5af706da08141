"""Converting times and delays for the SQL functions."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lonnymq.client.times import milliseconds, moment, schedule
from lonnymq.errors import InvalidTime


def test_no_time_and_no_delay() -> None:
    assert schedule(None, None) == (None, None)


@given(st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(2200, 1, 1)), st.integers(-23, 23))  # noqa: DTZ001
def test_a_moment_is_the_same_in_every_zone(naive: datetime, hours: int) -> None:
    at = naive.replace(tzinfo=UTC)
    elsewhere = at.astimezone(timezone(timedelta(hours=hours)))
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    assert moment(at) == moment(elsewhere) == since // timedelta(milliseconds=1)


def test_a_delay_is_passed_to_the_database() -> None:
    assert schedule(None, 1.5) == (None, 1_500)
    assert schedule(None, timedelta(seconds=2)) == (None, 2_000)
    assert schedule(None, 0) == (None, 0)


def test_a_time_and_a_delay_together_are_refused() -> None:
    with pytest.raises(InvalidTime, match=r"run_at and delay"):
        schedule(datetime(2030, 1, 1, tzinfo=UTC), 5)


def test_a_negative_delay() -> None:
    with pytest.raises(InvalidTime, match=r"-1 is negative"):
        schedule(None, -1)


@pytest.mark.parametrize("seconds", [float("inf"), float("nan")])
def test_not_a_duration(seconds: float) -> None:
    with pytest.raises(InvalidTime):
        milliseconds(seconds)


def test_a_naive_datetime_is_refused() -> None:
    with pytest.raises(InvalidTime, match=r"aware datetime"):
        moment(datetime(2030, 1, 1))  # noqa: DTZ001
