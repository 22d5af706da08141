"""Fair turns after a rollback or a cancel: no channel gains by it, or loses more than it was offered."""

from collections.abc import Sequence

import psycopg
import pytest

from tests.database import Connect
from tests.invariants import Delivery, check, dequeue, dispatch


def make(conn: psycopg.Connection, channel: str, count: int = 1, cost: int = 1) -> list[int]:
    rows = conn.execute(
        "SELECT id FROM message_create_many(%s, %s, p_costs => %s)",
        ([channel] * count, [b""] * count, [cost] * count),
    ).fetchall()
    return [message for (message,) in rows]


def complete(conn: psycopg.Connection, messages: Sequence[Delivery]) -> None:
    for message in messages:
        conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token))


def served(conn: psycopg.Connection, count: int, *, dispatches: bool = True) -> str:
    """The channels of this many messages, one dequeue each."""
    order = ""
    for _ in range(count):
        if dispatches:
            dispatch(conn)
        messages = dequeue(conn)[0]
        order += "".join(message.channel for message in messages)
        complete(conn, messages)
    return order


@pytest.fixture
def other(connect: Connect) -> psycopg.Connection:
    return connect()


@pytest.mark.parametrize("what", ["urgent", "priority", "policy", "cancel"])
def test_a_dispatch_or_cancel_that_is_rolled_back(
    conn: psycopg.Connection, other: psycopg.Connection, what: str
) -> None:
    """They lock everything that a channel has in ready, far ahead of what is served: it loses at most one
    turn."""
    ids = make(conn, "a", 60)
    make(conn, "b", 150)
    dispatch(conn)
    match what:
        case "urgent":
            conn.execute("SELECT message_create('a', '', -1)")
        case "priority":
            conn.execute("SELECT message_create('a', '', p_priority => 5)")
        case "policy":
            conn.execute("SELECT channel_set('a', p_max_size => 10000)")
    other.execute("BEGIN")
    if what == "cancel":
        other.execute("SELECT COUNT(message_cancel(id)) FROM unnest(%s::BIGINT[]) u (id)", (ids,))
    else:
        other.execute("SELECT dispatch()")
    other.execute("ROLLBACK")
    order = served(conn, 40)
    assert 19 <= order.count("a") <= 21, order
    assert "bbb" not in order, order
    check(conn)


@pytest.mark.parametrize("limit", [1, 5, 40])
def test_a_limited_channel_whose_dequeue_is_rolled_back(
    conn: psycopg.Connection, other: psycopg.Connection, limit: int
) -> None:
    """Its backlog was closed, and joins again where the other channels are."""
    conn.execute("SELECT channel_set('a', p_max_concurrency => %s)", (limit,))
    make(conn, "a", 100)
    make(conn, "b", 300)
    dispatch(conn)
    other.execute("BEGIN")
    dequeue(other, 2 * limit)
    dispatch(conn)
    assert served(conn, 100, dispatches=False) == "b" * 100
    other.execute("ROLLBACK")
    order = served(conn, 20)
    assert order in ("ab" * 10, "ba" * 10)
    check(conn)


@pytest.mark.parametrize("change", ["p_weight => 1", "p_max_concurrency => 1000"])
def test_a_policy_that_changes_after_a_rollback(
    conn: psycopg.Connection, other: psycopg.Connection, change: str
) -> None:
    conn.execute("SELECT channel_set('a', p_weight => 1)")
    make(conn, "a", 50)
    make(conn, "b", 200)
    dispatch(conn)
    other.execute("BEGIN")
    assert len(dequeue(other, 100)[0]) == 100
    assert served(conn, 60, dispatches=False) == "b" * 60
    other.execute("ROLLBACK")
    conn.execute(f"SELECT channel_set('a', {change})".encode())
    order = served(conn, 20)
    assert order in ("ab" * 10, "ba" * 10)
    check(conn)


@pytest.mark.parametrize("how", ["message_cancel(%s)", "message_reschedule(%s, 9000000000000)"])
@pytest.mark.parametrize("backlog", [200, 2000])
def test_served_cost_counts_although_the_next_message_is_cancelled(
    conn: psycopg.Connection, how: str, backlog: int
) -> None:
    """A message of cost 100 is served. The next one of its channel, which would have to wait, is
    cancelled."""
    make(conn, "b", backlog)
    dispatch(conn)
    make(conn, "a", cost=100)
    assert "a" in served(conn, 8)
    (message,) = make(conn, "a")
    dispatch(conn)
    conn.execute(f"SELECT {how}".encode(), (message,))
    dispatch(conn)
    make(conn, "a")
    assert served(conn, 60) == "b" * 60
    check(conn)


