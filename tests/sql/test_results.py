"""Results that are kept, the status of a message, and its progress."""

from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import Delivery, check, dequeue, dispatch

Conn = psycopg.Connection
HOUR_MS = 3_600_000


def leased(conn: Conn, count: int = 1, keep_ms: int | None = HOUR_MS, **options: Any) -> list[Delivery]:
    for _ in range(count):
        given = {"keep_result_ms": keep_ms, **options}
        names = ", ".join(f"p_{name} => %({name})s" for name in given)
        conn.execute(f"SELECT message_create('a', 'x', {names})", given)
    dispatch(conn)
    messages, _ = dequeue(conn, count)
    assert len(messages) == count
    return messages


def status(conn: Conn, id_: int, *, with_result: bool = False) -> dict[str, Any]:
    with conn.cursor(row_factory=dict_row) as cursor:
        [row] = cursor.execute("SELECT * FROM status_get(%s, %s)", (id_, with_result)).fetchall()
    return row


def finish(conn: Conn, call: str, *values: object) -> str:
    row = conn.execute(f"SELECT {call}", values).fetchone()
    assert row is not None
    return str(row[0])


def complete(conn: Conn, message: Delivery, result: bytes | None = None, keep_ms: int | None = None) -> str:
    call = "message_complete(%s, %s, %s, CASE WHEN %s THEN 'text/plain' END, %s)"
    return finish(conn, call, message.id, message.token, result, result is not None, keep_ms)


def progress(conn: Conn, messages: list[Delivery], fractions: list[float], notes: list[str]) -> int:
    given = [m.id for m in messages], [m.token for m in messages], fractions, notes
    row = conn.execute("SELECT progress_write(%s, %s, %s::REAL[], %s)", given).fetchone()
    assert row is not None
    return int(row[0])


def count(conn: Conn, table: str) -> int:
    row = conn.execute(f"SELECT COUNT(*) FROM {table}").fetchone()
    assert row is not None
    return int(row[0])


def test_every_status(conn: Conn) -> None:
    conn.execute("SELECT message_create('a', ''), message_create('a', '', p_delay_ms => 60000)")
    assert [status(conn, id_)["status"] for id_ in (1, 2, 3)] == ["due", "scheduled", "unknown"]
    dispatch(conn)
    [[message], _] = dequeue(conn, 1)
    found = status(conn, message.id)
    assert (found["status"], found["attempts"], found["channel"]) == ("leased", 1, "a")
    assert complete(conn, message) == "completed"
    assert status(conn, message.id)["status"] == "unknown", "neither a result nor a history is kept"


@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize("many", [False, True])
def test_a_result_is_kept_until_its_time_is_over(conn: Conn, *, many: bool, history: bool) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT queue_set(p_history => %s)", (history,))
    [one, two] = leased(conn, 2)
    if many:
        rows = conn.execute(
            "SELECT result FROM message_complete_many(%s, %s, ARRAY['r1', NULL]::BYTEA[],"
            " ARRAY['text/plain', NULL])",
            ([one.id, two.id], [one.token]),
        ).fetchall()
        assert rows == [("completed",), ("completed",)]
    else:
        assert complete(conn, one, b"r1") == "completed"
        assert complete(conn, two) == "completed"
    found = status(conn, one.id, with_result=True)
    assert (found["status"], found["finished_at"]) == ("completed", clock.at)
    assert (found["result_content"], found["result_type"]) == (b"r1", "text/plain")
    assert found["result_until_at"] == clock.at + HOUR_MS
    assert status(conn, one.id)["result_content"] is None, "it was not asked for"
    assert status(conn, two.id)["status"] == "completed"
    clock.advance(HOUR_MS - 1)
    assert status(conn, one.id)["result_until_at"] is not None
    clock.advance(1)
    assert status(conn, one.id)["result_until_at"] is None
    assert status(conn, one.id)["status"] == ("completed" if history else "unknown")
    check(conn)


def test_messages_of_one_dequeue_that_keep_results_and_others_that_do_not(conn: Conn) -> None:
    """The fast path of message_complete_many."""
    conn.execute("SELECT message_create_many('{a,a,a}', '{x,x,x}', p_keep_results_ms => '{NULL, 1000, 0}')")
    dispatch(conn)
    messages, _ = dequeue(conn, 3)
    conn.execute("SELECT message_cancel(%s)", (messages[1].id,))
    rows = conn.execute(
        "SELECT result FROM message_complete_many(%s, %s)", ([m.id for m in messages], [messages[0].token])
    ).fetchall()
    assert rows == [("completed",), ("cancelled",), ("completed",)]
    assert conn.execute("SELECT id, outcome FROM result").fetchall() == [(messages[1].id, "cancelled")]


