"""Grouping dead letters reads as many of them as it is told to, however many there are."""

import psycopg
import pytest

from tests.database import Connect
from tests.plans.buffers import Meter
from tests.plans.sessions import SLACK

GROUPS = (
    "dead_groups(p_scan => 100)",
    "dead_groups('c 3', p_scan => 100)",
    "dead_groups('none', p_scan => 100)",
)


def bury(conn: psycopg.Connection, first: int, last: int) -> None:
    """Dead letters of ten channels, ten to a page."""
    conn.execute(
        "INSERT INTO dead (id, dequeue_at, created_at, dead_at, generation, attempts, cost, priority, lane,"
        " channel, error, headers, content)"
        " SELECT g, 0, 0, g, 1, 1, 1, 0, 'default', 'c ' || g % 10, 'no route to ' || g,"
        " '{\"task\": \"mail\"}', convert_to(repeat('x', 600), 'UTF8')"
        " FROM generate_series($1::BIGINT, $2) g",
        (first, last),
    )


@pytest.mark.parametrize("is_analysed", [False, True])
def test_groups_of_the_newest_dead_letters(connect: Connect, *, is_analysed: bool) -> None:
    loader, meter = connect(cursor_factory=psycopg.RawCursor), Meter(connect())
    counts = []
    for first, last in ((1, 2_000), (2_001, 50_000)):
        bury(loader, first, last)
        if is_analysed:
            loader.execute("VACUUM ANALYZE dead")
        meter.forget()
        for call in GROUPS * 3:
            meter.count(call, call)
        counts.append(meter.costs())
    few, many = counts
    for call in GROUPS:
        assert many[call] <= few[call] + SLACK, counts
