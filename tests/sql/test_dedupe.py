"""Dedupe keys: one message per key, for as long as the message holds it (invariant 15)."""

from typing import Any

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import Delivery, check, dequeue, dispatch

KEEP_MS = 600_000

Made = tuple[int, str]


def create(conn: psycopg.Connection, channel: str = "a", key: str | None = "k") -> Made:
    """The message holds its key until it is finished, and for KEEP_MS after."""
    return create_unique(conn, channel, key, unique_for=None if key is None else KEEP_MS)


def create_unique(
    conn: psycopg.Connection,
    channel: str = "a",
    key: str | None = "k",
    *,
    unique_while: str | None = None,
    unique_for: int | None = None,
    at: int | None = None,
) -> Made:
    row = conn.execute(
        "SELECT * FROM message_create(%s, '', p_dedupe_key => %s, p_unique_while => %s,"
        " p_unique_for_ms => %s, p_dequeue_at => %s)",
        (channel, key, unique_while, unique_for, at),
    ).fetchone()
    assert row is not None
    return row


def start(conn: psycopg.Connection) -> Delivery:
    dispatch(conn)
    [message], _ = dequeue(conn)
    return message


# While it waits: the default.


def test_a_waiting_message_holds_its_key_wherever_it_waits(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    first, result = create_unique(conn, at=clock.at + 1000)
    assert result == "created"
    assert create_unique(conn) == (first, "duplicate"), "not dispatched yet"
    dispatch(conn)
    assert conn.execute("SELECT COUNT(*) FROM scheduled").fetchone() == (1,)
    assert create_unique(conn) == (first, "duplicate"), "scheduled"
    clock.advance(1000)
    assert create_unique(conn) == (first, "duplicate"), "due, and not dispatched"
    dispatch(conn)
    assert conn.execute("SELECT COUNT(*) FROM ready").fetchone() == (1,)
    assert create_unique(conn) == (first, "duplicate"), "ready"
    conn.execute("SELECT channel_set('a', p_paused => TRUE)")
    dispatch(conn)
    assert conn.execute("SELECT COUNT(*) FROM line").fetchone() == (1,)
    assert create_unique(conn) == (first, "duplicate"), "in the backlog"


@pytest.mark.parametrize("unique_while", [None, "waiting"])
def test_a_message_that_has_started_does_not_hold_its_key(
    conn: psycopg.Connection, unique_while: str | None
) -> None:
    """What was written since it has started needs another run."""
    first, _ = create_unique(conn, unique_while=unique_while)
    message = start(conn)
    second, result = create_unique(conn, unique_while=unique_while)
    assert (result, second > first) == ("created", True)
    assert create_unique(conn) == (second, "duplicate")
    assert conn.execute("SELECT message_complete(%s, %s)", (first, message.token)).fetchone() == (
        "completed",
    )
    assert create_unique(conn) == (second, "duplicate")


def test_a_message_that_waits_for_another_attempt_holds_its_key(conn: psycopg.Connection) -> None:
    """The next attempt sees what has been written meanwhile."""
    FakeClock(conn)
    first, _ = create_unique(conn)
    message = start(conn)
    conn.execute("SELECT message_retry(%s, %s, p_delay_ms => 1000, p_error => 'e')", (first, message.token))
    assert create_unique(conn) == (first, "duplicate")


def test_a_retried_message_whose_key_was_taken_over(conn: psycopg.Connection) -> None:
    first, _ = create_unique(conn)
    message = start(conn)
    second, _ = create_unique(conn)
    conn.execute("SELECT message_retry(%s, %s)", (first, message.token))
    assert create_unique(conn) == (second, "duplicate")
    dispatch(conn)
    assert {found.id for found in dequeue(conn, 5)[0]} == {first, second}, "both are done"


@pytest.mark.parametrize("end", ["complete", "cancel", "die"])
def test_a_finished_message_does_not_hold_its_key(conn: psycopg.Connection, end: str) -> None:
    conn.execute("SELECT queue_set(p_max_attempts => 1)")
    first, _ = create_unique(conn)
    token = "" if end == "cancel" else start(conn).token
    conn.execute("SELECT " + ENDS[end].format(id=first, token=token))
    assert create_unique(conn)[1] == "created"


def test_the_message_with_the_key_decides_how_long_it_is_held(conn: psycopg.Connection) -> None:
    first, _ = create_unique(conn, unique_while="running")
    start(conn)
    assert create_unique(conn) == (first, "duplicate")
    assert create_unique(conn, unique_while="waiting") == (first, "duplicate")


def test_a_stronger_key_takes_over_a_weaker_one(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    create_unique(conn)
    start(conn)
    second, _ = create_unique(conn, unique_for=1000)
    message = start(conn)
    assert create_unique(conn) == (second, "duplicate")
    conn.execute("SELECT message_complete(%s, %s)", (second, message.token))
    clock.advance(999)
    assert create_unique(conn) == (second, "duplicate")
    clock.advance(1)
    assert create_unique(conn)[1] == "created"


def test_a_full_channel_and_a_message_that_has_started(conn: psycopg.Connection) -> None:
    """A duplicate takes up no room. A message that has started does, and so does the next one."""
    conn.execute("SELECT channel_set('a', p_max_size => 2)")
    first, _ = create_unique(conn)
    assert create_unique(conn) == (first, "duplicate")
    start(conn)
    second, result = create_unique(conn)
    assert result == "created"
    assert create_unique(conn) == (second, "duplicate")
    start(conn)
    assert create_unique(conn)[1] == "full"
    check(conn)


def test_a_dead_letter_is_retried_if_nobody_has_its_key(conn: psycopg.Connection) -> None:
    conn.execute("SELECT queue_set(p_max_attempts => 1)")
    dead = {}
    for key in ("free", "waiting", "started"):
        first, _ = create_unique(conn, key=key)
        conn.execute("SELECT message_retry(%s, %s, p_error => 'e')", (first, start(conn).token))
        dead[key] = first
    create_unique(conn, key="started")
    start(conn)
    waiting, _ = create_unique(conn, key="waiting")
    results: dict[int, str] = dict(
        conn.execute("SELECT * FROM dead_retry(%s)", (list(dead.values()),)).fetchall()
    )
    assert {key: results[id_] for key, id_ in dead.items()} == {
        "free": "retried",
        "waiting": "duplicate",
        "started": "retried",
    }
    assert create_unique(conn, key="free") == (dead["free"], "duplicate")
    assert create_unique(conn, key="started") == (dead["started"], "duplicate")
    assert create_unique(conn, key="waiting") == (waiting, "duplicate")
    check(conn)


def test_maintain_looks_after_keys_that_are_held_while_messages_wait(conn: psycopg.Connection) -> None:
    """It deletes those of finished messages, and looks at the others less and less often."""
    clock = FakeClock(conn)
    create_unique(conn, key="gone")
    create_unique(conn, key="kept", at=clock.at + 10**9)
    taken, _ = create_unique(conn, key="taken over")
    for _ in range(2):
        message = start(conn)
        conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token))
    assert message.id == taken
    assert create_unique(conn, key="taken over", at=clock.at + 10**9)[1] == "created"
    rows = "SELECT DISTINCT key FROM dedupe ORDER BY key"
    conn.execute("SELECT maintain()")
    assert conn.execute(rows).fetchall() == [("gone",), ("kept",), ("taken over",)]
    clock.advance(600_000)
    conn.execute("SELECT maintain()")
    assert conn.execute(rows).fetchall() == [("kept",), ("taken over",)]
    clock.advance(600_000)
    conn.execute("SELECT maintain()")
    looks = conn.execute("SELECT check_at - %s FROM dedupe WHERE key = 'kept'", (clock.at,)).fetchone()
    assert looks == (1_200_000,)
    assert create_unique(conn, key="kept")[1] == "duplicate"
    assert create_unique(conn, key="gone")[1] == "created"


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_other_levels_cannot_see_whether_a_message_waits(conn: psycopg.Connection, level: str) -> None:
    with conn.transaction():
        conn.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        assert create_unique(conn, key="running", unique_while="running")[1] == "created"
        assert create_unique(conn, key="kept", unique_for=1)[1] == "created"
        with pytest.raises(psycopg.Error, match=f"at isolation level {level}") as refused, conn.transaction():
            create_unique(conn)
    assert refused.value.sqlstate == "LM009"
    assert "p_unique_while" in (refused.value.diag.message_hint or "")


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("call", ["create", "retry"])
def test_other_levels_take_no_key_from_a_message_that_waits(
    conn: psycopg.Connection, level: str, call: str
) -> None:
    create_unique(conn)
    dead = start(conn)
    conn.execute("SELECT message_retry(%s, %s, p_error => 'x', p_is_final => TRUE)", (dead.id, dead.token))
    create_unique(conn)
    query = {
        "create": "SELECT message_create('a', '', p_dedupe_key => 'k', p_unique_while => 'running')",
        "retry": f"SELECT dead_retry(ARRAY[{dead.id}])",
    }[call]
    conn.execute(f"SET default_transaction_isolation TO '{level}'")
    with pytest.raises(psycopg.Error, match="still waits") as refused:
        conn.execute(query)
    assert refused.value.sqlstate == "LM009"


