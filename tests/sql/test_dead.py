"""Dead letters: list, show, retry, discard."""

from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.clock import FakeClock
from tests.invariants import check, dequeue, dispatch, drain


def kill(
    conn: psycopg.Connection, channel: str, error: str, key: str | None = None, keep_ms: int | None = None
) -> int:
    """A message that dies of the error; it must be the only one that is due."""
    conn.execute(
        "SELECT message_create(%s, 'content', p_headers => '{}', p_max_attempts => 1, p_dedupe_key => %s,"
        " p_unique_for_ms => %s)",
        (channel, key, keep_ms),
    )
    dispatch(conn)
    [message], _ = dequeue(conn, 1, consumer="worker 7")
    row = conn.execute(
        "SELECT message_retry(%s, %s, p_error => %s, p_state => 'page 7')", (message.id, message.token, error)
    ).fetchone()
    assert row == ("dead",)
    return message.id


def shown(conn: psycopg.Connection, query: str, *parameters: Any) -> list[dict[str, Any]]:
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, parameters).fetchall()


def ids(conn: psycopg.Connection, call: str) -> list[int]:
    return [row[0] for row in conn.execute("SELECT id FROM " + call)]


def test_the_dead_are_listed_by_channel_and_by_error_page_by_page(conn: psycopg.Connection) -> None:
    dead = [
        kill(conn, channel, error)
        for channel in "ab"
        for error in ("timeout after 5 s", "timeout after 9 s", "no route")
    ]
    assert ids(conn, "dead_list()") == dead
    assert ids(conn, "dead_list('b')") == dead[3:]
    assert ids(conn, "dead_list(p_error => 'timeout%%')") == dead[:2] + dead[3:5]
    assert ids(conn, "dead_list('a', 'no route')") == [dead[2]]
    assert ids(conn, "dead_list(p_limit => 4)") == dead[:4]
    assert ids(conn, f"dead_list(p_after => {dead[3]}, p_limit => 4)") == dead[4:]
    assert ids(conn, f"dead_list('b', p_after => {dead[3]}, p_limit => 1)") == [dead[4]]
    assert ids(conn, "dead_list('c')") == []
    conn.execute("UPDATE dead SET lane = 'mail' WHERE id = ANY (%s)", ([dead[1], dead[4]],))
    assert ids(conn, "dead_list(p_lane => 'mail')") == [dead[1], dead[4]]
    assert ids(conn, "dead_list('b', p_lane => 'mail')") == [dead[4]]
    assert ids(conn, "dead_list(p_lane => 'default', p_error => 'timeout%%')") == [dead[0], dead[3]]


