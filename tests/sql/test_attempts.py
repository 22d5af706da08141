"""`attempts` means the same in every output: attempts that were started, the running one included."""

from typing import Any

import psycopg
import pytest

from tests.invariants import check, dequeue, dispatch

LEASED = {
    "message_get": "message_get({id})",
    "message_list": "message_list(p_status => 'leased')",
    "messages": "messages",
    "message_visible": "message_visible()",
    "leases": "leases",
}
WAITING = {
    "message_get": "message_get({id})",
    "message_list": "message_list()",
    "messages": "messages",
    "message_visible": "message_visible()",
}
DEAD = {
    "message_get": "message_get({id})",
    "dead_list": "dead_list()",
    "dead_letters": "dead_letters",
    "dead_visible": "dead_visible()",
    "history": "history",
    "finished_visible": "finished_visible()",
}


@pytest.fixture
def message_id(conn: psycopg.Connection) -> int:
    """A message that may be tried twice, in a queue that keeps a history."""
    conn.execute("SELECT queue_set(p_history => TRUE)")
    [(found,)] = conn.execute("SELECT id FROM message_create('a', '', p_max_attempts => 2)").fetchall()
    return int(found)


def attempts(conn: psycopg.Connection, outputs: dict[str, str], message_id: int) -> dict[str, Any]:
    """What each output shows; one that does not have the message is missing."""
    shown = {}
    for name, source in outputs.items():
        query = f"SELECT attempts FROM {source.format(id=message_id)} x WHERE x.id = %s"
        for row in conn.execute(query.encode(), (message_id,)):
            shown[name] = row[0]
    return shown


def retry(conn: psycopg.Connection, error: str | None) -> str:
    dispatch(conn)
    [message], _ = dequeue(conn)
    [(result,)] = conn.execute(
        "SELECT message_retry(%s, %s, p_error => %s)", (message.id, message.token, error)
    ).fetchall()
    return str(result)


def test_all_outputs_agree_from_the_first_attempt_to_the_last(
    conn: psycopg.Connection, message_id: int
) -> None:
    assert attempts(conn, WAITING, message_id) == dict.fromkeys(WAITING, 0)
    for number, result in ((1, "retried"), (2, "dead")):
        dispatch(conn)
        [message], _ = dequeue(conn)
        assert message.attempts == number
        assert attempts(conn, LEASED, message_id) == dict.fromkeys(LEASED, number)
        [row] = conn.execute(
            "SELECT message_retry(%s, %s, p_error => 'e')", (message.id, message.token)
        ).fetchall()
        assert row == (result,)
        outputs = WAITING if result == "retried" else DEAD
        assert attempts(conn, outputs, message_id) == dict.fromkeys(outputs, number)
    conn.execute("SELECT dead_retry(ARRAY[%s]::BIGINT[])", (message_id,))
    assert attempts(conn, WAITING, message_id) == dict.fromkeys(WAITING, 0), "it begins again"
    [(past,)] = conn.execute("SELECT past_errors FROM message_get(%s)", (message_id,)).fetchall()
    assert [each["attempts"] for each in past] == [2]
    check(conn)


def test_a_released_attempt_does_not_count(conn: psycopg.Connection, message_id: int) -> None:
    assert retry(conn, "e") == "retried"
    for _ in range(3):
        assert retry(conn, None) == "retried"
        assert attempts(conn, WAITING, message_id) == dict.fromkeys(WAITING, 1)
    dispatch(conn)
    [message], _ = dequeue(conn)
    assert message.attempts == 2
    conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token))
    assert attempts(conn, DEAD, message_id) == {"history": 2, "finished_visible": 2}


def test_a_message_that_is_cancelled_while_it_waits_keeps_its_number(
    conn: psycopg.Connection, message_id: int
) -> None:
    assert retry(conn, "e") == "retried"
    conn.execute("SELECT message_cancel(%s)", (message_id,))
    assert attempts(conn, DEAD, message_id) == {"history": 1, "finished_visible": 1}


def test_a_claim_counts_like_a_dequeue(conn: psycopg.Connection, message_id: int) -> None:
    assert retry(conn, "e") == "retried"
    dispatch(conn)
    conn.execute("SELECT claim_open('etl')")
    assert conn.execute("SELECT seq, messages FROM claim_next('etl', 1, 0, 10)").fetchall() == [(1, 1)]
    assert conn.execute("SELECT attempts FROM claim_read('etl', 1, 0, 1)").fetchall() == [(2,)]
    assert attempts(conn, LEASED, message_id) == dict.fromkeys(LEASED, 2)
