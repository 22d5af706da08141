"""message_dequeue: order, shares, leases, and what it tells a consumer that got less than it asked for."""

from collections import Counter

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect
from tests.judge import check, dequeue, drain, fold


def fill(conn: psycopg.Connection, **channels: int) -> None:
    for channel, count in channels.items():
        conn.execute(
            "SELECT message_create_many(array_fill(%s::TEXT, ARRAY[%s]), array_fill(''::BYTEA, ARRAY[%s]))",
            (channel, count, count),
        )
    fold(conn)


def test_channels_take_turns(conn: psycopg.Connection) -> None:
    """Invariant 12, within one millisecond as well: the clock stands still."""
    FakeClock(conn)
    fill(conn, noisy=100, quiet=5, other=5)
    served = [dequeue(conn)[0][0].channel for _ in range(15)]
    assert Counter(served) == {"noisy": 5, "quiet": 5, "other": 5}
    assert all(len(set(served[n : n + 3])) == 3 for n in range(0, 15, 3))


def test_a_batch_is_shared_and_leftovers_go_to_those_that_have_more(conn: psycopg.Connection) -> None:
    """Invariants 12 and 13: never fewer than asked while more is due, never more than asked."""
    fill(conn, noisy=100, quiet=2, other=7)
    messages, again_at = dequeue(conn, 20)
    assert Counter(message.channel for message in messages) == {"noisy": 11, "quiet": 2, "other": 7}
    assert again_at is None
    assert {message.channel for message in messages[:3]} == {"noisy", "quiet", "other"}


def test_more_channels_than_asked_for_get_one_each(conn: psycopg.Connection) -> None:
    fill(conn, **{f"c{n}": 3 for n in range(10)})
    turns = [[message.channel for message in dequeue(conn, 4)[0]] for _ in range(5)]
    assert [len(set(turn)) for turn in turns] == [4] * 5
    assert set(Counter(channel for turn in turns for channel in turn).values()) == {2}


def test_a_channel_is_served_in_order(conn: psycopg.Connection) -> None:
    """Invariant 11."""
    fill(conn, a=30, b=10)
    served = [message for _ in range(8) for message in dequeue(conn, 5)[0]]
    for channel in "ab":
        ids = [message.id for message in served if message.channel == channel]
        assert ids == sorted(ids)
    assert len(served) == 40


def test_nothing_jumps_another_tenants_turn(conn: psycopg.Connection) -> None:
    """Urgency orders a channel, not the ring: an urgent message waits until its channel's turn comes."""
    FakeClock(conn)
    fill(conn, a=10, b=10, c=10)
    [first], _ = dequeue(conn)
    for n in range(5):
        conn.execute("SELECT message_create(%s, 'urgent', %s)", (first.channel, -1 - n))
        fold(conn)
    served = [dequeue(conn)[0][0] for _ in range(3)]
    assert [message.channel for message in served].index(first.channel) == 2
    assert served[2].content == b"urgent"


def test_the_lease_and_its_token(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    fill(conn, a=3)
    messages, _ = dequeue(conn, 2, 5000, "worker 7")
    [other], _ = dequeue(conn, 1, 1)
    assert {message.lease_end_at for message in messages} == {clock.at + 5000}
    assert other.token not in {message.token for message in messages}
    assert conn.execute("SELECT DISTINCT consumer FROM message WHERE consumer IS NOT NULL").fetchall() == [
        ("worker 7",)
    ]


def test_a_lease_that_ran_out_comes_back_to_its_place(conn: psycopg.Connection) -> None:
    """Invariants 1, 11 and 14: same dequeue_at, one attempt used up; an urgent message stays urgent."""
    clock = FakeClock(conn)
    conn.execute("SELECT message_create('a', 'urgent', -9)")
    fill(conn, a=2)
    [first], _ = dequeue(conn, 1, 1000)
    clock.advance(999)
    fold(conn)
    assert dequeue(conn)[0][0].id != first.id
    clock.advance(1)
    fold(conn)
    [again], _ = dequeue(conn)
    assert (again.id, again.content, again.attempts) == (first.id, b"urgent", 2)
    assert again.token != first.token
    assert conn.execute("SELECT message_complete(%s, %s)", (first.id, first.token)).fetchone() == ("lost",)
    assert conn.execute("SELECT dequeue_at FROM message WHERE id = %s", (first.id,)).fetchone() == (-9,)
    check(conn)


def test_attempts_that_run_out_end_among_the_dead(conn: psycopg.Connection) -> None:
    """Invariant 14: at exactly the limit."""
    clock = FakeClock(conn)
    conn.execute("SELECT message_create('a', 'poison', NULL, NULL, 3)")
    for attempt in (1, 2, 3):
        fold(conn)
        [message], _ = dequeue(conn, 1, 100)
        assert message.attempts == attempt
        assert conn.execute("SELECT COUNT(*) FROM dead").fetchone() == (0,)
        clock.advance(100)
    fold(conn)
    assert dequeue(conn)[0] == []
    row = conn.execute("SELECT id, channel, content, attempts, error, dead_at FROM dead").fetchone()
    assert row == (message.id, "a", b"poison", 3, "the lease ran out", clock.at)
    assert conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token)).fetchone() == (
        "lost",
    )