def test_an_interval_after_a_restore(conn: psycopg.Connection) -> None:
    """A dequeue counts whether it came before or after the dump, also if no dispatch has seen it."""
    conn.execute("SELECT channel_set('a', p_release_interval_us => 60000000)")
    make(conn, "a", 3)
    dispatch(conn)
    conn.execute("UPDATE tick SET system_id = 1, started_at = 'epoch'")
    (message,) = dequeue(conn)[0]
    dispatch(conn)
    assert (
        conn.execute(
            "SELECT s.released_at, l.dequeued_at FROM slots s CROSS JOIN lease l"
            " WHERE s.channel = 'a' AND l.token = %s",
            (message.token,),
        ).fetchone()
        == (message.lease_end_at - 30_000,) * 2
    )
    check(conn)


@pytest.mark.parametrize("where", ["notice", "alarm"])
def test_a_message_that_was_set_aside_is_placed_once_by_a_rescan(
    conn: psycopg.Connection, where: str
) -> None:
    """A dequeue finds a message locked, takes it from ready, and announces it again. A restored dump may have
    it like that, and so may a queue whose rescan is not finished."""
    first, message = make(conn, "a", 2)
    dispatch(conn)
    conn.execute("UPDATE tick SET system_id = 1, started_at = 'epoch'")
    conn.execute("DELETE FROM ready WHERE id = %s", (message,))
    if where == "alarm":
        conn.execute("INSERT INTO alarm (at, back) VALUES (clock_ms() + 300, (%s, 0)::stub)", (message,))
    conn.execute("SELECT dispatch_recover()")
    if where == "notice":
        conn.execute("INSERT INTO notice (back) VALUES (ARRAY[(%s, 0)::stub])", (message,))
    found: list[tuple[int]] = []
    while message not in [id_ for (id_,) in found]:
        dispatch(conn)
        found = conn.execute("SELECT id FROM ready ORDER BY id").fetchall()
    assert found == [(first,), (message,)]
    assert conn.execute("SELECT COUNT(*) FROM alarm WHERE (back).id IS NOT NULL").fetchone() == (0,)
    check(conn)


# Another session takes the first entry that nobody has touched whenever the dispatcher has put some back.
TAKEN_MEANWHILE = """
    ALTER FUNCTION ready_reclaim RENAME TO ready_reclaim_itself;
    CREATE TABLE taken (id BIGINT);
    CREATE FUNCTION ready_reclaim (l lane_state, p_touched ready[]) RETURNS ready[] LANGUAGE plpgsql AS $$
    DECLARE v_locked ready[] := lonnymq.ready_reclaim_itself(l, p_touched);
    BEGIN
        WITH gone AS (
            DELETE FROM ready WHERE ctid = (SELECT ctid FROM ready WHERE xmax = '0' ORDER BY tag, id LIMIT 1)
            RETURNING id)
        INSERT INTO taken SELECT id FROM gone;
        RETURN v_locked;
    END $$"""


@pytest.mark.parametrize("second", [100, 101])
def test_entries_of_an_open_dequeue_are_not_passed_while_others_are_put_back(
    conn: psycopg.Connection, other: psycopg.Connection, connect: Connect, second: int
) -> None:
    """The dispatcher looks at the first hundred entries, puts back what a rollback returned, and looks again,
    also if both are of one channel."""
    waiting = {id_ for channel in "abc" for id_ in make(conn, channel, 600)}
    dispatch(conn)
    leased: list[Delivery] = []
    for _ in range(3):  # consumers want many, so that many are ready
        leased += dequeue(conn, 100)[0]
        dispatch(conn)
    order = [id_ for (id_,) in conn.execute("SELECT id FROM ready ORDER BY tag, id")]
    lock = "SELECT FROM ready WHERE id = ANY (%s) FOR UPDATE"
    returned, free = [order[10], order[second]], [order[11], order[second + 1]]
    open_dequeue = connect()
    open_dequeue.execute("BEGIN")
    open_dequeue.execute(lock, ([id_ for id_ in order[:250] if id_ not in returned + free],))
    other.execute("BEGIN")
    other.execute(lock, (returned,))
    other.execute("ROLLBACK")
    conn.execute(TAKEN_MEANWHILE)
    conn.execute("SELECT dispatch()")
    taken = {id_ for (id_,) in conn.execute("SELECT id FROM taken")}
    conn.execute("DROP FUNCTION ready_reclaim; ALTER FUNCTION ready_reclaim_itself RENAME TO ready_reclaim")
    open_dequeue.execute("ROLLBACK")
    complete(conn, leased)
    waiting -= taken | {message.id for message in leased}
    for _ in range(30):
        dispatch(conn)
        messages = dequeue(conn, 100)[0]
        complete(conn, messages)
        waiting -= {message.id for message in messages}
    assert not waiting
