"""Followers of the history: rows that a follower has not read are kept, however old they are."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect, until_waiting
from tests.sql.test_history import (
    DAY,
    NOON,
    complete,
    ends,
    finish_one,
    lease,
    maintain,
    name_of,
    partitions,
    switch_on,
)


@pytest.fixture
def clock(conn: psycopg.Connection) -> FakeClock:
    return FakeClock(conn, NOON)


def bounds(conn: psycopg.Connection) -> tuple[str, int, int, bool]:
    row = conn.execute("SELECT snapshot, system_id, trimmed_xid, is_kept FROM history_bounds()").fetchone()
    assert row is not None
    return row


def present(conn: psycopg.Connection) -> str:
    return bounds(conn)[0]


def follow(conn: psycopg.Connection, name: str = "lake", snapshot: str | None = None) -> None:
    conn.execute("SELECT history_follow(%s, %s)", (name, snapshot or present(conn)))


def followers(conn: psycopg.Connection) -> list[tuple[Any, ...]]:
    return conn.execute("SELECT name, snapshot FROM history_followers()").fetchall()


def days(conn: psycopg.Connection, clock: FakeClock, count: int, keep: int = 2) -> list[int]:
    """One row per day; those before the last `keep` days are too old."""
    switch_on(conn, history_keep_ms=keep * DAY)
    ids = []
    for _ in range(count):
        ids.append(finish_one(conn))
        clock.advance(DAY)
        conn.execute("SELECT history_prepare(clock_ms())")
    return ids


def kept(conn: psycopg.Connection) -> list[int]:
    return [row[0] for row in ends(conn)]


def written(conn: psycopg.Connection) -> int:
    """A number that grows with every transaction that writes."""
    row = conn.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::TEXT::BIGINT").fetchone()
    assert row is not None
    return int(row[0])


def test_a_day_is_kept_until_it_is_read(conn: psycopg.Connection, clock: FakeClock) -> None:
    follow(conn, snapshot="10:10:")
    ids = days(conn, clock, 6)
    maintain(conn)
    assert kept(conn) == ids
    assert bounds(conn)[2] == 0, "nothing was dropped"
    follow(conn)
    maintain(conn)
    assert kept(conn) == ids[4:]
    assert partitions(conn)[0] == name_of(NOON + 4 * DAY)


def test_days_go_as_they_are_read(conn: psycopg.Connection, clock: FakeClock) -> None:
    ids = days(conn, clock, 6)
    xids = [row[0] for row in conn.execute("SELECT xid::TEXT::BIGINT FROM history ORDER BY id")]
    for n in range(1, 5):
        follow(conn, snapshot=f"{xids[n]}:{xids[n]}:")  # everything below it, and not itself
        maintain(conn)
        assert kept(conn) == ids[n:]
        assert bounds(conn)[2] == xids[n - 1], "the last row that was dropped"


def test_the_slowest_follower_decides(conn: psycopg.Connection, clock: FakeClock) -> None:
    follow(conn, "slow", "10:10:")
    ids = days(conn, clock, 6)
    follow(conn, "fast")
    maintain(conn)
    assert kept(conn) == ids
    assert conn.execute("SELECT history_unfollow('slow')").fetchone() == (True,)
    assert conn.execute("SELECT history_unfollow('slow')").fetchone() == (False,)
    maintain(conn)
    assert kept(conn) == ids[4:]


def test_rows_of_transactions_open_at_the_position_are_kept(
    connect: Connect, conn: psycopg.Connection, clock: FakeClock
) -> None:
    """The snapshot is newer than the transaction, and does not see it."""
    switch_on(conn, history_keep_ms=2 * DAY)
    late = connect(autocommit=False)
    message = lease(conn)
    complete(late, message)
    finish_one(conn)
    snapshot = present(conn)
    assert snapshot.split(":")[2], "it has an open transaction"
    late.commit()
    follow(conn, snapshot=snapshot)
    clock.advance(6 * DAY)
    conn.execute("SELECT history_prepare(clock_ms())")
    maintain(conn)
    assert message.id in kept(conn)
    follow(conn)
    maintain(conn)
    assert kept(conn) == []


def test_maintain_writes_nothing_when_all_is_held_back(conn: psycopg.Connection, clock: FakeClock) -> None:
    follow(conn, snapshot="10:10:")
    days(conn, clock, 6)
    clock.advance(20 * DAY)
    finish_one(conn)  # there is no partition for it
    clock.advance(6 * DAY)
    for _ in range(3):
        maintain(conn)
    with conn.transaction():
        maintain(conn)
        assert conn.execute("SELECT pg_current_xact_id_if_assigned()").fetchone() == (None,)
    assert len(kept(conn)) == 7


def test_what_has_no_partition_is_kept_until_it_is_read(conn: psycopg.Connection, clock: FakeClock) -> None:
    switch_on(conn, history_keep_ms=2 * DAY)
    clock.advance(30 * DAY)
    ids = [finish_one(conn)]
    follow(conn)
    ids.append(finish_one(conn))
    clock.advance(6 * DAY)
    maintain(conn)
    assert kept(conn) == ids[1:]
    follow(conn)
    maintain(conn)
    assert kept(conn) == []
    assert bounds(conn)[2] > 0


def test_a_position_of_another_cluster_says_nothing(conn: psycopg.Connection, clock: FakeClock) -> None:
    """A dump was restored: nobody knows which of these rows the follower has."""
    ids = days(conn, clock, 6)
    clock.advance(20 * DAY)
    ids.append(finish_one(conn))
    clock.advance(6 * DAY)
    follow(conn)
    conn.execute("UPDATE follower SET system_id = system_id + 1")
    maintain(conn)
    assert kept(conn) == ids
    follow(conn, snapshot="10:10:")
    assert followers(conn) == [("lake", "10:10:")], "it starts again"
    follow(conn)
    maintain(conn)
    assert kept(conn) == []


def test_positions_only_go_forward(conn: psycopg.Connection) -> None:
    position = present(conn)
    follow(conn, snapshot=position)
    follow(conn, snapshot="10:10:")
    assert followers(conn) == [("lake", position)]


@pytest.mark.parametrize("snapshot", [None, "", "x", "10:9:", "9:10"])
def test_a_bad_snapshot_is_refused(conn: psycopg.Connection, snapshot: str | None) -> None:
    with pytest.raises(psycopg.Error, match="snapshot is not valid") as error:
        conn.execute("SELECT history_follow('lake', %s)", (snapshot,))
    assert error.value.sqlstate == "LM010"


@pytest.mark.parametrize("name", [None, "", "x" * 256])
def test_a_bad_name_is_refused(conn: psycopg.Connection, name: str | None) -> None:
    with pytest.raises(psycopg.Error, match="name or snapshot is not valid") as error:
        conn.execute("SELECT history_follow(%s, '10:10:')", (name,))
    assert error.value.sqlstate == "LM010"


def test_a_position_in_the_future_is_refused(conn: psycopg.Connection) -> None:
    ahead = written(conn) + 1000
    with pytest.raises(psycopg.Error, match="'lake' is ahead of the history") as error:
        conn.execute("SELECT history_follow('lake', %s)", (f"{ahead}:{ahead}:",))
    assert error.value.sqlstate == "LM015"


def test_history_bounds(conn: psycopg.Connection) -> None:
    snapshot, system, trimmed, is_kept = bounds(conn)
    assert conn.execute("SELECT %s::PG_SNAPSHOT IS NOT NULL", (snapshot,)).fetchone() == (True,)
    assert conn.execute("SELECT system_identifier FROM pg_control_system()").fetchone() == (system,)
    assert (trimmed, is_kept) == (0, False)
    switch_on(conn)
    assert bounds(conn)[3]


def test_maintain_does_not_wait_for_a_day_that_somebody_holds(
    connect: Connect, conn: psycopg.Connection, clock: FakeClock
) -> None:
    """Another session may be dropping it: this one then finds no such table."""
    ids = days(conn, clock, 6)
    follow(conn)
    dropper = connect(autocommit=False)
    dropper.execute(f"LOCK TABLE {name_of(NOON)} IN ACCESS EXCLUSIVE MODE")
    maintain(conn)
    assert name_of(NOON) in partitions(conn)
    dropper.rollback()
    maintain(conn)
    assert kept(conn) == ids[4:]


def test_two_maintain_at_once(connect: Connect, conn: psycopg.Connection, clock: FakeClock) -> None:
    """The second one does not wait: the first one already drops the days."""
    ids = days(conn, clock, 6)
    follow(conn)
    first, second = connect(autocommit=False), connect()
    assert first.execute("SELECT maintain()").fetchone() != (0,)
    second.execute("SET lock_timeout = '10s'")
    maintain(second)
    first.commit()
    assert kept(conn) == ids[4:]


def test_a_day_that_another_has_dropped_since_it_was_listed(conn: psycopg.Connection) -> None:
    follow(conn)
    assert conn.execute("SELECT history_is_read('finished_19700101')").fetchone() == (False,)


@pytest.mark.parametrize("is_emptied", [False, True], ids=["dropped", "emptied, as finishers are at work"])
def test_a_row_that_commits_while_its_day_is(
    connect: Connect, conn: psycopg.Connection, clock: FakeClock, *, is_emptied: bool
) -> None:
    """It is not visible when maintain checks that everything is read, but it is when maintain has locked
    the partition."""
    switch_on(conn, history_keep_ms=2 * DAY)
    finish_one(conn)
    late = connect(autocommit=False)
    message = lease(conn)
    complete(late, message)
    clock.advance(4 * DAY)
    conn.execute("SELECT history_prepare(clock_ms())")
    snapshot = present(conn).split(":")[0]
    follow(conn, snapshot=f"{snapshot}:{snapshot}:")
    # Stops after maintain has checked, and before it locks.
    conn.execute(
        "CREATE FUNCTION commit_late () RETURNS VOID LANGUAGE plpgsql AS $$ BEGIN"
        " PERFORM pg_advisory_lock(815), pg_advisory_unlock(815); END $$"
    )
    source = conn.execute("SELECT pg_get_functiondef('history_trim'::REGPROC)").fetchall()[0][0]
    before = "        BEGIN\n            LOCK TABLE ONLY finished"
    assert source.count(before) == 1, "history_trim was rewritten: choose another place to stop"
    conn.execute(source.replace(before, "        PERFORM commit_late();\n" + before))
    gate, cleaner, finisher = connect(), connect(), connect(autocommit=False)
    if is_emptied:
        complete(finisher, lease(conn))
    gate.execute("SELECT pg_advisory_lock(815)")
    with ThreadPoolExecutor(1) as thread:
        cleaning = thread.submit(maintain, cleaner)
        until_waiting(conn, cleaner)
        late.commit()
        gate.execute("SELECT pg_advisory_unlock(815)")
        cleaning.result(timeout=10)
    assert message.id in kept(conn)