def test_again_at_is_the_next_due_time_and_at_most_a_second_ahead(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    fold(conn)
    assert dequeue(conn) == ([], clock.at + 1000)
    conn.execute("SELECT message_create('a', '', %s)", (clock.at + 300,))
    assert dequeue(conn) == ([], clock.at), "a wake waits to be folded"
    fold(conn)
    assert dequeue(conn) == ([], clock.at + 300)
    conn.execute("SELECT message_create('b', '', %s)", (clock.at + 60_000,))
    clock.advance(300)
    fold(conn)
    messages, again_at = dequeue(conn, 5)
    assert (len(messages), again_at) == (1, clock.at), "who got some asks again when it is done with them"
    fold(conn)
    assert dequeue(conn, 5) == ([], clock.at + 1000)


def test_an_idle_queue_writes_nothing(connect: Connect) -> None:
    """No transaction number, no WAL: neither a fold, nor a dequeue, nor a maintain with nothing to do."""
    conn = connect()
    fill(conn, a=5)
    drain(conn)
    conn.execute("SELECT maintain()")
    conn.execute("UPDATE tick SET swept_at = lease_max_at + 1")  # as if the last lease's end had come
    fold(conn)
    with conn.transaction():
        for call in ("dispatch()", "message_dequeue(10)", "maintain()"):
            conn.execute("SELECT " + call)
            assert conn.execute("SELECT pg_current_xact_id_if_assigned()").fetchone() == (None,), call


def test_an_unfolded_queue_says_so_instead_of_serving(conn: psycopg.Connection) -> None:
    conn.execute("SELECT message_create('a', '')")
    messages, again_at = dequeue(conn)
    assert messages == []
    assert again_at is not None


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("call", ["message_dequeue()", "dispatch()", "rebuild()", "maintain()"])
def test_other_isolation_levels_are_refused(conn: psycopg.Connection, level: str, call: str) -> None:
    conn.execute(f"SET default_transaction_isolation TO '{level}'")
    with pytest.raises(psycopg.Error, match="cannot run at isolation level " + level) as error:
        conn.execute("SELECT " + call)
    assert error.value.sqlstate == "LM009"
    assert "READ COMMITTED" in (error.value.diag.message_hint or "")


def test_a_message_somebody_holds_is_stepped_over_and_not_forgotten(connect: Connect) -> None:
    """Invariant 8: the head passes only what was taken."""
    conn, other = connect(), connect(autocommit=False)
    fill(conn, a=10)
    other.execute("SELECT FROM message ORDER BY id LIMIT 3 FOR UPDATE")
    first, _ = dequeue(conn, 1)
    second, _ = dequeue(conn, 3)
    ids = [row[0] for row in conn.execute("SELECT id FROM message ORDER BY id")]
    assert [message.id for message in first + second] == ids[3:7]
    other.rollback()
    assert [message.id for message in drain(conn)] == ids[:3] + ids[7:]


def test_time_is_the_clocks_and_not_the_transactions(conn: psycopg.Connection) -> None:
    fill(conn, a=1)
    with conn.transaction():
        conn.execute("SELECT pg_sleep(0.05)")
        [message], _ = dequeue(conn, 1, 10)
        began = conn.execute("SELECT to_epoch(now())").fetchone()
    assert began is not None
    assert message.lease_end_at >= began[0] + 60


def test_dequeue_and_complete_in_the_callers_own_transaction(connect: Connect) -> None:
    conn, other = connect(), connect()
    conn.execute("CREATE TABLE accounts (id BIGINT)")
    fill(conn, a=2)
    with conn.transaction():
        [message], _ = dequeue(conn)
        conn.execute("INSERT INTO accounts VALUES (%s)", (message.id,))
        conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token))
        assert other.execute("SELECT COUNT(*) FROM message").fetchone() == (2,)
    assert other.execute("SELECT COUNT(*) FROM message").fetchone() == (1,)
    with conn.transaction(force_rollback=True):
        dequeue(conn)
    assert len(drain(other)) == 1


def test_exact_limits_make_an_asynchronous_dequeue_synchronous(conn: psycopg.Connection) -> None:
    fill(conn, free=2)
    conn.execute("SELECT channel_set('limited', 1)")
    conn.execute("SELECT channel_set('slow', NULL, 1000)")
    for channel, expected in (("free", "off"), ("limited", "on"), ("slow", "on")):
        drain(conn)
        fill(conn, **{channel: 1})
        with conn.transaction():
            conn.execute("SET LOCAL synchronous_commit TO off")
            assert len(dequeue(conn)[0]) == 1
            assert conn.execute("SHOW synchronous_commit").fetchone() == (expected,), channel
        assert conn.execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_one_message_is_not_released_before_its_time(conn: psycopg.Connection) -> None:
    """Invariant 9. The channel's turn came for a message that is gone; the next one is not due."""
    clock = FakeClock(conn)
    conn.execute("SELECT message_create('a', 'now'), message_create('a', 'later', %s)", (clock.at + 500,))
    fold(conn)
    conn.execute("SELECT message_cancel(MIN(id)) FROM message")
    fold(conn)
    assert dequeue(conn) == ([], clock.at + 500)
    clock.advance(500)
    assert [message.content for message in dequeue(conn)[0]] == [b"later"]


