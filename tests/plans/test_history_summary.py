"""A summary of the history reads as many rows as it is told to, and the mark of a position the rows of the
last 1,000 transaction ids, however many rows there are."""

import psycopg

from tests.database import Connect
from tests.plans.buffers import Meter
from tests.plans.sessions import SLACK

DAY = 86_400_000
DAYS = 20


def finish(conn: psycopg.Connection, messages: int) -> None:
    """Over the days, ten channels each, one row per transaction id."""
    conn.execute(
        "INSERT INTO finished (xid, id, created_at, dequeue_at, first_dequeued_at, dequeued_at, finished_at,"
        " attempts, content_bytes, cost, priority, outcome, lane, channel, headers)"
        " SELECT g::TEXT::XID8, g, g, g, g, g, lonnymq.to_epoch(now()) - ($2 - g) * $3 / $2, 1, 0, 1, 0,"
        " 'completed', 'default', 'c ' || g % 10, '{\"task\": \"mail\"}'"
        " FROM generate_series(1, $1::BIGINT) g",
        (messages, messages, DAYS * DAY),
    )


def test_a_summary_and_a_mark_read_the_newest_rows(connect: Connect) -> None:
    loader, meter = connect(cursor_factory=psycopg.RawCursor), Meter(connect())
    loader.execute("SELECT queue_set(p_history => TRUE)")
    recent = "(lonnymq.to_epoch(now()) - 60000)"
    calls = {
        "all": "history_summary(p_rows => 100)",
        "recent": f"history_summary(NULL, {recent}, 100)",
        "channel": "history_summary('c 3', p_rows => 100)",
        "recent channel": f"history_summary('c 3', {recent}, 100)",
        "none": "history_summary('none', p_rows => 100)",
        "mark": "history_mark('60000:60000:')",
    }
    counts = []
    for messages in (2_000, 50_000):
        loader.execute("TRUNCATE finished")
        finish(loader, messages)
        meter.forget()
        for _ in range(4):
            for name, call in calls.items():
                meter.count(name, call)
        counts.append(meter.costs())
    few, many = counts
    # Of the smaller history, the mark has fewer rows: those of the last day.
    assert many.pop("mark") <= 2 * few.pop("mark"), counts
    assert all(many[name] <= few[name] + SLACK for name in many), counts
    assert max(many.values()) <= 1000, counts
