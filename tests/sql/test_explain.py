"""channel_explain: each reason, in a situation that has it."""

from typing import Any

import psycopg

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import dequeue, dispatch
from tests.sql.test_channel import finish
from tests.sql.test_dequeue import fill
from tests.sql.test_stats import shown
from tests.sql.test_tenants import PASSWORD, drop_login, make_login


def explain(conn: psycopg.Connection, channel: str = "a") -> dict[str, Any]:
    [row] = shown(conn, f"channel_explain('{channel}')")
    return {name: value for name, value in row.items() if value is not None}


def in_lane(conn: psycopg.Connection, lane: str, *channels: str) -> None:
    conn.execute(
        "SELECT COUNT(*) FROM message_create_many(%s, %s, p_lanes => %s)",
        (list(channels), [b""] * len(channels), [lane] * len(channels)),
    )
    dispatch(conn)


def test_nothing_is_due(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    assert explain(conn) == {"due": 0, "leased": 0, "reason": "empty"}
    for seconds in (9, 5):
        conn.execute("SELECT message_create('a', '', %s)", (clock.at + 1000 * seconds,))
    scheduled = {"due": 0, "leased": 0, "reason": "scheduled", "until_at": clock.at + 5000}
    assert explain(conn) == scheduled, "not dispatched yet"
    dispatch(conn)
    assert explain(conn) == scheduled
    clock.advance(5000)
    due = {"lane": "default", "due": 1, "leased": 0, "reason": "not dispatched", "since_at": clock.at}
    assert explain(conn) == due, "its time has come, and nobody has dispatched since"
    dispatch(conn)
    assert explain(conn) == due | {"reason": "next", "ahead": 0}
    dequeue(conn, 1)
    assert explain(conn) == scheduled | {"leased": 1, "until_at": clock.at + 4000}


def test_a_pause_of_the_channel_and_of_the_queue(conn: psycopg.Connection) -> None:
    FakeClock(conn)
    fill(conn, a=3)
    conn.execute("SELECT queue_set(p_paused => TRUE)")
    assert explain(conn)["reason"] == "queue paused", "from the commit on"
    conn.execute("SELECT channel_set('a', p_paused => TRUE)")
    assert explain(conn)["reason"] == "paused", "even if the queue goes on"
    dispatch(conn)
    assert explain(conn).items() >= {"reason": "paused", "due": 3}.items()
    conn.execute("SELECT channel_set('a', p_paused => FALSE), queue_set(p_paused => FALSE)")
    assert explain(conn)["reason"] == "not dispatched", "the dispatcher has not read the new policy"
    dispatch(conn)
    assert explain(conn)["reason"] == "next"


def test_a_concurrency_limit(conn: psycopg.Connection) -> None:
    FakeClock(conn)
    conn.execute("SELECT channel_set('a', p_max_concurrency => 2)")
    fill(conn, a=5)
    assert explain(conn)["reason"] == "next", "entries that wait to be taken are not running"
    messages, _ = dequeue(conn, 9)
    full = {"due": 3, "leased": 2, "reason": "concurrency", "used": 2, "allowed": 2}
    assert explain(conn).items() >= full.items()
    finish(conn, messages[0])
    assert explain(conn)["reason"] == "turn" or explain(conn)["ahead"] == 0, "before the next dispatch"
    dispatch(conn)
    assert explain(conn)["reason"] == "next"
    in_lane(conn, "slow", "a", "a")
    default, slow = shown(conn, "channel_explain('a')")
    assert (default["lane"], default["due"], default["reason"]) == ("default", 3, "next")
    assert (slow["lane"], slow["due"], slow["reason"]) == ("slow", 2, "concurrency")
    assert (slow["leased"], slow["used"]) == (1, 2), "the other slot is taken by the message that is next"


def test_a_rate(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT channel_set('a', p_release_interval_us => 2000500, p_burst => 2)")
    fill(conn, a=5)
    assert explain(conn)["reason"] == "next"
    dequeue(conn, 9)
    dispatch(conn)
    waiting = {"due": 3, "leased": 2, "reason": "rate", "until_at": clock.at + 2001}
    assert explain(conn).items() >= waiting.items()
    clock.advance(2000)
    assert explain(conn).items() >= waiting.items()
    clock.advance(1)
    dispatch(conn)
    assert explain(conn)["reason"] == "next"
    in_lane(conn, "slow", "a")
    assert shown(conn, "channel_explain('a')")[1]["reason"] == "rate", "the other lane has the token"
    conn.execute("SELECT channel_set('unused', p_release_interval_us => 1000000)")
    fill(conn, unused=1)
    in_lane(conn, "slow", "unused")
    clock.advance(3000)
    slow = shown(conn, "channel_explain('unused')")[1]
    assert (slow["reason"], slow["until_at"]) == ("rate", clock.at + 1000), "if that were taken now"


def test_the_limit_of_the_queue(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT queue_set(p_max_concurrency => 2)")
    fill(conn, b=4)
    fill(conn, a=2)
    assert explain(conn)["reason"] == "turn", "the slots are taken by messages that are next"
    messages, _ = dequeue(conn, 9)
    full = {"due": 2, "leased": 0, "reason": "queue limit", "used": 2, "allowed": 2}
    assert explain(conn).items() >= full.items()
    clock.advance(10)
    finish(conn, *messages)
    dispatch(conn)
    assert explain(conn)["reason"] in {"turn", "next"}


def test_nobody_dispatches(conn: psycopg.Connection) -> None:
    """Then messages in the ready list wait, too: consumers dispatch."""
    clock = FakeClock(conn)
    conn.execute("SELECT message_create('later', '', %s)", (clock.at + 100,))
    fill(conn, a=2)
    clock.advance(5001)
    assert explain(conn)["reason"] == "not dispatched", "another channel's message is overdue"
    dispatch(conn)
    conn.execute("SELECT message_create('b', '', p_lane => 'new')")
    new = {"lane": "new", "due": 1, "leased": 0, "reason": "not dispatched", "since_at": clock.at}
    assert explain(conn, "b") == new
    clock.advance(5000)
    assert explain(conn)["reason"] == "no consumer", "a dispatch five seconds ago is not long ago"
    clock.advance(1)
    assert explain(conn)["reason"] == "not dispatched"


def test_no_consumer_asks_for_the_lane(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    in_lane(conn, "fast", "a", "a")
    in_lane(conn, "slow", "a")
    clock.advance(4999)
    reasons = "SELECT lane, reason FROM channel_explain('a')"
    assert conn.execute(reasons).fetchall() == [("fast", "next"), ("slow", "next")], "not long due"
    clock.advance(1)
    assert conn.execute(reasons).fetchall() == [("fast", "no consumer"), ("slow", "no consumer")]
    conn.execute("SELECT message_dequeue(1, p_lanes => '{fast}')")
    dispatch(conn)
    assert conn.execute(reasons).fetchall() == [("fast", "next"), ("slow", "no consumer")]


def test_how_much_is_ahead(conn: psycopg.Connection) -> None:
    """Both in the ready list, which has room for 250, and in the backlogs."""
    FakeClock(conn)
    conn.execute("SELECT channel_set('heavy', p_weight => 4)")
    fill(conn, b=300, c=300, heavy=300)
    ahead = {name: explain(conn, name)["ahead"] for name in ("b", "c", "heavy")}
    assert min(ahead.values()) == 0
    assert max(ahead.values()) <= 6, "at the front: up to one of the others, and four of the heavy one"
    for cost in (100, 1):
        conn.execute("SELECT message_create('a', '', p_cost => %s)", (cost,))
    dispatch(conn)

    def served_until_a() -> int:
        served = 0
        while (message := dequeue(conn, 1)[0][0]).channel != "a":
            served += 1
            dispatch(conn)
        dispatch(conn)
        assert message.channel == "a"
        return served

    assert served_until_a() < 10
    found = explain(conn)
    assert (found["reason"], found["due"]) == ("turn", 1)
    served = served_until_a()
    assert served > 400, "100 of each other channel, and all of the heavy one"
    assert abs(found["ahead"] - served) <= 5


def test_a_message_that_an_open_dequeue_has_taken(connect: Connect) -> None:
    conn, other = connect(), connect()
    clock = FakeClock(conn)
    fill(conn, a=1)
    with other.transaction(force_rollback=True):
        dequeue(other, 1)
        clock.advance(5000)
        assert explain(conn).items() >= {"due": 1, "reason": "next"}.items(), "it has a consumer"
        fill(conn, b=1)
        clock.advance(1001)
        dispatch(conn)
        assert conn.execute("SELECT COUNT(*) FROM ready_locked").fetchone() == (1,)
        assert explain(conn).items() >= {"due": 1, "reason": "next"}.items()


def test_a_cancelled_message_is_not_due(conn: psycopg.Connection) -> None:
    FakeClock(conn)
    fill(conn, b=300, a=300)
    for (last,) in conn.execute("SELECT MAX(id) FROM line GROUP BY channel").fetchall():
        assert conn.execute("SELECT message_cancel(%s)", (last,)).fetchone() == ("cancelled",)
    assert (explain(conn)["due"], explain(conn, "b")["due"]) == (299, 299)


def test_very_many_messages(conn: psycopg.Connection, connect: Connect) -> None:
    """Not all of more than 10,000 undispatched messages or leases are read. A tenant is not told that."""
    FakeClock(conn)
    login = make_login(conn)
    conn.execute("SELECT credential_bind(%s, '{c}')", (login,))
    conn.execute("SELECT channel_set('a', p_max_concurrency => 1)")
    fill(conn, a=2)
    dequeue(conn, 1, 60_000)
    conn.execute(
        "SELECT COUNT(*) FROM message_create_many(array_fill('b'::TEXT, '{10000}'),"
        " array_fill(''::BYTEA, '{10000}'))"
    )
    conn.execute("SELECT message_create('c', '')")
    assert explain(conn, "c") == {"due": 0, "leased": 0, "reason": "not dispatched"}
    assert explain(connect(user=login, password=PASSWORD), "c")["reason"] == "empty"
    drop_login(conn, login)
    dispatch(conn)
    assert explain(conn, "c")["due"] == 1
    while dequeue(conn, 10_000)[0]:
        dispatch(conn)
    assert explain(conn).items() >= {"leased": 1, "reason": "concurrency"}.items()


def test_a_tenant_learns_nothing_about_others(conn: psycopg.Connection, connect: Connect) -> None:
    """Whether others have messages, run or are served; whether there are consumers."""
    clock = FakeClock(conn)
    login = make_login(conn)
    conn.execute("SELECT credential_bind(%s, '{a}')", (login,))
    tenant = connect(user=login, password=PASSWORD)
    fill(conn, a=2)
    turn = {"lane": "default", "due": 2, "leased": 0, "reason": "turn", "since_at": clock.at}
    assert (explain(conn)["reason"], explain(tenant)) == ("next", turn)
    clock.advance(5000)
    assert (explain(conn)["reason"], explain(tenant)) == ("no consumer", turn)
    conn.execute("SELECT message_create('b', '')")
    clock.advance(1)
    assert (explain(conn)["reason"], explain(tenant)) == ("not dispatched", turn)
    conn.execute("SELECT queue_set(p_max_concurrency => 1)")
    dispatch(conn)
    dequeue(conn, 1)
    assert (explain(conn)["reason"], explain(tenant)["reason"]) == ("queue limit", "turn")
    drop_login(conn, login)