PLAIN = "message_dequeue(1, 30000, 'me')"
GENERAL = """
    (SELECT floor_at, floor_turn FROM tick) t CROSS JOIN LATERAL message_dequeue_many(
    1, 30000, 'me', NULL, FALSE, (SELECT history FROM queue), t.floor_at, t.floor_turn, NULL, NULL) d"""
STATE = {
    "message": "to_jsonb(t) - 'token'",
    "ring": "to_jsonb(t) - 'turn'",
    "wake": "to_jsonb(t) - 'id' - 'xid'",
}


@pytest.mark.parametrize(
    "prepare",
    [
        "SELECT message_create('a', 'x')",
        "SELECT message_create_many('{a,a,b}', ARRAY['x', 'y', 'z']::BYTEA[])",
        "SELECT message_create('a', 'x'), message_create('a', 'later', 9007199254740000)",
        "SELECT channel_set('a', 3), message_create_many('{a,a}', ARRAY['x', 'y']::BYTEA[])",
        "SELECT channel_set('a', 1), message_create_many('{a,a}', ARRAY['x', 'y']::BYTEA[])",
        "SELECT channel_set('a', 0, 70), message_create('a', 'x'), message_create('a', 'y')",
        "SELECT channel_set('a', 3, 70), message_create('a', 'x', -5, '{\"h\": 1}', 7)",
        "SELECT queue_set(p_history => TRUE), message_create('a', 'x')",
    ],
)
@pytest.mark.parametrize("served", [0, 1], ids=["at first", "after a failed attempt"])
def test_the_plain_way_and_the_general_one_leave_the_same(
    conn: psycopg.Connection, prepare: str, served: int
) -> None:
    """One message is dequeued in a way of its own."""
    clock = FakeClock(conn)
    conn.execute(prepare)
    fold(conn)
    for _ in range(served):
        for message in dequeue(conn)[0]:
            conn.execute("SELECT message_defer(%s, %s, NULL, 's', 'e')", (message.id, message.token))
        clock.advance(200)
        fold(conn)
    left: list[dict[str, object]] = []
    for call in (PLAIN, GENERAL):
        with conn.transaction(force_rollback=True):
            columns = "id, channel, content, headers, state, attempts, lease_end_at"
            found: dict[str, object] = {"": conn.execute(f"SELECT {columns} FROM {call}").fetchall()}
            for table, row in STATE.items():
                found[table] = conn.execute(f"SELECT {row} FROM {table} t ORDER BY 1").fetchall()
            left.append(found)
    assert left[0] == left[1]
    assert left[0][""], "it was dequeued"


def test_a_call_visits_a_channel_once(connect: Connect) -> None:
    """A batch goes through the line in several visits, and leases what it took at its end.

    The first channel's first message is held by somebody, so it may be due again at once.
    """
    conn, other = connect(), connect(autocommit=False)
    fill(conn, a=2)
    fill(conn, **{f"c{number}": 1 for number in range(60)})
    other.execute("SELECT message_cancel(MIN(id)) FROM message WHERE channel = 'a'")
    messages, _ = dequeue(conn, 100)
    assert len({message.id for message in messages}) == len(messages) == 61
    assert conn.execute("SELECT SUM(served) FROM ring").fetchone() == (61,)
    other.rollback()
    check(conn)


@pytest.mark.parametrize("limit", [1, 3])
def test_a_clock_set_back_asks_for_a_fold(conn: psycopg.Connection, limit: int) -> None:
    clock = FakeClock(conn)
    fill(conn, a=9)
    clock.advance(7_200_000)
    fill(conn, b=1)
    assert [row[-1] for row in conn.execute("SELECT * FROM message_dequeue(%s)", (limit,))] == [None] * limit
    clock.advance(-3_600_000)
    assert {row[-1] for row in conn.execute("SELECT * FROM message_dequeue(%s)", (limit,))} == {clock.at}
    fold(conn)
    assert None in [row[-1] for row in conn.execute("SELECT * FROM message_dequeue(%s)", (limit,))]


def test_many_are_served_where_the_sequence_lies_behind_the_ring(conn: psycopg.Connection) -> None:
    """As on a logical replica that was promoted: sequences do not travel with the rows."""
    fill(conn, a=3, b=3)
    conn.execute("SELECT setval('turn', 1)")
    assert len(dequeue(conn, 4)[0]) == 4
