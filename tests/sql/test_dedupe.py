"""Dedupe keys: one message per key, until it is finished and for some time after (invariant 15)."""

import psycopg
import pytest

from tests.clock import FakeClock
from tests.invariants import dequeue, dispatch

KEEP_MS = 600_000


def create(conn: psycopg.Connection, channel: str = "a", key: str | None = "k") -> tuple[int, str]:
    row = conn.execute("SELECT * FROM message_create(%s, '', p_dedupe_key => %s)", (channel, key)).fetchone()
    assert row is not None
    return row


def test_a_key_creates_one_message_and_returns_its_id(conn: psycopg.Connection) -> None:
    first, result = create(conn)
    assert result == "created"
    assert create(conn) == (first, "duplicate")
    assert conn.execute("SELECT id, dedupe_key FROM message").fetchall() == [(first, "k")]


def test_a_key_belongs_to_its_channel(conn: psycopg.Connection) -> None:
    ids = {create(conn, channel, key)[0] for channel in "ab" for key in ("k", "l")}
    assert len(ids) == 4


def test_without_a_key_nothing_is_a_duplicate(conn: psycopg.Connection) -> None:
    assert {create(conn, key=None)[1] for _ in range(3)} == {"created"}
    assert conn.execute("SELECT COUNT(*) FROM dedupe").fetchone() == (0,)


def test_a_batch_answers_as_single_calls_would(conn: psycopg.Connection) -> None:
    """Invariant 16."""
    held, _ = create(conn, "b", "held")
    rows = conn.execute(
        "SELECT * FROM message_create_many(%s, %s::BYTEA[], p_dedupe_keys => %s)",
        (["b", "a", "a", "a", "b", "a"], [b""] * 6, ["held", "z", "a", "z", None, "a"]),
    ).fetchall()
    assert [result for _, result in rows] == [
        *("duplicate", "created", "created", "duplicate", "created", "duplicate")
    ]
    ids = [id_ for id_, _ in rows]
    assert (ids[0], ids[3], ids[5]) == (held, ids[1], ids[2])
    assert ids[1] < ids[2] < ids[4], "ids rise in the order given"


ENDS = {
    "complete": "message_complete({id}, '{token}')",
    "complete many": "message_complete_many(ARRAY[{id}]::BIGINT[], ARRAY['{token}']::UUID[])",
    "die": "message_retry({id}, '{token}', p_error => 'e')",
    "cancel": "message_cancel({id})",
}


@pytest.mark.parametrize("end", [*ENDS, "expire"])
def test_a_key_is_kept_for_a_time_after_its_message_finished(conn: psycopg.Connection, end: str) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT queue_set(p_max_attempts => 1)")
    first, _ = create(conn)
    if end != "cancel":
        dispatch(conn)
        [message], _ = dequeue(conn, 1, 1000)
        clock.advance(500)
        assert create(conn) == (first, "duplicate"), "a leased message holds its key"
        if end == "expire":
            clock.advance(500)
            dispatch(conn)
    if end in ENDS:
        token = "" if end == "cancel" else message.token
        conn.execute("SELECT " + ENDS[end].format(id=first, token=token))
    clock.advance(KEEP_MS - 1)
    assert create(conn) == (first, "duplicate")
    clock.advance(1)
    second, result = create(conn)
    assert (result, second > first) == ("created", True)


def test_a_retried_message_keeps_its_key(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    first, _ = create(conn)
    dispatch(conn)
    [message], _ = dequeue(conn)
    conn.execute("SELECT message_retry(%s, %s)", (message.id, message.token))
    clock.advance(10 * KEEP_MS)
    assert create(conn) == (first, "duplicate")


def test_keys_need_not_be_kept_at_all(conn: psycopg.Connection) -> None:
    conn.execute("SELECT queue_set(p_dedupe_keep_ms => 0)")
    first, _ = create(conn)
    conn.execute("SELECT message_cancel(%s)", (first,))
    assert create(conn)[1] == "created"


def test_a_rolled_back_create_leaves_its_key_free(conn: psycopg.Connection) -> None:
    with conn.transaction(force_rollback=True):
        create(conn)
    assert create(conn)[1] == "created"


def test_maintain_deletes_keys_that_are_free_again(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    ids = [create(conn, key=str(n))[0] for n in range(5)]
    conn.execute("SELECT message_cancel_many(%s)", (ids[:4],))
    conn.execute("SELECT maintain()")
    assert conn.execute("SELECT COUNT(*) FROM dedupe").fetchone() == (5,)
    clock.advance(KEEP_MS)
    conn.execute("SELECT maintain(3)")
    conn.execute("SELECT maintain(3)")
    assert conn.execute("SELECT message_id FROM dedupe").fetchall() == [(ids[4],)]
    conn.execute("SELECT maintain()")
    assert conn.execute("SELECT maintain()").fetchone() == (0,)


def test_a_key_freed_by_a_late_commit_is_deleted_the_next_day(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    create(conn, key="early")
    late, _ = create(conn, key="late")
    conn.execute("SELECT message_cancel(id) FROM message WHERE dedupe_key = 'early'")
    clock.advance(KEEP_MS)
    conn.execute("SELECT maintain()")
    conn.execute("UPDATE dedupe SET until_at = %s WHERE message_id = %s", (clock.at - 1, late))
    conn.execute("SELECT maintain()")
    assert conn.execute("SELECT COUNT(*) FROM dedupe").fetchone() == (1,)
    clock.advance(86_400_000)
    conn.execute("SELECT maintain()")
    assert conn.execute("SELECT COUNT(*) FROM dedupe").fetchone() == (0,)


def test_taking_a_key_gives_up_after_many_tries(conn: psycopg.Connection) -> None:
    """As if another transaction changed it at every try: an error that asks to retry, and no endless loop."""
    clock = FakeClock(conn)
    create(conn)
    conn.execute("SELECT message_cancel(id) FROM message")
    clock.advance(KEEP_MS)
    conn.execute("CREATE FUNCTION keep () RETURNS TRIGGER LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    conn.execute("CREATE TRIGGER keep BEFORE UPDATE ON dedupe FOR EACH ROW EXECUTE FUNCTION keep()")
    conn.execute("SET statement_timeout = '10s'")
    with pytest.raises(psycopg.errors.SerializationFailure, match="kept changing the dedupe key 'k'"):
        create(conn)
    conn.execute("DROP TRIGGER keep ON dedupe")
    assert create(conn)[1] == "created"
