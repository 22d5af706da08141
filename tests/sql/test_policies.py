"""What the policies were, and since when: the view `policies`."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect, until_waiting
from tests.sql.test_followers import bounds, follow, present

DAY = 86_400_000
NOON = 1_700_000_000_000 // DAY * DAY + DAY // 2
NEWEST = """
    SELECT at, scope, channel, max_concurrency, release_interval_us, burst, paused, max_size, weight::FLOAT,
        is_deleted FROM policies WHERE xid > %s::TEXT::XID8 ORDER BY id"""


@pytest.fixture
def clock(conn: psycopg.Connection) -> FakeClock:
    return FakeClock(conn, NOON)


def installed(conn: psycopg.Connection) -> int:
    """The transaction of the installation, which recorded the first policies."""
    [(xid,)] = conn.execute("SELECT MIN(xid)::TEXT::BIGINT FROM policy_log").fetchall()
    return int(xid)


def rows(conn: psycopg.Connection, after: int) -> list[Any]:
    return conn.execute(NEWEST, (after,)).fetchall()


def newest(conn: psycopg.Connection) -> list[Any]:
    query = "SELECT scope, channel, max_concurrency FROM policies ORDER BY id DESC LIMIT 1"
    return conn.execute(query).fetchall()


def maintain(conn: psycopg.Connection) -> None:
    while conn.execute("SELECT maintain()").fetchall() != [(0,)]:
        pass


def test_one_row_per_change(conn: psycopg.Connection, clock: FakeClock) -> None:
    """Of a channel, of the queue and of what channels inherit. A call that changes nothing writes no row."""
    start = installed(conn)
    first = "SELECT scope, channel, max_concurrency, paused, is_deleted FROM policies ORDER BY id"
    assert conn.execute(first).fetchall() == [
        ("queue", None, None, False, False),
        ("default", None, None, None, False),
    ]
    began = clock.at
    conn.execute("SELECT channel_set('a', p_max_concurrency => 3, p_burst => 2, p_weight => 2.5)")
    clock.advance(10)
    conn.execute("SELECT channel_set('a', p_max_concurrency => 3, p_weight => 2.50)")
    conn.execute(
        "SELECT channel_set('a', p_release_interval_us => 0, p_max_size => 9, p_paused => TRUE,"
        " p_inherit => '{max_concurrency}')"
    )
    clock.advance(10)
    conn.execute("SELECT queue_set(p_max_concurrency => 50, p_lease_ms => 1000)")
    conn.execute("SELECT queue_set(p_lease_ms => 2000, p_max_concurrency => 50)")
    conn.execute("SELECT queue_set(p_paused => TRUE, p_channel_burst => 4, p_channel_max_size => 0)")
    clock.advance(10)
    for _ in range(2):
        conn.execute("SELECT channel_delete('a')")
        conn.execute("SELECT channel_delete('without a policy', TRUE)")
    conn.execute("SELECT channel_set('a', p_paused => FALSE)")
    assert rows(conn, start) == [
        (began, "channel", "a", 3, None, 2, False, None, 2.5, False),
        (began + 10, "channel", "a", None, 0, 2, True, 9, 2.5, False),
        (began + 20, "queue", None, 50, None, None, False, None, None, False),
        (began + 20, "queue", None, 50, None, None, True, None, None, False),
        (began + 20, "default", None, None, None, 4, None, None, None, False),
        (began + 30, "channel", "a", None, None, None, False, None, 1.0, True),
        (began + 30, "channel", "a", None, None, None, False, None, 1.0, False),
    ]


def test_what_is_rolled_back_is_not_recorded(connect: Connect, conn: psycopg.Connection) -> None:
    start = installed(conn)
    other = connect(autocommit=False)
    for call in ("channel_set('a', 3)", "queue_set(p_paused => TRUE)", "channel_delete('a')"):
        other.execute(f"SELECT {call}".encode())
    other.rollback()
    assert rows(conn, start) == []
    with pytest.raises(psycopg.DatabaseError, match="out of range"):
        conn.execute("SELECT channel_set('a', -3)")
    assert rows(conn, start) == []


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
@pytest.mark.parametrize("has_policy", [False, True])
def test_concurrent_changes_are_recorded_in_their_order(
    connect: Connect, conn: psycopg.Connection, level: str, has_policy: bool
) -> None:
    """The second waits for the first, so the newest row is the policy that applies."""
    if has_policy:
        conn.execute("SELECT channel_set('a', 1)")
    first, second = connect(autocommit=False), connect(autocommit=False)
    second.execute(f"SET TRANSACTION ISOLATION LEVEL {level}".encode())
    second.execute("SELECT FROM queue")
    first.execute("SELECT channel_set('a', 2)")
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(second.execute, "SELECT channel_set('a', 3, p_paused => TRUE)")
        until_waiting(conn, second)
        first.commit()
    if level == "REPEATABLE READ":
        with pytest.raises(psycopg.errors.SerializationFailure):
            waiting.result()
        assert newest(conn) == [("channel", "a", 2)]
        return
    waiting.result()
    second.commit()
    assert newest(conn) == [("channel", "a", 3)]
    count = (
        "SELECT COUNT(*), COUNT(*) FILTER (WHERE superseded_at IS NULL) FROM policy_log WHERE channel = 'a'"
    )
    assert conn.execute(count).fetchall() == [(2 + has_policy, 1)]


def limits(conn: psycopg.Connection) -> list[int]:
    query = "SELECT max_concurrency FROM policies WHERE scope = 'channel' ORDER BY channel, id"
    return [row[0] for row in conn.execute(query)]


def test_a_policy_is_kept_as_long_as_the_history_of_its_time(
    conn: psycopg.Connection, clock: FakeClock
) -> None:
    """It was superseded before that history begins, all followers have read it, and it is not the newest."""
    conn.execute("SELECT queue_set(p_history_keep_ms => %s)", (2 * DAY,))
    for limit in (1, 2, 3):
        conn.execute("SELECT channel_set('a', %s)", (limit,))
        clock.advance(5 * DAY)
    conn.execute("SELECT channel_set('b', 9)")
    conn.execute("SELECT channel_set('a', 4)")
    follow(conn, snapshot="1:1:")
    maintain(conn)
    assert limits(conn) == [1, 2, 3, 4, 9]
    mark = "SELECT policy_mark(%s)"
    before, [(marked,)] = present(conn), conn.execute(mark, (present(conn),)).fetchall()
    assert marked > 0
    follow(conn)
    maintain(conn)
    assert limits(conn) == [3, 4, 9]
    [(trimmed,)] = conn.execute("SELECT policies_trimmed_xid FROM history_bounds()").fetchall()
    assert installed(conn) < trimmed < int(before.split(":")[1])
    assert bounds(conn)[2] == 0
    assert conn.execute(mark, (before,)).fetchall() == [(marked,)]
    clock.advance(5 * DAY)
    maintain(conn)
    assert limits(conn) == [4, 9]
    clock.advance(365 * DAY)
    maintain(conn)
    assert limits(conn) == [4, 9]
    assert conn.execute(mark, (before,)).fetchall() == [(marked,)], "its row is still there"
    conn.execute("SELECT channel_set('a', 5)")
    clock.advance(5 * DAY)
    follow(conn)
    maintain(conn)
    assert limits(conn) == [5, 9]
    assert conn.execute(mark, (before,)).fetchall() == [(None,)], "its row is gone"


def test_channels_that_come_and_go_leave_nothing(conn: psycopg.Connection, clock: FakeClock) -> None:
    """The row that says that a policy was deleted goes when nobody needs it, and never before the policy."""
    conn.execute("SELECT queue_set(p_history_keep_ms => %s)", (2 * DAY,))
    first = "SELECT channel, MIN(is_deleted::INT) FROM policies WHERE scope = 'channel' GROUP BY 1 ORDER BY 1"
    for name in "abc":
        conn.execute("SELECT channel_set(%s, 1)", (name,))
    conn.execute("SELECT channel_delete(name) FROM channel WHERE name <> 'c'")
    conn.execute("SELECT channel_set('b', 2)")
    follow(conn, snapshot="1:1:")
    clock.advance(5 * DAY)
    maintain(conn)
    assert conn.execute(first).fetchall() == [("a", 0), ("b", 0), ("c", 0)], "a follower has not read them"
    follow(conn)
    conn.execute("SELECT policy_trim(%s, 1)", (clock.at,))
    assert conn.execute(first).fetchall() == [("a", 1), ("b", 0), ("c", 0)]
    maintain(conn)
    assert conn.execute(first).fetchall() == [("b", 0), ("c", 0)]
    assert limits(conn) == [2, 1]
    for _ in range(2):
        conn.execute("SELECT channel_delete('a')")
    conn.execute("SELECT channel_set('a', 3)")
    assert limits(conn) == [3, 2, 1]


def test_the_mark_is_of_the_past_that_a_snapshot_sees(connect: Connect, conn: psycopg.Connection) -> None:
    mark = "SELECT policy_mark(%s)"
    assert conn.execute(mark, ("1:1:",)).fetchall() == [(0,)]
    conn.execute("SELECT channel_set('a', 1)")
    before, [(marked,)] = present(conn), conn.execute(mark, (present(conn),)).fetchall()
    conn.execute("SELECT channel_set('a', 2)")
    assert conn.execute(mark, (before,)).fetchall() == [(marked,)]
    assert conn.execute(mark, (present(conn),)).fetchall() != [(marked,)]
    conn.execute("UPDATE policy_log SET at = at + 1 WHERE max_concurrency = 1")
    assert conn.execute(mark, (before,)).fetchall() != [(marked,)], "another past"
    with pytest.raises(psycopg.DatabaseError, match="the snapshot is not valid"):
        conn.execute(mark, ("yesterday",))


def test_reading_and_trimming_use_an_index(conn: psycopg.Connection) -> None:
    """A hundred thousand channels with a policy cost nothing as long as nothing changes."""
    conn.execute(
        "INSERT INTO policy_log (at, scope, channel) SELECT 0, 'channel', n FROM generate_series(1, 5000) n"
    )
    conn.execute("VACUUM ANALYZE policy_log")
    conn.execute("SET enable_seqscan TO off")
    for query in (
        "SELECT * FROM policies WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())",
        "SELECT * FROM policy_log WHERE superseded_at < 5 ORDER BY superseded_at LIMIT 1",
        "SELECT * FROM policy_log WHERE scope = 'channel' AND channel = '7' AND superseded_at IS NULL",
    ):
        [(plan,)] = conn.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}".encode()).fetchall()
        assert plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"] < 10, query
