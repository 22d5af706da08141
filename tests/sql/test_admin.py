"""Calls of administrators: message_get, message_list, message_cancel, message_reschedule, channel_delete."""

from itertools import chain
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.clock import FakeClock
from tests.invariants import Delivery, check, dequeue, dispatch, drain


def create(conn: psycopg.Connection, channel: str = "a", at: int | None = None) -> int:
    row = conn.execute("SELECT id FROM message_create(%s, 'content', %s)", (channel, at)).fetchone()
    assert row is not None
    return int(row[0])


def lease(conn: psycopg.Connection, lease_ms: int = 30_000) -> Delivery:
    dispatch(conn)
    [message], _ = dequeue(conn, 1, lease_ms, "worker 7")
    return message


def value(conn: psycopg.Connection, query: str, *parameters: Any) -> Any:
    row = conn.execute("SELECT " + query, parameters).fetchone()
    assert row is not None
    return row[0]


def get(conn: psycopg.Connection, message_id: int) -> dict[str, Any]:
    with conn.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute("SELECT * FROM message_get(%s)", (message_id,)).fetchone()
    assert row is not None
    return row


def test_a_message_is_shown_with_its_status(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    message_id = create(conn, at=clock.at + 500)
    message = get(conn, message_id)
    assert (
        message.items()
        >= {
            "channel": "a",
            "status": "scheduled",
            "dequeue_at": clock.at + 500,
            "created_at": clock.at,
            "first_dequeued_at": None,
            "attempts": 0,
            "is_cancelled": False,
            "content": b"content",
        }.items()
    )
    first_at = clock.advance(500)
    assert get(conn, message_id)["status"] == "due"
    held = lease(conn)
    conn.execute("SELECT message_retry(%s, %s, p_error => 'e', p_state => 's')", (held.id, held.token))
    last_at = clock.advance(100)
    lease(conn)
    assert (
        get(conn, message_id).items()
        >= {
            "status": "leased",
            "first_dequeued_at": first_at,
            "dequeued_at": last_at,
            "lease_end_at": last_at + 30_000,
            "consumer": "worker 7",
            "attempts": 2,
            "error": "e",
            "state": b"s",
        }.items()
    )
    assert conn.execute("SELECT * FROM message_get(999)").fetchall() == []


def pages(conn: psycopg.Connection, channel: str | None, status: str, limit: int) -> list[list[int]]:
    found: list[list[int]] = []
    cursor = None
    while True:
        rows = conn.execute(
            "SELECT id, cursor FROM message_list(%s, %s, %s, %s)", (channel, status, cursor, limit)
        ).fetchall()
        if not rows:
            return found
        found.append([row[0] for row in rows])
        cursor = rows[-1][1]


def test_lists_go_page_by_page_in_the_order_of_service(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    later = create(conn, "b", clock.at + 1000)
    urgent = create(conn, "b", -5)
    plain = [create(conn, channel) for channel in ("b", "a", "b", "a", 'odd "name" \\')]
    of_b = [urgent, plain[0], plain[2]]
    assert pages(conn, "b", "due", 2) == [of_b[:2], of_b[2:]]
    assert pages(conn, "b", "scheduled", 2) == [[later]]
    assert pages(conn, "b", "waiting", 3) == [of_b, [later]]
    assert pages(conn, None, "waiting", 3) == [
        [plain[1], plain[3], urgent],
        [plain[0], plain[2], later],
        [plain[4]],
    ]
    assert pages(conn, None, "due", 100) == [[plain[1], plain[3], *of_b, plain[4]]]
    assert pages(conn, "c", "waiting", 1) == []
    dispatch(conn)
    held = [message.id for message in dequeue(conn, 4, 1000)[0]]
    assert sorted(chain.from_iterable(pages(conn, None, "leased", 3))) == sorted(held)
    only_b = conn.execute("SELECT id, channel FROM message_list('b', 'leased')").fetchall()
    assert only_b
    assert {channel for _, channel in only_b} == {"b"}


def test_lists_of_one_lane(conn: psycopg.Connection) -> None:
    """Of messages that are not dispatched yet, of dispatched ones, and of leased ones."""
    for lane in ("mail", "default", "mail"):
        for channel in "ab":
            conn.execute("SELECT message_create(%s, '', p_lane => %s)", (channel, lane))
    conn.execute("SELECT message_create('a', '', p_lane => 'mail', p_delay_ms => 60000)")
    conn.execute("SELECT message_create('a', '', p_delay_ms => 60000)")

    def listed(status: str, lane: str, channel: str | None = None) -> list[int]:
        query = "SELECT id FROM message_list(%s, %s, p_lane => %s)"
        return [row[0] for row in conn.execute(query, (channel, status, lane))]

    for _ in range(2):
        assert listed("waiting", "mail") == [1, 5, 7, 2, 6]
        assert listed("due", "mail") == [1, 5, 2, 6]
        assert listed("scheduled", "mail") == [7]
        assert listed("waiting", "mail", "b") == [2, 6]
        assert listed("waiting", "default") == [3, 8, 4]
        assert listed("waiting", "nothing") == []
        dispatch(conn)
    dequeue(conn, 10, 1000)
    assert sorted(listed("leased", "mail")) == [1, 2, 5, 6]
    assert listed("leased", "default", "a") == [3]


def test_what_a_consumer_has_leased(conn: psycopg.Connection) -> None:
    conn.execute("SELECT message_create(c, '') FROM unnest('{a,b,a,b,a}'::TEXT[]) c")
    dispatch(conn)
    mine = {message.id for message in dequeue(conn, 2, 1000, "me")[0]}
    mine |= {message.id for message in dequeue(conn, 1, 2000, "me")[0]}
    dequeue(conn, 1, 1500, "other")
    dequeue(conn, 1, 1000)

    def listed(*arguments: object) -> list[tuple[int, str, str]]:
        query = "SELECT id, consumer, cursor FROM message_list(%s, 'leased', %s, %s, p_consumer => %s)"
        return conn.execute(query, arguments).fetchall()

    everything = listed(None, None, 100, "me")
    assert {id_ for id_, _, _ in everything} == mine
    assert {consumer for _, consumer, _ in everything} == {"me"}
    assert listed(None, everything[0][2], 1, "me") == everything[1:2]
    of_a = [row[0] for row in conn.execute("SELECT id FROM message WHERE channel = 'a'")]
    assert {id_ for id_, _, _ in listed("a", None, 100, "me")} == mine & set(of_a)
    assert listed(None, None, 100, "nobody") == []


def test_a_list_is_the_same_wherever_its_messages_wait(conn: psycopg.Connection) -> None:
    """Not dispatched yet, in the backlog or in ready, in any lane: each message once, high priority first."""
    clock = FakeClock(conn)
    numbers = range(600)
    conn.execute(
        "SELECT COUNT(*) FROM message_create_many(%s, array_fill('x'::BYTEA, '{600}'), %s::BIGINT[],"
        " p_priorities => %s::INT[], p_lanes => %s)",
        (
            ["b" if n % 3 == 0 else "a" for n in numbers],
            [clock.at + 1_000_000 + n if n % 10 == 0 else None for n in numbers],
            [n % 4 - 1 for n in numbers],
            [f"lane {n % 2}" for n in numbers],
        ),
    )
    due = "SELECT id FROM message WHERE dequeue_at <= %s AND channel = %s ORDER BY -priority, dequeue_at, id"
    later = "SELECT id FROM message WHERE dequeue_at > %s AND channel = %s ORDER BY dequeue_at, id"
    expected = {
        channel: [row[0] for query in (due, later) for row in conn.execute(query, (clock.at, channel))]
        for channel in "ab"
    }
    for dispatched in (False, True):
        if dispatched:
            dispatch(conn)
        of_a = list(chain.from_iterable(pages(conn, "a", "waiting", 37)))
        assert of_a == expected["a"]
        both = list(chain.from_iterable(pages(conn, None, "waiting", 101)))
        assert both == expected["a"] + expected["b"]
        parts = [*pages(conn, "b", "due", 50), *pages(conn, "b", "scheduled", 7)]
        assert list(chain.from_iterable(parts)) == expected["b"]
    assert value(conn, "COUNT(*) FROM line") > 0
    assert value(conn, "COUNT(*) FROM ready") > 0


def test_what_waits_is_cancelled_at_once(conn: psycopg.Connection) -> None:
    kept, gone = create(conn), create(conn)
    assert value(conn, "message_cancel(%s)", gone) == "cancelled"
    assert value(conn, "message_cancel(%s)", gone) == "not_found"
    check(conn)
    assert [message.id for message in drain(conn)] == [kept]


def test_a_batch_of_cancels_equals_single_calls(conn: psycopg.Connection) -> None:
    """Invariant 16."""
    conn.execute("SELECT message_create('a', '', p_max_attempts => 1)")
    dead = lease(conn)
    conn.execute("SELECT message_retry(%s, %s, p_error => 'e')", (dead.id, dead.token))
    held_id = create(conn)
    lease(conn)
    waits = create(conn)
    rows = conn.execute("SELECT * FROM message_cancel_many(%s)", ([waits, 999, held_id, waits, dead.id],))
    assert rows.fetchall() == [
        (waits, "cancelled"),
        (999, "not_found"),
        (held_id, "marked"),
        (waits, "not_found"),
        (dead.id, "dead"),
    ]
    assert conn.execute("SELECT * FROM message_cancel_many('{}')").fetchall() == []


@pytest.mark.parametrize("end", ["complete", "complete many", "release", "fail", "expire"])
def test_a_worker_is_told_that_its_message_is_cancelled(conn: psycopg.Connection, end: str) -> None:
    clock = FakeClock(conn)
    create(conn)
    message = lease(conn, 1000)
    assert value(conn, "message_cancel(%s)", message.id) == "marked"
    assert get(conn, message.id)["is_cancelled"] is True
    extended = conn.execute("SELECT * FROM message_extend(%s, %s, 60000)", (message.id, message.token))
    assert extended.fetchone() == ("cancelled", None)
    assert get(conn, message.id)["lease_end_at"] == message.lease_end_at, "it was not extended"
    pair = (message.id, message.token)
    if end == "complete":
        assert value(conn, "message_complete(%s, %s)", *pair) == "cancelled"
    elif end == "complete many":
        rows = conn.execute(
            "SELECT * FROM message_complete_many(ARRAY[%s, 999]::BIGINT[], ARRAY[%s, %s]::UUID[])",
            (*pair, message.token),
        )
        assert rows.fetchall() == [(message.id, "cancelled"), (999, "not_found")]
    elif end == "expire":
        clock.advance(1000)
    else:
        error = "e" if end == "fail" else None
        assert value(conn, "message_retry(%s, %s, p_error => %s)", *pair, error) == "cancelled"
    check(conn)
    assert conn.execute("SELECT COUNT(*) FROM message").fetchone() == (0,)
    assert conn.execute("SELECT COUNT(*) FROM dead").fetchone() == (0,)
    assert value(conn, "message_complete(%s, %s)", *pair) == "not_found"


def test_only_the_holder_is_told(conn: psycopg.Connection) -> None:
    create(conn)
    message = lease(conn)
    value(conn, "message_cancel(%s)", message.id)
    assert value(conn, "message_complete(%s, gen_random_uuid())", message.id) == "lost"
    assert value(conn, "result FROM message_extend(%s, gen_random_uuid(), 1000)", message.id) == "lost"


@pytest.mark.parametrize("slots", ["a limit of the channel", "a limit of the queue"])
def test_a_cancelled_message_frees_its_slot_when_it_ends(conn: psycopg.Connection, slots: str) -> None:
    conn.execute(
        "SELECT channel_set('a', 1)" if "channel" in slots else "SELECT queue_set(p_max_concurrency => 1)"
    )
    create(conn)
    create(conn)
    message = lease(conn)
    value(conn, "message_cancel(%s)", message.id)
    assert dequeue(conn)[0] == []
    value(conn, "message_retry(%s, %s)", message.id, message.token)
    dispatch(conn)
    assert len(dequeue(conn)[0]) == 1


def test_run_now_and_run_later(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    scheduled = create(conn, at=clock.at + 3_600_000)
    plain = create(conn)
    assert drain_one(conn) == plain
    assert value(conn, "message_reschedule(%s)", scheduled) == "rescheduled"
    postponed = create(conn)
    assert value(conn, "message_reschedule(%s, %s)", postponed, clock.at + 500) == "rescheduled"
    urgent = create(conn)
    assert value(conn, "message_reschedule(%s, -1)", urgent) == "rescheduled"
    assert [message.id for message in drain(conn)] == [urgent, scheduled]
    clock.advance(500)
    assert [message.id for message in drain(conn)] == [postponed]


def drain_one(conn: psycopg.Connection) -> int:
    message = lease(conn)
    value(conn, "message_complete(%s, %s)", message.id, message.token)
    return message.id


def test_reschedule_says_why_it_is_not_possible(conn: psycopg.Connection) -> None:
    conn.execute("SELECT message_create('a', '', p_max_attempts => 1)")
    message = lease(conn)
    assert value(conn, "message_reschedule(%s)", message.id) == "leased"
    value(conn, "message_retry(%s, %s, p_error => 'e')", message.id, message.token)
    assert value(conn, "message_reschedule(%s)", message.id) == "dead"
    assert value(conn, "message_reschedule(999)") == "not_found"


def delete(conn: psycopg.Connection, arguments: str) -> tuple[str, int] | None:
    return conn.execute(f"SELECT * FROM channel_delete({arguments})").fetchone()


def leftovers(conn: psycopg.Connection, channel: str) -> list[str]:
    dispatch(conn)  # the dispatcher deletes its own rows when it has read the notice
    tables = (
        *("message", "scheduled", "line", "backlog", "ready", "dead"),
        *("capacity", "departure", "dedupe", "tally"),
    )
    found = [t for t in tables if value(conn, f"EXISTS (SELECT FROM {t} WHERE channel = %s)", channel)]
    return found + (
        ["channel"] if value(conn, "EXISTS (SELECT FROM channel WHERE name = %s)", channel) else []
    )


def test_an_empty_channel_is_deleted_with_everything_stored_about_it(conn: psycopg.Connection) -> None:
    conn.execute("SELECT channel_set('a', 1, 100000, 1, FALSE, 10), channel_set('b', 1)")
    conn.execute("SELECT message_create('a', '', p_dedupe_key => 'k')")
    drain(conn)
    assert delete(conn, "'a'") == ("deleted", 0)
    assert leftovers(conn, "a") == []
    assert leftovers(conn, "b") == ["channel"]
    assert delete(conn, "'a'") == ("not_found", 0)
    assert delete(conn, "'never heard of'") == ("not_found", 0)
    create(conn)
    assert len(drain(conn)) == 1, "a message creates it again, without limits"


@pytest.mark.parametrize("status", ["waiting", "leased", "dead"])
def test_a_channel_with_messages_is_deleted_only_on_request(conn: psycopg.Connection, status: str) -> None:
    conn.execute("SELECT message_create('a', '', p_max_attempts => 1)")
    if status != "waiting":
        message = lease(conn)
    if status == "dead":
        value(conn, "message_retry(%s, %s, p_error => 'e')", message.id, message.token)
    assert delete(conn, "'a'") == ("not_empty", 0)
    assert value(conn, f"COUNT(*) FROM {'dead' if status == 'dead' else 'message'}") == 1
    assert delete(conn, "'a', TRUE") == ("deleted", 1)
    assert leftovers(conn, "a") == []
    if status == "leased":
        assert value(conn, "message_complete(%s, %s)", message.id, message.token) == "not_found"
    check(conn)


def test_a_large_channel_is_deleted_in_pieces(conn: psycopg.Connection) -> None:
    for _ in range(5):
        create(conn)
        create(conn, "b")
    assert delete(conn, "'a', TRUE, 2") == ("more", 2)
    assert delete(conn, "'a', TRUE, 2") == ("more", 2)
    assert delete(conn, "'a', TRUE, 2") == ("deleted", 1)
    assert len(drain(conn)) == 5
