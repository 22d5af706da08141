"""max_size: a create into a full channel returns `full`, at exactly the limit."""

import psycopg
import pytest

from tests.clock import FakeClock
from tests.invariants import Delivery, check, dequeue, dispatch


def create(conn: psycopg.Connection, count: int = 1, channel: str = "a") -> list[str]:
    return [
        row[0]
        for row in conn.execute(
            "SELECT result FROM message_create_many("
            "array_fill(%s::TEXT, ARRAY[%s]), array_fill(''::BYTEA, ARRAY[%s]))",
            (channel, count, count),
        )
    ]


def limit(conn: psycopg.Connection, size: int, channel: str = "a") -> None:
    conn.execute("SELECT channel_set(%s, p_max_size => %s)", (channel, size))


def take(conn: psycopg.Connection, lease_ms: int = 30_000) -> Delivery:
    dispatch(conn)
    [message], _ = dequeue(conn, 1, lease_ms)
    return message


def test_full_at_exactly_the_limit_creates_nothing(conn: psycopg.Connection) -> None:
    limit(conn, 3)
    assert create(conn, 2) == ["created"] * 2
    assert create(conn, 3) == ["created", "full", "full"]
    assert conn.execute("SELECT * FROM message_create('a', '')").fetchone() == (None, "full")
    assert create(conn, 1, "b") == ["created"], "other channels have no limit"
    assert conn.execute("SELECT COUNT(*) FROM message WHERE channel = 'a'").fetchone() == (3,)
    assert len(dequeue_all(conn)) == 4


def test_other_channels_take_the_fast_way(conn: psycopg.Connection) -> None:
    """A max_size somewhere in the queue does not make creating messages slower everywhere."""
    limit(conn, 3)
    calls = "SELECT COALESCE(pg_stat_get_xact_function_calls(%s::REGPROC), 0)"
    with conn.transaction():
        conn.execute("SET LOCAL track_functions = 'all'")
        for channel, expected in (("b", 0), ("a", 2)):
            create(conn, 1, channel)
            conn.execute("SELECT message_create(%s, '')", (channel,))
            assert conn.execute(calls, ("messages_create",)).fetchone() == (expected,), channel


def test_full_is_an_error_when_that_is_asked_for(conn: psycopg.Connection) -> None:
    limit(conn, 3)
    call = "SELECT COUNT(*) FROM message_create_many(%s, %s, p_raise_full => TRUE)"
    with pytest.raises(psycopg.Error) as refused:
        conn.execute(call, (["b", "a", "a", "a", "a"], [b""] * 5))
    assert refused.value.sqlstate == "LM017"
    assert refused.value.diag.message_primary == (
        "channel 'a' is full (max_size 3): 1 of 5 messages do not fit into their channels"
    )
    assert conn.execute("SELECT COUNT(*) FROM message").fetchone() == (0,), "the call created nothing"
    assert conn.execute(call, (["b", "a", "a", "a"], [b""] * 4)).fetchone() == (4,)
    check(conn)


def dequeue_all(conn: psycopg.Connection) -> list[Delivery]:
    dispatch(conn)
    return dequeue(conn, 100)[0]


ENDS = {
    "complete": "message_complete({id}, '{token}')",
    "complete many": "message_complete_many(ARRAY[{id}]::BIGINT[], ARRAY['{token}']::UUID[])",
    "die": "message_retry({id}, '{token}', p_error => 'e')",
    "cancel while leased": "message_cancel({id})",
}


@pytest.mark.parametrize("end", [*ENDS, "expire", "cancel while waiting", "delete", "release"])
def test_room_is_free_when_a_message_is_finished_and_not_before(conn: psycopg.Connection, end: str) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT queue_set(p_max_attempts => 1)")
    limit(conn, 1)
    assert create(conn) == ["created"]
    if end == "cancel while waiting":
        conn.execute("SELECT message_cancel(id) FROM message")
    elif end == "delete":
        conn.execute("SELECT channel_delete('a', TRUE)")
        limit(conn, 1)
    else:
        message = take(conn, 1000)
        assert create(conn) == ["full"], "leased messages count"
        call = ENDS.get(end, "message_retry({id}, '{token}')").format(id=message.id, token=message.token)
        if end != "expire":
            conn.execute("SELECT " + call)
        if end == "cancel while leased":
            assert create(conn) == ["full"], "it is only marked"
            conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token))
        if end == "expire":
            clock.advance(1000)
            dispatch(conn)
    assert create(conn, 2) == (["full", "full"] if end == "release" else ["created", "full"])
    check(conn)