def test_the_completing_call_can_keep_the_result_of_any_message(conn: Conn) -> None:
    one, two = leased(conn, 2, keep_ms=None)
    with pytest.raises(psycopg.Error, match=f"message {one.id} keeps no result") as caught:
        complete(conn, one, b"r")
    assert caught.value.sqlstate == "LM010"
    assert complete(conn, one, b"r", keep_ms=1000) == "completed"
    assert status(conn, one.id, with_result=True)["result_content"] == b"r"
    assert complete(conn, two, b"r", keep_ms=0) == "completed"
    assert status(conn, two.id)["status"] == "unknown"


def test_only_the_holder_of_the_lease_leaves_a_result(conn: Conn) -> None:
    [message] = leased(conn)
    wrong = message._replace(token=UUID(int=0))
    assert complete(conn, wrong, b"r") == "lost"
    assert count(conn, "result") == 0
    assert status(conn, message.id)["status"] == "leased"


def test_the_result_belongs_to_the_transaction_that_completes(connect: Connect, conn: Conn) -> None:
    [message] = leased(conn)
    other = connect()
    with other.transaction(force_rollback=True):
        assert complete(other, message, b"r") == "completed"
        assert status(conn, message.id)["status"] == "leased"
    assert status(conn, message.id)["status"] == "leased"
    assert count(conn, "result") == 0


@pytest.mark.parametrize("way", ["retry", "lease", "discard", "cancel", "cancel waiting", "delete"])
def test_every_other_end_is_kept_too(conn: Conn, way: str) -> None:
    clock = FakeClock(conn)
    expected = {
        "retry": ("dead", "boom"),
        "lease": ("dead", "the lease ran out"),
        "discard": ("cancelled", "no"),
    }
    if way == "cancel waiting":
        conn.execute("SELECT message_create('a', '', p_keep_result_ms => 1000)")
        id_ = 1
        assert finish(conn, "message_cancel(1)") == "cancelled"
    else:
        [message] = leased(conn, keep_ms=1000, max_attempts=1)
        id_ = message.id
        if way == "retry":
            call = "message_retry(%s, %s, p_error => 'boom')"
            assert finish(conn, call, message.id, message.token) == "dead"
        elif way == "discard":
            call = "message_discard(%s, %s, 'no')"
            assert finish(conn, call, message.id, message.token) == "discarded"
        elif way == "cancel":
            assert finish(conn, "message_cancel(%s)", message.id) == "marked"
            assert status(conn, message.id)["is_cancelled"]
            assert complete(conn, message, b"r") == "cancelled"
        elif way == "delete":
            conn.execute("SELECT channel_delete('a', TRUE)")
        else:
            clock.advance(10 * HOUR_MS)
            dispatch(conn)
    rows = conn.execute("SELECT id, outcome, error, until_at - finished_at, content FROM result").fetchall()
    assert rows == [(id_, *expected.get(way, ("cancelled", None)), 1000, None)]
    assert status(conn, id_)["status"] == expected.get(way, ("cancelled", None))[0]


def test_a_dead_letter_that_is_retried_has_no_result_any_more(conn: Conn) -> None:
    [message] = leased(conn, max_attempts=1)
    conn.execute("SELECT message_retry(%s, %s, p_error => 'boom')", (message.id, message.token))
    assert (status(conn, message.id)["status"], count(conn, "result")) == ("dead", 1)
    conn.execute("SELECT dead_retry(%s)", ([message.id],))
    assert (status(conn, message.id)["status"], count(conn, "result")) == ("due", 0)
    dispatch(conn)
    [[again], _] = dequeue(conn, 1)
    assert complete(conn, again, b"r") == "completed"
    assert status(conn, message.id, with_result=True)["result_content"] == b"r"


def test_what_is_refused(conn: Conn) -> None:
    [message] = leased(conn)
    limit = "queue_set(p_content_max_bytes => 10)"
    conn.execute(f"SELECT {limit}")
    for values, code, text in (
        ((b"12345678901", None), "LM010", "the result is 11 bytes long"),
        ((b"1", -1), "LM003", "keeping a result for -1 ms is not possible"),
        ((b"1", 31_536_000_001), "LM003", "keeping a result for 31536000001 ms is not possible"),
    ):
        with pytest.raises(psycopg.Error, match=text) as caught:
            complete(conn, message, *values)
        assert caught.value.sqlstate == code
    with pytest.raises(psycopg.Error, match=r"keeping a result for -1 ms is not possible \(message 1 of 1\)"):
        conn.execute("SELECT message_create_many('{a}', '{x}', p_keep_results_ms => '{-1}')")
    with pytest.raises(psycopg.Error, match="the arrays differ in length"):
        conn.execute("SELECT message_complete_many(%s, %s, '{x,y}')", ([message.id], [message.token]))