def test_a_dead_message_shows_its_attempts_and_error(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    message_id = kill(conn, "a", "no route", "k")
    [message] = shown(conn, "SELECT * FROM message_get(%s)", message_id)
    [listed] = shown(conn, "SELECT * FROM dead_list()")
    assert listed["content_bytes"] == len(b"content")
    assert (
        message.items()
        >= {
            "id": message_id,
            "channel": "a",
            "status": "dead",
            "created_at": clock.at,
            "dequeued_at": clock.at,
            "dead_at": clock.at,
            "attempts": 1,
            "max_attempts": 1,
            "consumer": "worker 7",
            "error": "no route",
            "past_errors": None,
            "dedupe_key": "k",
            "headers": {},
            "state": b"page 7",
            "content": b"content",
        }.items()
    )
    assert listed.items() >= {key: message[key] for key in listed.keys() & message.keys()}.items()


def test_a_retried_message_starts_afresh_and_keeps_its_past(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    message_id = kill(conn, "a", "first")
    died_at = clock.at
    for life in range(2, 14):
        clock.advance(1000)
        assert conn.execute("SELECT * FROM dead_retry(ARRAY[%s]::BIGINT[])", (message_id,)).fetchall() == [
            (message_id, "retried")
        ]
        check(conn)
        [again], _ = dequeue(conn)
        assert (again.id, again.attempts, again.state, again.content) == (
            message_id,
            1,
            b"page 7",
            b"content",
        )
        [message] = shown(conn, "SELECT * FROM message_get(%s)", message_id)
        assert message["error"] == message["past_errors"][-1]["error"]
        if life == 2:
            assert message["past_errors"] == [{"at": died_at, "attempts": 1, "error": "first"}]
        conn.execute("SELECT message_retry(%s, %s, p_error => %s)", (message_id, again.token, f"life {life}"))
    [message] = shown(conn, "SELECT * FROM message_get(%s)", message_id)
    assert [past["error"] for past in message["past_errors"]] == [f"life {n}" for n in range(3, 13)]
    assert message["error"] == "life 13"


def test_a_retry_may_be_for_later(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    message_id = kill(conn, "a", "e")
    conn.execute("SELECT dead_retry(ARRAY[%s]::BIGINT[], %s)", (message_id, clock.at + 500))
    assert drain(conn) == []
    clock.advance(500)
    assert [message.id for message in drain(conn)] == [message_id]


def test_a_batch_answers_in_the_order_given(conn: psycopg.Connection) -> None:
    one, two = kill(conn, "b", "e"), kill(conn, "a", "e")
    rows = conn.execute("SELECT * FROM dead_retry(%s)", ([two, 10**9, one, two],)).fetchall()
    assert rows == [(two, "retried"), (10**9, "not_found"), (one, "retried"), (two, "not_found")]
    assert {message.id for message in drain(conn)} == {one, two}


def test_all_of_a_channel_or_an_error_are_retried_in_pieces(conn: psycopg.Connection) -> None:
    dead = [kill(conn, channel, error) for error in ("timeout 1", "timeout 2", "gone") for channel in "ab"]
    assert conn.execute("SELECT * FROM dead_retry_all(p_error => 'gone')").fetchone() == (2, 0, None)
    first = conn.execute("SELECT * FROM dead_retry_all('a', p_limit => 1)").fetchone()
    assert first == (1, 0, dead[0])
    assert conn.execute("SELECT * FROM dead_retry_all('a', p_after => %s)", (dead[0],)).fetchone() == (
        *(1, 0),
        None,
    )
    assert conn.execute("SELECT * FROM dead_retry_all()").fetchone() == (2, 0, None)
    assert sorted(message.id for message in drain(conn)) == dead


def test_a_message_stays_dead_while_another_has_its_key(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    message_id = kill(conn, "a", "e", "k", 600_000)
    retry = f"SELECT result FROM dead_retry(ARRAY[{message_id}])"
    with conn.transaction(force_rollback=True):
        assert conn.execute(retry).fetchone() == ("retried",), "its own key does not prevent it"
        assert conn.execute("SELECT * FROM message_create('a', '', p_dedupe_key => 'k')").fetchone() == (
            message_id,
            "duplicate",
        )
    clock.advance(600_000)
    assert conn.execute("SELECT result FROM message_create('a', '', p_dedupe_key => 'k')").fetchone() == (
        "created",
    )
    assert conn.execute(retry).fetchone() == ("duplicate",)
    assert conn.execute("SELECT * FROM dead_retry_all()").fetchone() == (0, 1, None)
    assert ids(conn, "dead_list()") == [message_id]


@pytest.mark.parametrize("max_size", [0, 5])
def test_two_that_died_with_one_key_are_retried_together(conn: psycopg.Connection, max_size: int) -> None:
    """The later one still holds the key, although the earlier one is named first."""
    clock = FakeClock(conn)
    conn.execute("SELECT channel_set('a', p_max_size => %s)", (max_size,))
    first = kill(conn, "a", "no", "k", 100)
    clock.advance(101)
    second = kill(conn, "a", "no", "k", 100)
    results = conn.execute("SELECT * FROM dead_retry(%s)", ([first, second],)).fetchall()
    assert results == [(first, "duplicate"), (second, "retried")]
    check(conn)


def test_a_discarded_dead_message_is_deleted(conn: psycopg.Connection) -> None:
    dead = [kill(conn, "a", error) for error in ("x", "y", "z")]
    rows = conn.execute("SELECT * FROM dead_discard(%s)", ([dead[1], dead[1], 10**9],)).fetchall()
    assert rows == [(dead[1], "discarded"), (dead[1], "not_found"), (10**9, "not_found")]
    assert conn.execute("SELECT * FROM dead_discard_all(p_error => 'x')").fetchone() == (1, None)
    assert conn.execute("SELECT * FROM dead_discard_all('a', p_limit => 1)").fetchone() == (1, dead[2])
    assert conn.execute("SELECT * FROM dead_discard_all('a', p_after => %s)", (dead[2],)).fetchone() == (
        0,
        None,
    )
    assert ids(conn, "dead_list()") == []
