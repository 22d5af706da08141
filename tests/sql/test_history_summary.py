"""history_summary: by task, with the rules of FinishedMessage, over the newest rows."""

from __future__ import annotations

import random
import statistics
from typing import Any

import psycopg
import pytest

from lonnymq.commands import FinishedMessage
from lonnymq.statement import columns_of, read
from tests.clock import FakeClock
from tests.invariants import dequeue, dispatch
from tests.sql.test_history import DAY, NOON, cancel, complete, create, fail, lease, switch_on
from tests.sql.test_stats import shown

TASKS = ("mail", "report", None)


def summary(conn: psycopg.Connection, arguments: str = "") -> dict[str | None, dict[str, Any]]:
    return {row.pop("task"): row for row in shown(conn, f"history_summary({arguments})")}


@pytest.fixture
def clock(conn: psycopg.Connection) -> FakeClock:
    clock = FakeClock(conn, NOON)
    switch_on(conn)
    return clock


def task(name: str | None) -> dict[str, Any]:
    return {} if name is None else {"headers": f'{{"task": "{name}"}}'}


def test_counts_and_percentiles(conn: psycopg.Connection, clock: FakeClock) -> None:
    choose = random.Random(7)
    for n in range(60):
        options = task(TASKS[n % 3]) | {"channel": "ab"[n % 2], "max_attempts": 2}
        clock.advance(DAY // 20)  # over several partitions
        conn.execute("SELECT maintain()")
        if n % 10 == 0:
            cancel(conn, create(conn, **options))
            continue
        message = lease(conn, **options)
        clock.advance(choose.randrange(500))
        if n % 7 == 0:
            retry = "SELECT message_retry(%s, %s, p_error => 'no', p_delay_ms => 100)"
            conn.execute(retry, (message.id, message.token))
            clock.advance(100 + choose.randrange(500))
            dispatch(conn)
            [message], _ = dequeue(conn, 1)
            clock.advance(choose.randrange(500))
        if n % 14 == 0:
            fail(conn, message)
        else:
            complete(conn, message)
    columns = columns_of(FinishedMessage)
    rows = read(FinishedMessage, conn.execute(f"SELECT {columns} FROM history".encode()).fetchall())
    assert len(rows) == 60
    day_ago = clock.at - DAY
    of_a = [row for row in rows if row.channel == "a"]
    for arguments, chosen in (
        ("", rows),
        ("'a'", of_a),
        (f"'a', {day_ago}", [row for row in of_a if row.finished_at >= day_ago]),
        (f"NULL, {day_ago}", [row for row in rows if row.finished_at >= day_ago]),
    ):
        found = summary(conn, arguments)
        assert found.keys() == {(row.headers or {}).get("task") for row in chosen}
        for name, given in found.items():
            expect([row for row in chosen if (row.headers or {}).get("task") == name], given)


def expect(rows: list[FinishedMessage], found: dict[str, Any]) -> None:
    for outcome in ("completed", "dead", "cancelled"):
        assert found[outcome] == sum(row.outcome == outcome for row in rows)
    assert found["messages"] == len(rows)
    assert found["attempts_mean"] == pytest.approx(statistics.mean(row.attempts for row in rows))
    for what in ("waited", "worked"):
        times = [value for row in rows if (value := getattr(row, f"{what}_ms")) is not None]
        for percent in (50, 95, 99):
            assert found[f"{what}_p{percent}_ms"] == pytest.approx(_percentile(times, percent / 100))


def _percentile(values: list[int], share: float) -> float | None:
    """Interpolated, as PostgreSQL's percentile_cont."""
    if not values:
        return None
    ordered, position = sorted(values), share * (len(values) - 1)
    low = int(position)
    high = min(low + 1, len(values) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])


def test_a_message_that_waits_for_its_first_attempt_only(conn: psycopg.Connection, clock: FakeClock) -> None:
    later = create(conn, dequeue_at=clock.at + 1000, **task("mail"))
    clock.advance(1250)
    dispatch(conn)
    [message], _ = dequeue(conn, 1)
    assert message.id == later
    clock.advance(40)
    complete(conn, message)
    [mail] = summary(conn).values()
    assert (mail["waited_p50_ms"], mail["worked_p50_ms"], mail["from_at"]) == (250, 40, clock.at)


@pytest.mark.parametrize("channel", ["NULL", "'a'"])
def test_it_reads_the_newest_rows(conn: psycopg.Connection, clock: FakeClock, channel: str) -> None:
    for name in ("mail", "report", "report"):
        clock.advance(1000)
        complete(conn, lease(conn, **task(name)))
    both = summary(conn, f"{channel}, p_rows => 2")
    assert {name: row["messages"] for name, row in both.items()} == {"report": 2}
    assert (both["report"]["has_more"], both["report"]["from_at"]) == (True, clock.at - 1000)
    everything = summary(conn, f"{channel}, p_rows => 3")
    assert {name: row["messages"] for name, row in everything.items()} == {"report": 2, "mail": 1}
    assert {(row["has_more"], row["from_at"]) for row in everything.values()} == {(False, clock.at - 2000)}
    recent = summary(conn, f"{channel}, {clock.at - 1500}, 2")
    assert (recent["report"]["has_more"], recent["report"]["from_at"]) == (False, clock.at - 1500)
    assert summary(conn, f"{channel}, {clock.at + 1}") == {}