def test_a_finished_message_is_notified_by_a_key(connect: Connect, conn: Conn) -> None:
    """The key does not tell the id, because everybody may LISTEN."""
    messages = leased(conn, 3)
    found = [status(conn, message.id) for message in messages]
    listener = connect()
    listener.execute(f"LISTEN {found[0]['notify_channel']}")
    ids, token = [message.id for message in messages[:2]], messages[0].token
    conn.execute("SELECT message_complete_many(%s, %s)", (ids, [token]))
    [notified] = listener.notifies(timeout=10, stop_after=1)
    assert sorted(notified.payload.split(",")) == sorted(each["notify_key"] for each in found[:2])
    assert str(messages[0].id) not in (found[0]["notify_key"], found[0]["notify_channel"])
    conn.execute("SELECT queue_set(p_notify => FALSE)")
    assert status(conn, messages[2].id)["notify_key"] is None


def test_many_results_are_notified_in_parts(connect: Connect, conn: Conn) -> None:
    conn.execute(
        "SELECT message_create_many(array_fill('a'::TEXT, '{1000}'), array_fill(''::BYTEA, '{1000}'),"
        " p_keep_results_ms => array_fill(1000::BIGINT, '{1000}'))"
    )
    messages: list[Delivery] = []
    while len(messages) < 1000:
        dispatch(conn)
        messages += dequeue(conn, 1000)[0]
    found = status(conn, messages[0].id)
    listener = connect()
    listener.execute(f"LISTEN {found['notify_channel']}")
    given = [message.id for message in messages], [message.token for message in messages]
    conn.execute("SELECT message_complete_many(%s, %s)", given)
    keys = [
        key for notified in listener.notifies(timeout=10, stop_after=2) for key in notified.payload.split(",")
    ]
    assert len(keys) == 1000
    assert found["notify_key"] in keys


def test_nothing_is_notified_unless_a_result_is_kept(connect: Connect, conn: Conn) -> None:
    [kept] = leased(conn)
    listener = connect()
    listener.execute(f"LISTEN {status(conn, kept.id)['notify_channel']}")
    [plain] = leased(conn, keep_ms=None)
    assert status(conn, plain.id)["notify_key"] is None
    complete(conn, plain)
    complete(conn, kept)
    [notified] = listener.notifies(timeout=10, stop_after=1)
    assert "," not in notified.payload


def test_maintenance_deletes_results_in_parts(conn: Conn) -> None:
    clock = FakeClock(conn)
    for message in leased(conn, 5, keep_ms=1000):
        complete(conn, message, b"r")
    [late] = leased(conn, keep_ms=HOUR_MS)
    complete(conn, late, b"r")
    while finish(conn, "maintain()") != "0":
        pass
    assert count(conn, "result") == 6
    clock.advance(1000)
    for left in (4, 2, 1):
        conn.execute("SELECT maintain(2)")
        assert count(conn, "result") == left
    assert finish(conn, "maintain()") == "0"
    clock.advance(HOUR_MS)
    assert finish(conn, "maintain()") == "1"
    assert count(conn, "result") == 0


def test_a_result_that_was_committed_late_is_deleted_a_day_later(connect: Connect, conn: Conn) -> None:
    clock = FakeClock(conn)
    one, two = leased(conn, 2, keep_ms=1)
    other = connect()
    with other.transaction():
        complete(other, one)
        clock.advance(10)
        complete(conn, two)
        clock.advance(10)
        conn.execute("SELECT maintain()")
    assert count(conn, "result") == 1
    conn.execute("SELECT maintain()")
    assert count(conn, "result") == 1
    clock.advance(24 * HOUR_MS)
    conn.execute("SELECT maintain()")
    assert count(conn, "result") == 0