def test_many_rounds_do_not_use_up_the_room(conn: psycopg.Connection) -> None:
    limit(conn, 3)
    for _ in range(20):
        assert create(conn, 2) == ["created", "created"]
        for message in dequeue_all(conn):
            conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token))
    assert create(conn, 4) == ["created"] * 3 + ["full"]
    size = conn.execute("SELECT size - (SELECT COALESCE(SUM(n), 0) FROM departure) FROM capacity").fetchone()
    assert size == (3,)


def test_a_new_limit_counts_existing_messages(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    create(conn, 3)
    early = take(conn)
    limit(conn, 4)
    assert create(conn, 2) == ["created", "full"]
    conn.execute("SELECT message_complete(%s, %s)", (early.id, early.token))
    clock.advance(1000)
    assert create(conn, 2) == ["created", "full"], "it wrote no departure; the recount finds that it is gone"


def test_a_limit_lifted_lowered_and_set_again(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    limit(conn, 2)
    create(conn, 2)
    limit(conn, 0)
    assert create(conn, 3) == ["created"] * 3
    limit(conn, 4)
    assert create(conn) == ["full"]
    limit(conn, 6)
    assert create(conn, 2) == ["created", "full"]
    for message in dequeue_all(conn):
        conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token))
    clock.advance(1000)
    assert create(conn, 7) == ["created"] * 6 + ["full"]


def test_a_rolled_back_create_takes_no_room(conn: psycopg.Connection) -> None:
    limit(conn, 1)
    with conn.transaction(force_rollback=True):
        assert create(conn) == ["created"]
        assert create(conn) == ["full"]
    assert create(conn) == ["created"]


def test_duplicates_take_no_room_and_come_before_full(conn: psycopg.Connection) -> None:
    limit(conn, 2)
    rows = conn.execute(
        "SELECT * FROM message_create_many(%s, %s::BYTEA[], p_dedupe_keys => %s)",
        (["a"] * 5, [b""] * 5, ["k", "k", None, "l", "k"]),
    ).fetchall()
    assert [result for _, result in rows] == ["created", "duplicate", "created", "full", "duplicate"]
    again = conn.execute("SELECT * FROM message_create('a', '', p_dedupe_key => 'k')").fetchone()
    assert again == (rows[0][0], "duplicate")
    conn.execute("SELECT message_cancel(%s)", (rows[2][0],))
    assert conn.execute("SELECT result FROM message_create('a', '', p_dedupe_key => 'l')").fetchone() == (
        "created",
    ), "the key of a message that did not fit is free"


def test_dead_messages_take_no_room_and_need_some_to_be_retried(conn: psycopg.Connection) -> None:
    limit(conn, 1)
    conn.execute("SELECT message_create('a', '', p_max_attempts => 1)")
    message = take(conn)
    conn.execute("SELECT message_retry(%s, %s, p_error => 'e')", (message.id, message.token))
    assert create(conn) == ["created"]
    assert conn.execute("SELECT result FROM dead_retry(ARRAY[%s]::BIGINT[])", (message.id,)).fetchone() == (
        "full",
    )
    conn.execute("SELECT message_cancel(id) FROM message")
    assert conn.execute("SELECT result FROM dead_retry(ARRAY[%s]::BIGINT[])", (message.id,)).fetchone() == (
        "retried",
    )
    assert create(conn) == ["full"]


def test_a_recount_sees_all_uncounted_messages(conn: psycopg.Connection) -> None:
    """Including messages for which there is no room beside the counted ones, which may leave first."""
    clock = FakeClock(conn)
    limit(conn, 2)
    create(conn, 2)
    limit(conn, 0)
    create(conn, 8)
    limit(conn, 5)
    clock.advance(1000)
    assert create(conn) == ["full"]
    conn.execute("SELECT message_cancel(id) FROM message WHERE is_counted")
    assert create(conn, 3) == ["full"] * 3, "eight are there, five are allowed"


def test_departures_are_found_after_a_restore(conn: psycopg.Connection) -> None:
    """From a dump of a server whose transaction ids were higher."""
    limit(conn, 1)
    assert create(conn, 2) == ["created", "full"]
    conn.execute("UPDATE capacity SET read_to = '900000000:900000000:', started_at = 'epoch'")
    conn.execute("SELECT message_cancel(id) FROM message")
    assert create(conn, 2) == ["created", "full"]
    check(conn)