def test_read_uncommitted_is_read_committed(conn: psycopg.Connection) -> None:
    conn.execute("SET default_transaction_isolation TO 'read uncommitted'")
    first, _ = create_unique(conn)
    assert create_unique(conn) == (first, "duplicate")


def test_a_key_that_is_locked_is_taken_over(connect: Connect) -> None:
    """A creator that counted on a cancelled message still has the key locked. Others do not wait for it."""
    conn, holder = connect(), connect(autocommit=False)
    first, _ = create_unique(conn)
    assert create_unique(holder) == (first, "duplicate")
    conn.execute("SELECT message_cancel(%s)", (first,))
    conn.execute("SET lock_timeout = '5s'")
    second, result = create_unique(conn)
    assert result == "created"
    assert create_unique(conn) == (second, "duplicate")
    holder.commit()
    assert create_unique(conn) == (second, "duplicate")
    check(conn)
    assert conn.execute("SELECT turn, message_id FROM dedupe ORDER BY turn").fetchall() == [
        *((0, first), (1, second)),
    ]
    conn.execute("UPDATE dedupe SET check_at = 1 WHERE turn = 0")
    conn.execute("SELECT maintain()")
    assert create_unique(conn) == (second, "duplicate"), "the first row stays while there are others"
    conn.execute("SELECT message_cancel(%s)", (second,))
    conn.execute("UPDATE dedupe SET check_at = 2")
    conn.execute("UPDATE maintenance SET dedupe_from = 0")
    conn.execute("SELECT maintain()")
    assert conn.execute("SELECT COUNT(*) FROM dedupe").fetchone() == (0,)


# Until it is finished, and longer.


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


@pytest.mark.parametrize("window", [{"unique_while": "running"}, {"unique_for": 0}])
def test_keys_need_not_be_kept_at_all(conn: psycopg.Connection, window: dict[str, Any]) -> None:
    first, _ = create_unique(conn, **window)
    message = start(conn)
    assert create_unique(conn, **window) == (first, "duplicate")
    conn.execute("SELECT message_complete(%s, %s)", (first, message.token))
    assert create_unique(conn, **window)[1] == "created"


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
    at = clock.at - 1
    conn.execute("UPDATE dedupe SET until_at = %s, check_at = %s WHERE message_id = %s", (at, at, late))
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
