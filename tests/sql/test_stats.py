"""channel_stats, channel_list, queue_stats and the views: what they show, and what a call costs."""

from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import check, dequeue, dispatch, drain
from tests.plans.buffers import Meter
from tests.sql.test_channel import finish
from tests.sql.test_dequeue import fill


def shown(conn: psycopg.Connection, call: str) -> list[dict[str, Any]]:
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute("SELECT * FROM " + call).fetchall()


def stats(conn: psycopg.Connection, channel: str = "a") -> dict[str, Any]:
    dispatch(conn)
    [row] = shown(conn, f"channel_stats('{channel}')")
    return row


def names(conn: psycopg.Connection, call: str) -> list[str]:
    return [row["channel"] for row in shown(conn, call)]


def test_a_channel_from_its_first_message_to_its_last(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    nothing = {"waiting": 0, "due": 0, "scheduled": 0, "leased": 0, "dead": 0, "served": 0}
    assert stats(conn).items() >= (nothing | {"blocked_by": "empty", "oldest_due_ms": None}).items()
    fill(conn, a=3)
    conn.execute("SELECT message_create('a', '', %s)", (clock.at + 5000,))
    clock.advance(700)
    waiting = {"waiting": 4, "due": 3, "scheduled": 1, "oldest_due_ms": 700, "blocked_by": None}
    assert stats(conn).items() >= waiting.items()
    served_at = clock.at
    messages, _ = dequeue(conn, 2)
    clock.advance(100)
    running = {"waiting": 2, "due": 1, "leased": 2, "served": 2, "last_served_at": served_at}
    assert stats(conn).items() >= running.items()
    conn.execute("SELECT queue_set(p_max_attempts => 1)")
    conn.execute("SELECT message_retry(%s, %s, p_error => 'e')", (messages[0].id, messages[0].token))
    finish(conn, messages[1])
    drain(conn)
    assert (
        stats(conn).items()
        >= {
            "waiting": 1,
            "due": 0,
            "scheduled": 1,
            "leased": 0,
            "dead": 1,
            "served": 3,
            "oldest_due_ms": None,
            "blocked_by": "scheduled",
        }.items()
    )


def test_the_age_of_the_oldest_counts_from_when_it_was_due(conn: psycopg.Connection) -> None:
    """Not from a time before it was created: urgent messages have such times."""
    clock = FakeClock(conn)
    conn.execute("SELECT message_create('a', '', %s)", (clock.at + 200,))
    clock.advance(300)
    assert stats(conn)["oldest_due_ms"] == 100
    conn.execute("SELECT message_create('a', 'urgent', -7)")
    clock.advance(50)
    assert stats(conn)["oldest_due_ms"] == 150, "new urgent messages do not hide it"


def test_priority_does_not_hide_the_oldest(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT message_create('a', 'low', p_priority => -3)")
    clock.advance(100)
    conn.execute("SELECT message_create('a', 'high', p_priority => 3)")
    clock.advance(50)
    assert stats(conn)["oldest_due_ms"] == 150


def test_lanes_are_listed_with_what_waits_in_them(conn: psycopg.Connection) -> None:
    assert shown(conn, "lane_list()") == [{"lane": "default", "waiting": 0, "ready": 0}]
    conn.execute(
        "SELECT COUNT(*) FROM message_create_many(array_fill('a'::TEXT, '{500}'),"
        " array_fill('x'::BYTEA, '{500}'), p_lanes => array_fill('slow'::TEXT, '{500}'))"
    )
    fill(conn, a=3)
    conn.execute("SELECT message_create('a', '', 4000000000000)")
    dispatch(conn)
    default, slow = shown(conn, "lane_list()")
    assert default == {"lane": "default", "waiting": 3, "ready": 3}
    assert (slow["lane"], slow["waiting"]) == ("slow", 500)
    assert 0 < slow["ready"] < 500
    assert stats(conn).items() >= {"waiting": 504, "due": 503, "scheduled": 1}.items()


def test_what_is_cancelled_or_rescheduled_counts_at_once(conn: psycopg.Connection) -> None:
    """Most of them are in the backlog, where only the dispatcher may write."""
    fill(conn, a=600)
    dispatch(conn)
    (rows,) = conn.execute("SELECT array_agg(id ORDER BY id) FROM message").fetchall()
    conn.execute("SELECT message_cancel_many(%s)", (rows[0][:1] + rows[0][-9:],))
    conn.execute("SELECT message_reschedule(%s, 4000000000000)", (rows[0][-10],))
    expected = {"waiting": 590, "due": 589, "scheduled": 1}
    assert stats(conn).items() >= expected.items()
    (lane,) = shown(conn, "lane_list()")
    assert lane["waiting"] == 589
    dispatch(conn)
    assert stats(conn).items() >= expected.items()
    assert shown(conn, "lane_list()")[0]["waiting"] == 589


def test_why_a_channel_is_not_served(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    fill(conn, a=5)
    conn.execute("SELECT channel_set('a', 2)")
    dispatch(conn)
    running, _ = dequeue(conn, 5)
    assert stats(conn)["blocked_by"] == "concurrency"
    conn.execute("SELECT channel_set('a', 0, 1000000)")
    assert stats(conn)["blocked_by"] == "rate"
    clock.advance(1000)
    assert stats(conn)["blocked_by"] is None
    conn.execute("SELECT queue_set(p_max_concurrency => 2)")
    assert stats(conn)["blocked_by"] == "queue limit"
    finish(conn, running[0])
    assert stats(conn)["blocked_by"] is None
    conn.execute("SELECT queue_set(p_paused => TRUE)")
    assert stats(conn)["blocked_by"] == "paused"
    conn.execute("SELECT queue_set(p_paused => FALSE), channel_set('a', p_paused => TRUE)")
    assert stats(conn)["blocked_by"] == "paused"


def test_counts_stop_at_the_cap(conn: psycopg.Connection) -> None:
    """Except for due messages, whose number is known."""
    fill(conn, a=30)
    conn.execute("SELECT message_create('a', '', 4000000000000) FROM generate_series(1, 30)")
    dispatch(conn)
    [row] = shown(conn, "channel_stats('a', 10)")
    assert (row["due"], row["scheduled"], row["waiting"]) == (30, 10, 40)
    assert len(dequeue(conn, 20)[0]) == 20
    dispatch(conn)
    [row] = shown(conn, "channel_stats('a', 10)")
    assert (row["due"], row["leased"]) == (10, 20)


def test_what_was_served_is_not_forgotten_when_it_is_summed_up(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    fill(conn, a=3)
    drain(conn)
    served_at = clock.at
    for round_ in (1, 2):
        clock.advance(3_600_001)
        conn.execute("SELECT maintain()")
        assert stats(conn).items() >= {"served": 3 * round_, "last_served_at": served_at}.items()
        if round_ == 1:
            fill(conn, a=3)
            drain(conn)
            served_at = clock.at
    assert conn.execute("SELECT channel FROM tally").fetchall() == [("a",)]


def test_queue_stats_sums_up_all_channels(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    fill(conn, a=3, b=2)
    conn.execute("SELECT message_create('c', '', %s)", (clock.at + 5000,))
    clock.advance(250)
    messages, _ = dequeue(conn, 2)
    conn.execute("SELECT message_cancel(MIN(id)) FROM messages WHERE status = 'due' AND channel = 'b'")
    conn.execute("SELECT message_retry(%s, %s)", (messages[0].id, messages[0].token))
    dispatch(conn)
    [row] = shown(conn, "queue_stats()")
    assert row == {
        "waiting": 4,
        "due": 3,
        "scheduled": 1,
        "leased": 1,
        "dead": 0,
        "oldest_due_ms": 250,
        "served": 2,
        "last_served_at": clock.at,
        "running": None,
        "max_concurrency": None,
        "paused": False,
        "blocked_by": None,
        "workers": 0,
        "unknown_tasks": [],
    }
    conn.execute("SELECT queue_set(p_max_concurrency => 1)")
    [row] = shown(conn, "queue_stats()")
    assert (row["running"], row["blocked_by"]) == (1, "queue limit")


@pytest.mark.parametrize("event", ["rebuild", "no tick"])
def test_the_sum_survives(conn: psycopg.Connection, event: str) -> None:
    fill(conn, a=3, b=2)
    dequeue(conn, 2)
    dispatch(conn)
    if event == "rebuild":
        conn.execute("SELECT rebuild()")
    else:
        conn.execute("DELETE FROM tick")
    dispatch(conn)
    [row] = shown(conn, "queue_stats()")
    assert (row["waiting"], row["leased"]) == (3, 2)
    assert row["served"] == (2 if event == "rebuild" else 0)


def test_channels_are_listed_by_name_page_by_page(conn: psycopg.Connection) -> None:
    conn.execute("SELECT channel_set('policy only', 1)")
    conn.execute("SELECT message_create('b dead', '', p_max_attempts => 1)")
    dispatch(conn)
    [message], _ = dequeue(conn)
    conn.execute("SELECT message_retry(%s, %s, p_error => 'e')", (message.id, message.token))
    fill(conn, a=1, z=1)
    conn.execute("SELECT message_create('not folded', '')")
    everything = ["a", "b dead", "not folded", "policy only", "z"]
    assert names(conn, "channel_list()") == everything
    assert names(conn, "channel_list(p_limit => 2)") == everything[:2]
    assert names(conn, "channel_list('name', 'b dead', 2)") == everything[2:4]
    assert names(conn, "channel_list('name', 'z')") == []
    fill(conn, **{"z\ue000": 1, "z\x01": 1, "y": 1, "zz": 1})
    conn.execute("SELECT message_create('z not folded', '')")
    with_z = ["z", "z\x01", "z not folded", "zz", "z\ue000"]
    assert names(conn, "channel_list(p_prefix => 'z')") == with_z
    assert names(conn, "channel_list(p_prefix => 'z', p_limit => 2)") == with_z[:2]
    assert names(conn, "channel_list('name', 'z not folded', 1, 'z')") == with_z[3:4]
    assert names(conn, "channel_list('name', 'a', 1, 'z')") == ["z"]
    assert names(conn, "channel_list(p_prefix => 'zzz')") == []
    everything[-1:] = ["y", *with_z]
    assert names(conn, "channel_list(p_prefix => '')") == everything
    assert sorted(names(conn, "channels")) == sorted(set(everything) - {"z not folded"})


def test_channels_are_listed_by_their_turn_and_by_what_waits(conn: psycopg.Connection) -> None:
    FakeClock(conn)
    fill(conn, few=2, many=9, some=5)
    dequeue(conn, 1)
    assert names(conn, "channel_list('next')") == ["many", "some", "few"]
    assert names(conn, "channel_list('waiting', NULL, 2)") == ["many", "some"]


def test_a_noisy_channel_comes_first_in_a_sample_too(conn: psycopg.Connection) -> None:
    fill(conn, noisy=20_000, **{f"quiet{n}": 20 for n in range(100)})
    size = conn.execute("SELECT pg_relation_size('message') / 8192 > 64").fetchone()
    assert size == (True,), "it is a sample"
    assert names(conn, "channel_list('waiting', NULL, 1)") == ["noisy"]


def test_the_views_show_what_there_is(conn: psycopg.Connection) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE, p_max_attempts => 1)")
    fill(conn, a=4)
    messages, _ = dequeue(conn, 3, consumer="worker 7")
    finish(conn, messages[0])
    conn.execute("SELECT message_retry(%s, %s, p_error => 'e')", (messages[1].id, messages[1].token))
    assert [(row["id"], row["status"]) for row in shown(conn, "messages ORDER BY id")] == [
        (messages[2].id, "leased"),
        (messages[2].id + 1, "due"),
    ]
    [lease] = shown(conn, "leases")
    assert (lease["id"], lease["consumer"], lease["attempts"]) == (messages[2].id, "worker 7", 1)
    [dead] = shown(conn, "dead_letters")
    assert (dead["id"], dead["error"]) == (messages[1].id, "e")
    assert [(row["id"], row["outcome"]) for row in shown(conn, "history ORDER BY id")] == [
        (messages[0].id, "completed"),
        (messages[1].id, "dead"),
    ]
    assert [row["channel"] for row in shown(conn, "channels")] == ["a"]


@pytest.fixture(scope="module")
def costs() -> dict[tuple[str, int], int]:
    return {}


def cost(conn: psycopg.Connection, call: str) -> int:
    """The buffers of a call whose plans are cached; autovacuum may invalidate them at any time."""
    meter = Meter(conn)
    for _ in range(3):
        meter.count("call", call)
    return min(meter.counted["call"])


CALLS = (
    "channel_list('name', 'c1', 50)",
    "channel_list('next', NULL, 50)",
    "channel_stats('c7')",
    "message_list('c7', 'due', NULL, 50)",
    "message_list(NULL, 'waiting', NULL, 50)",
)


@pytest.mark.parametrize("channels", [200, 20_000])
def test_statistics_cost_no_more_with_more_channels(
    conn: psycopg.Connection, costs: dict[tuple[str, int], int], channels: int
) -> None:
    conn.execute(
        """
        SELECT COUNT(*) FROM message_create_many(
            (SELECT array_agg('c' || n) FROM generate_series(1, %s) n), array_fill('x'::BYTEA, ARRAY[%s]))""",
        (channels, channels),
    )
    dispatch(conn)
    for call in CALLS:
        costs[call, channels] = cost(conn, call)
    if channels > 200:
        grown = {call: (costs[call, 200], costs[call, channels]) for call in CALLS if (call, 200) in costs}
        assert all(many <= 2 * few + 50 for few, many in grown.values()), grown
        assert costs["channel_list('name', 'c1', 50)", channels] <= 50 * 45, "a few pages each"


def test_statistics_cost_no_more_with_a_longer_backlog(conn: psycopg.Connection) -> None:
    calls = (*CALLS, "channel_list('waiting', NULL, 50)", "queue_stats()")
    fill(conn, c1=20, c7=12_000)
    few = {call: cost(conn, call) for call in calls}
    fill(conn, c7=60_000)
    for call in calls:
        many = cost(conn, call)
        assert many <= 1.5 * few[call] + 100, f"{call}: {few[call]} buffers with 12,000, {many} with 72,000"


def test_a_transaction_that_dispatches_its_own_notices_in_pieces_counts_them_once(connect: Connect) -> None:
    conn, other = connect(), connect()
    dispatch(conn)
    other.execute("BEGIN")
    other.execute("SELECT message_create('c', 'x')")
    conn.execute("SELECT pg_current_xact_id()")  # a snapshot that sees this one is newer than the other
    other.execute("SELECT dispatch(1)")
    conn.execute("SELECT message_create('c', 'y')")
    other.execute("SELECT dispatch()")
    other.execute("COMMIT")
    check(conn)
    assert conn.execute("SELECT waiting FROM queue_stats()").fetchone() == (2,)
