"""Snapshots and their operations, compared with PostgreSQL's own."""

from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lonnymq.errors import InvalidArgument
from lonnymq.spark.changes.snapshots import EARLIEST, Snapshot

XIDS = range(1, 16)
TEXTS = [
    "1:1:",
    "3:9:",
    "3:9:3",
    "3:9:3,5,8",
    "3:9:5",
    "9:3:",
    "3:9:2",
    "3:9:9",
    "0:9:",
    "3:9",
    "3:9:,4",
    "",
    "a:b:c",
    "3:9:-4",
    "4294967295:4294967297:",
    "4294967295:4294967296:",
    "4294967295:4294967298:4294967296",
    "4611686018427387905:4611686018427387906:",
]


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    xmax = draw(st.integers(1, 15))
    xids = draw(st.sets(st.integers(1, xmax - 1))) if xmax > 1 else set[int]()
    xmin = draw(st.integers(1, min(xids, default=xmax)))
    return Snapshot(xmin, xmax, tuple(sorted(xids)))


@st.composite
def successions(draw: st.DrawFn) -> tuple[Snapshot, Snapshot]:
    """A snapshot, and a later one."""
    later = draw(snapshots())
    xmax = draw(st.integers(1, later.xmax))
    still_open = {xid for xid in later.open if xid < xmax}
    open_then = draw(st.sets(st.integers(1, xmax - 1))) if xmax > 1 else set[int]()
    return Snapshot.of(xmax, still_open | open_then), later


def seen(snapshot: Snapshot) -> set[int]:
    return {xid for xid in XIDS if snapshot.sees(xid)}


no_deadline = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@no_deadline
@given(snapshot=snapshots())
def test_it_sees_what_postgresql_sees(conn: psycopg.Connection, snapshot: Snapshot) -> None:
    query = """SELECT xid FROM unnest(%s::BIGINT[]) xid
        WHERE pg_visible_in_snapshot(xid::TEXT::XID8, %s::PG_SNAPSHOT)"""
    rows = conn.execute(query, (list(XIDS), str(snapshot))).fetchall()
    assert seen(snapshot) == {row[0] for row in rows}


@no_deadline
@given(snapshot=snapshots())
def test_text_and_back(snapshot: Snapshot) -> None:
    assert Snapshot.parse(str(snapshot)) == snapshot
    assert seen(Snapshot.of(snapshot.xmax, snapshot.open)) == seen(snapshot)


@pytest.mark.parametrize("text", TEXTS)
def test_it_accepts_the_texts_that_postgresql_accepts(conn: psycopg.Connection, text: str) -> None:
    try:
        row = conn.execute("SELECT %s::PG_SNAPSHOT::TEXT", (text,)).fetchone()
    except psycopg.DataError:
        with pytest.raises(InvalidArgument, match="is not a snapshot"):
            Snapshot.parse(text)
    else:
        assert row is not None
        assert str(Snapshot.parse(text)) == row[0]


@no_deadline
@given(one=snapshots(), other=snapshots())
def test_a_snapshot_is_within_another_that_sees_as_much(one: Snapshot, other: Snapshot) -> None:
    assert one.is_within(other) == (seen(one) <= seen(other) and one.xmax <= other.xmax)


@no_deadline
@given(pair=successions())
def test_new_transactions_are_in_the_range_or_were_open(pair: tuple[Snapshot, Snapshot]) -> None:
    start, end = pair
    assert start.is_within(end)
    in_range = {xid for xid in range(start.xmax, end.xmax) if end.sees(xid)}
    assert in_range | set(start.committed_by(end)) == seen(end) - seen(start)


@no_deadline
@given(pair=successions(), xid=st.integers(1, 15))
def test_a_limited_end_is_between_and_sees_what_is_below(pair: tuple[Snapshot, Snapshot], xid: int) -> None:
    start, end = pair
    cut = start.until(end, min(xid, end.xmax))
    assert start.is_within(cut)
    assert cut.is_within(end)
    assert seen(cut) == seen(start) | {x for x in seen(end) if x < xid}


def test_the_earliest_sees_nothing_and_is_within_the_present(conn: psycopg.Connection) -> None:
    row = conn.execute("SELECT pg_current_snapshot()::TEXT").fetchone()
    assert row is not None
    assert seen(EARLIEST) == set()
    assert EARLIEST.is_within(Snapshot.parse(row[0]))


@pytest.mark.parametrize("xmax", [2**32 - 1, 2**32, 2**32 + 1])
def test_postgresql_accepts_every_snapshot_that_is_made(conn: psycopg.Connection, xmax: int) -> None:
    made = Snapshot.of(2**32 - 5).until(Snapshot.of(2**32 + 9), xmax)
    row = conn.execute("SELECT %s::PG_SNAPSHOT::TEXT", (str(made),)).fetchone()
    assert row == (str(made),)


def test_a_snapshot_with_open_transactions(conn: psycopg.Connection, connect: Any) -> None:
    slow, quick = connect(autocommit=False), connect(autocommit=False)
    [left_open, ended] = [
        int(one.execute("SELECT pg_current_xact_id()::TEXT").fetchone()[0]) for one in (slow, quick)
    ]
    quick.commit()
    row = conn.execute("SELECT pg_current_snapshot()::TEXT").fetchone()
    assert row is not None
    now = Snapshot.parse(row[0])
    assert left_open in now.open
    assert not now.sees(left_open)
    assert now.sees(ended)