def test_progress_belongs_to_the_attempt(conn: Conn) -> None:
    clock = FakeClock(conn)
    one, two = leased(conn, 2)
    assert progress(conn, [one, two], [0.25, 1.0], ["begun", "done"]) == 2
    assert progress(conn, [one], [0.5], ["rendering"]) == 1
    found = status(conn, one.id)
    assert (found["progress"], found["progress_note"], found["progress_at"]) == (0.5, "rendering", clock.at)
    assert status(conn, two.id)["progress"] == 1
    assert count(conn, "progress") == 2
    conn.execute("SELECT message_retry(%s, %s)", (one.id, one.token))
    assert status(conn, one.id)["progress"] is None
    assert progress(conn, [one], [0.7], ["late"]) == 0
    dispatch(conn)
    [[again], _] = dequeue(conn, 1)
    assert status(conn, again.id)["progress"] is None
    assert progress(conn, [again], [0.1], ["again"]) == 1
    assert status(conn, again.id)["progress_note"] == "again"
    check(conn)


def test_maintenance_deletes_the_progress_of_attempts_that_are_over(conn: Conn) -> None:
    clock = FakeClock(conn)
    messages = leased(conn, 5)
    progress(conn, messages, [0.5] * 5, ["x"] * 5)
    for message in messages[:4]:
        complete(conn, message)
    for _ in range(4):
        conn.execute("SELECT maintain(2)")
    assert conn.execute("SELECT id FROM progress").fetchall() == [(messages[4].id,)]
    complete(conn, messages[4])
    conn.execute("SELECT maintain()")
    assert count(conn, "progress") == 1, "it looks once per minute"
    clock.advance(60_001)
    conn.execute("SELECT maintain()")
    assert count(conn, "progress") == 0
    clock.advance(60_001)
    assert finish(conn, "maintain()") == "0"


def test_reporting_progress_does_not_wait_for_the_call_that_finishes(connect: Connect, conn: Conn) -> None:
    [message] = leased(conn)
    other = connect()
    with other.transaction():
        complete(other, message)
        assert progress(conn, [message], [0.5], ["x"]) == 1


def test_maintenance_does_not_wait_for_progress_that_is_being_replaced(connect: Connect, conn: Conn) -> None:
    """The row is of an earlier attempt, and an open report of this attempt deletes it."""
    other = connect(autocommit=False)
    conn.execute("SET lock_timeout = '2s'")
    [first] = leased(conn)
    progress(conn, [first], [0.5], ["first attempt"])
    conn.execute("SELECT message_retry(%s, %s)", (first.id, first.token))
    dispatch(conn)
    again, _ = dequeue(conn)
    progress(other, again, [0.1], ["second attempt"])
    conn.execute("SELECT maintain()")
    other.commit()


def test_wrong_progress_is_refused(conn: Conn) -> None:
    [message] = leased(conn)
    for fraction in (-0.1, 1.1, float("nan")):
        with pytest.raises(psycopg.Error, match=r"a progress of .* is out of range") as caught:
            progress(conn, [message], [fraction], ["x"])
        assert caught.value.sqlstate == "LM010"


def test_results_under_a_name(conn: Conn) -> None:
    """Each replaces the one before, can be read until its time is over, and is deleted by maintenance."""
    clock = FakeClock(conn)
    now = clock.at

    def saved(name: str) -> Any:
        return conn.execute("SELECT content, content_type, until_at FROM result_load(%s)", (name,)).fetchone()

    conn.execute("SELECT result_save('7f', 'one', 'text/plain', 1000), result_save('8a', 'other')")
    assert saved("7f") == (b"one", "text/plain", now + 1000)
    conn.execute("SELECT result_save('7f', 'two', NULL, 2000)")
    assert saved("7f") == (b"two", None, now + 2000)
    assert saved("9c") is None
    assert conn.execute("SELECT content FROM result_load('7f', FALSE)").fetchall() == [(None,)]
    clock.advance(2000)
    assert saved("7f") is None
    assert count(conn, "saved_result") == 2
    conn.execute("SELECT maintain()")
    assert count(conn, "saved_result") == 1
    conn.execute("SELECT result_save('8a', '', NULL, 0)")
    assert saved("8a") is None


@pytest.mark.parametrize(
    "given",
    [
        "NULL, ''",
        "'', ''",
        "repeat('n', 256), ''",
        "'n', NULL",
        "'n', '', NULL, NULL",
        "'n', '', NULL, -1",
        "'n', '', repeat('t', 256)",
        "'n', convert_to(repeat('x', 2000000), 'UTF8')",
    ],
)
def test_what_cannot_be_saved_under_a_name(conn: Conn, given: str) -> None:
    conn.execute("SELECT queue_set(p_content_max_bytes => 1000000)")
    with pytest.raises(psycopg.Error) as refused:
        conn.execute(f"SELECT result_save({given})")
    assert refused.value.sqlstate in {"LM010", "LM003"}
