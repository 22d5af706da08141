"""Times, delays and priorities as the number that the queue sorts by."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lonnymq.errors import InvalidTime
from lonnymq.queue.times import dequeue_at, milliseconds, moment


def test_nothing_given_is_at_once() -> None:
    assert dequeue_at() is None


@given(st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(2200, 1, 1)), st.integers(-23, 23))  # noqa: DTZ001
def test_a_moment_is_the_same_in_every_zone(naive: datetime, hours: int) -> None:
    at = naive.replace(tzinfo=UTC)
    elsewhere = at.astimezone(timezone(timedelta(hours=hours)))
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    assert moment(at) == moment(elsewhere) == since // timedelta(milliseconds=1)


@given(st.integers(1, 10**9))
def test_the_higher_priority_sorts_first(priority: int) -> None:
    before, after = dequeue_at(priority=priority + 1), dequeue_at(priority=priority)
    assert before is not None
    assert after is not None
    assert before < after < 0


@pytest.mark.parametrize("priority", [0, -1, 2**53 + 1, 1.5, True])
def test_what_is_no_priority(priority: Any) -> None:
    with pytest.raises(InvalidTime, match=r"is not a priority"):
        dequeue_at(priority=priority)


def test_a_delay_counts_from_now() -> None:
    assert dequeue_at(delay=1.5, now=1_000) == 2_500
    assert dequeue_at(delay=timedelta(seconds=2), now=1_000) == 3_000
    assert dequeue_at(delay=0, now=1_000) == 1_000


@pytest.mark.parametrize("seconds", [float("inf"), float("nan")])
def test_what_is_no_duration(seconds: float) -> None:
    with pytest.raises(InvalidTime):
        milliseconds(seconds)


def test_a_naive_time_could_be_any() -> None:
    with pytest.raises(InvalidTime, match=r"aware datetime"):
        moment(datetime(2030, 1, 1))  # noqa: DTZ001
