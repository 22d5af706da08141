"""message_complete, message_retry, message_discard and message_extend: by id and token, one and many."""

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect, until_waiting
from tests.invariants import Delivery, check, dequeue, dispatch, drain


def lease(conn: psycopg.Connection, count: int, lease_ms: int = 30_000) -> list[Delivery]:
    conn.execute(
        "SELECT message_create_many(array_fill('a'::TEXT, ARRAY[%s]), array_fill(''::BYTEA, ARRAY[%s]))",
        (count, count),
    )
    dispatch(conn)
    messages, _ = dequeue(conn, count, lease_ms)
    assert len(messages) == count
    return messages


def complete(conn: psycopg.Connection, id_: int, token: UUID) -> str:
    row = conn.execute("SELECT message_complete(%s, %s)", (id_, token)).fetchone()
    assert row is not None
    return str(row[0])


def retry(
    conn: psycopg.Connection,
    message: Delivery,
    at: int | None = None,
    state: bytes | None = None,
    error: str | None = None,
) -> str:
    row = conn.execute(
        "SELECT message_retry(%s, %s, %s, %s, %s)", (message.id, message.token, at, state, error)
    ).fetchone()
    assert row is not None
    return str(row[0])


def test_only_the_holder_completes_and_only_once(conn: psycopg.Connection) -> None:
    """Invariants 5 and 6."""
    [message] = lease(conn, 1)
    assert complete(conn, message.id, uuid4()) == "lost"
    assert complete(conn, message.id, message.token) == "completed"
    assert complete(conn, message.id, message.token) == "not_found"
    assert complete(conn, 10**9, uuid4()) == "not_found"
    assert conn.execute("SELECT COUNT(*) FROM message").fetchone() == (0,)


def test_a_waiting_message_has_no_token_to_guess(conn: psycopg.Connection) -> None:
    conn.execute("SELECT message_create('a', '')")
    row = conn.execute("SELECT message_complete(id, NULL) FROM message").fetchone()
    assert row == ("lost",)


def test_complete_many_equals_the_sequence_of_single_calls(conn: psycopg.Connection) -> None:
    """Invariant 16: wrong, right, again, unknown, wrong after right."""
    one, two, three = lease(conn, 3)
    calls = [
        (two.id, uuid4()),
        (two.id, two.token),
        (two.id, two.token),
        (10**9, uuid4()),
        (one.id, one.token),
        (one.id, uuid4()),
        (three.id, uuid4()),
    ]
    rows = conn.execute(
        "SELECT * FROM message_complete_many(%s, %s)", ([c[0] for c in calls], [c[1] for c in calls])
    ).fetchall()
    assert rows == list(
        zip(
            [c[0] for c in calls],
            ["lost", "completed", "not_found", "not_found", "completed", "not_found", "lost"],
            strict=True,
        )
    )
    assert conn.execute(
        "SELECT * FROM message_complete_many(%s, %s)", ([three.id], [three.token])
    ).fetchall() == [(three.id, "completed")]


def test_one_token_does_not_complete_for_another(conn: psycopg.Connection) -> None:
    """Invariant 5: id and token must match as a pair, even if the token is right for another id."""
    [one] = lease(conn, 1)
    [two] = lease(conn, 1)
    rows = conn.execute(
        "SELECT result FROM message_complete_many(%s, %s)", ([one.id, two.id], [two.token, one.token])
    ).fetchall()
    assert rows == [("lost",), ("lost",)]


def test_retry_without_an_error_costs_no_attempt(conn: psycopg.Connection) -> None:
    [message] = lease(conn, 1)
    for _ in range(10):
        assert retry(conn, message, state=b"page 2") == "retried"
        assert retry(conn, message) == "lost"
        dispatch(conn)
        [message], _ = dequeue(conn)
        assert (message.attempts, message.state) == (1, b"page 2")
    assert complete(conn, message.id, message.token) == "completed"


def test_retry_at_a_time_and_in_the_old_place(conn: psycopg.Connection) -> None:
    """Invariant 9."""
    clock = FakeClock(conn)
    first, second = lease(conn, 2)
    assert retry(conn, first, at=clock.at + 100) == "retried"
    assert retry(conn, second) == "retried"
    assert [message.id for message in drain(conn)] == [second.id]
    clock.advance(100)
    assert [message.id for message in drain(conn)] == [first.id]


def test_retry_with_an_error_until_the_attempts_are_used_up(conn: psycopg.Connection) -> None:
    """Invariant 14; the state and the last error are kept."""
    conn.execute("SELECT message_create('a', 'x', NULL, NULL, 2)")
    dispatch(conn)
    [message], _ = dequeue(conn, 1, 1000, "w")
    assert retry(conn, message, state=b"half", error="first") == "retried"
    dispatch(conn)
    [message], _ = dequeue(conn, 1, 1000, "w")
    assert (message.attempts, message.state) == (2, b"half")
    assert retry(conn, message, error="second" + "!" * 20_000) == "dead"
    row = conn.execute("SELECT attempts, state, left(error, 8), length(error), consumer FROM dead").fetchone()
    assert row == (2, b"half", "second!!", 16384, "w")
    assert retry(conn, message) == "lost"
    check(conn)


def test_retry_many_equals_the_sequence_of_single_calls(conn: psycopg.Connection) -> None:
    """Invariant 16."""
    one, two, three = lease(conn, 3)
    conn.execute("UPDATE message SET max_attempts = 1 WHERE id = %s", (three.id,))
    rows = conn.execute(
        "SELECT * FROM message_retry_many(%s, %s, %s, %s::BYTEA[], %s)",
        (
            [two.id, one.id, one.id, three.id, three.id, 10**9],
            [uuid4(), one.token, one.token, three.token, three.token, uuid4()],
            [None, -5, -6, None, None, None],
            [None, b"s", b"t", None, None, None],
            [None, "e", None, "f", "g", None],
        ),
    ).fetchall()
    assert [row[1] for row in rows] == ["lost", "retried", "lost", "dead", "lost", "not_found"]
    assert conn.execute(
        "SELECT dequeue_at, state, error, attempts FROM message WHERE id = %s", (one.id,)
    ).fetchone() == (-5, b"s", "e", 1)
    assert conn.execute("SELECT error FROM dead").fetchall() == [("f",)]
    check(conn)


def test_a_final_retry_is_dead_whatever_attempts_are_left(conn: psycopg.Connection) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE, p_max_attempts => 10)")
    one, two, three = lease(conn, 3)
    query = "SELECT message_retry(%s, %s, p_error => 'no such customer', p_is_final => TRUE)"
    assert conn.execute(query, (one.id, uuid4())).fetchone() == ("lost",)
    assert conn.execute(query, (one.id, one.token)).fetchone() == ("dead",)
    assert conn.execute(query, (one.id, one.token)).fetchone() == ("lost",)
    rows = conn.execute(
        "SELECT * FROM message_retry_many(%s, %s, p_are_final => %s)",
        ([three.id, two.id, three.id], [three.token, two.token, three.token], [True, False, None]),
    ).fetchall()
    assert rows == [(three.id, "dead"), (two.id, "retried"), (three.id, "lost")]
    dead = conn.execute("SELECT id, attempts, error FROM dead ORDER BY id").fetchall()
    assert dead == [(one.id, 1, "no such customer"), (three.id, 1, None)]
    assert conn.execute("SELECT id, attempts FROM message").fetchall() == [(two.id, 0)]
    assert conn.execute("SELECT outcome FROM history").fetchall() == [("dead",)] * 2
    check(conn)


def test_a_cancelled_message_is_deleted_by_a_final_retry(conn: psycopg.Connection) -> None:
    [message] = lease(conn, 1)
    conn.execute("SELECT message_cancel(%s)", (message.id,))
    query = "SELECT message_retry(%s, %s, p_error => 'e', p_is_final => TRUE)"
    assert conn.execute(query, (message.id, message.token)).fetchone() == ("cancelled",)
    assert conn.execute("SELECT COUNT(*) FROM dead").fetchone() == (0,)
    check(conn)


def test_retry_many_of_a_cancelled_message_equals_the_sequence_of_single_calls(
    conn: psycopg.Connection,
) -> None:
    """Invariant 16: the second mention deletes it, so the first one is `lost`."""
    [message] = lease(conn, 1)
    conn.execute("SELECT message_cancel(%s)", (message.id,))
    tokens = [uuid4(), message.token, message.token, uuid4()]
    rows = conn.execute("SELECT * FROM message_retry_many(%s, %s)", ([message.id] * 4, tokens)).fetchall()
    assert [row[1] for row in rows] == ["lost", "cancelled", "not_found", "not_found"]
    check(conn)


def test_extend_only_lengthens(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    [message] = lease(conn, 1, 1000)
    extend = "SELECT * FROM message_extend(%s, %s, %s)"
    assert conn.execute(extend, (message.id, message.token, 500)).fetchone() == ("extended", clock.at + 1000)
    assert conn.execute(extend, (message.id, message.token, 5000)).fetchone() == ("extended", clock.at + 5000)
    assert conn.execute(extend, (message.id, uuid4(), 9000)).fetchone() == ("lost", None)
    assert conn.execute(extend, (10**9, uuid4(), 9000)).fetchone() == ("not_found", None)
    clock.advance(4999)
    assert drain(conn) == []
    clock.advance(1)
    assert [again.id for again in drain(conn)] == [message.id]
    assert conn.execute(extend, (message.id, message.token, 9000)).fetchone() == ("not_found", None)


def test_extend_many_answers_in_order(conn: psycopg.Connection) -> None:
    """Invariant 16."""
    clock = FakeClock(conn)
    one, two = lease(conn, 2, 1000)
    rows = conn.execute(
        "SELECT * FROM message_extend_many(%s, %s, 2000)",
        ([two.id, one.id, two.id, 10**9, one.id], [two.token, uuid4(), two.token, uuid4(), one.token]),
    ).fetchall()
    end = clock.at + 2000
    assert rows == [
        (two.id, "extended", end),
        (one.id, "lost", None),
        (two.id, "extended", end),
        (10**9, "not_found", None),
        (one.id, "extended", end),
    ]


def test_until_it_is_swept_the_holder_may_finish_late(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    first, second = lease(conn, 2, 1000)
    clock.advance(5000)
    assert complete(conn, first.id, first.token) == "completed"
    assert conn.execute(
        "SELECT result FROM message_extend(%s, %s, 1000)", (second.id, second.token)
    ).fetchone() == ("extended",)
    assert drain(conn) == []


@pytest.mark.parametrize(
    "call",
    [
        "message_complete_many(%s, %s)",
        "message_complete_many(%s, (%s::UUID[])[:1])",
        "message_retry_many(%s, %s)",
        "message_extend_many(%s, %s, 1000, '{a, b}')",
    ],
)
def test_batches_lock_in_the_order_of_their_ids(connect: Connect, call: str) -> None:
    """Batches that name the same messages in opposite orders never deadlock: one that waits for the
    lowest id holds none of the others, whatever the order given."""
    conn, holder, batch, other = connect(), connect(autocommit=False), connect(), connect(autocommit=False)
    first, second = lease(conn, 2)
    batch.execute("SET statement_timeout TO '10s'")
    holder.execute("SELECT FROM message WHERE id = %s FOR UPDATE", (first.id,))
    with ThreadPoolExecutor() as pool:
        rows = pool.submit(
            lambda: batch.execute(
                "SELECT * FROM " + call, ([second.id, first.id], [second.token, first.token])
            ).fetchall()
        )
        until_waiting(conn, batch)
        other.execute("SELECT FROM message WHERE id = %s FOR UPDATE NOWAIT", (second.id,))
        other.rollback()
        holder.rollback()
        assert [row[0] for row in rows.result(10)] == [second.id, first.id]


def test_a_discarded_message_is_deleted_and_the_history_says_why(conn: psycopg.Connection) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE)")
    conn.execute("SELECT channel_set('a', 1)")
    [message] = lease(conn, 1)
    conn.execute("SELECT message_create('a', 'next')")
    query = "SELECT message_discard(%s, %s, %s)"
    assert conn.execute(query, (message.id, uuid4(), "guessed")).fetchone() == ("lost",)
    assert conn.execute(query, (message.id, message.token, "no such customer")).fetchone() == ("discarded",)
    assert conn.execute(query, (message.id, message.token, "again")).fetchone() == ("not_found",)
    history = conn.execute("SELECT id, outcome, error, attempts FROM history").fetchall()
    assert history == [(message.id, "cancelled", "no such customer", 1)]
    dispatch(conn)
    assert [each.content for each in dequeue(conn, 5)[0]] == [b"next"], "its slot is free"
    check(conn)


def test_discard_many_equals_the_sequence_of_single_calls(conn: psycopg.Connection) -> None:
    """Invariant 16."""
    a, b, _ = lease(conn, 3)
    ids, tokens = [a.id, a.id, b.id, b.id, 10**9], [uuid4(), a.token, b.token, b.token, uuid4()]
    rows = conn.execute("SELECT * FROM message_discard_many(%s, %s)", (ids, tokens)).fetchall()
    assert [row[0] for row in rows] == ids
    assert [row[1] for row in rows] == ["lost", "discarded", "discarded", "not_found", "not_found"]
    assert conn.execute("SELECT COUNT(*) FROM message").fetchone() == (1,)
    check(conn)


def test_which_messages_are_still_leased(connect: Connect) -> None:
    """What an open transaction does to them does not count yet, and is not waited for."""
    conn, other = connect(), connect(autocommit=False)
    one, two, three = lease(conn, 3)
    ids, query = [three.id, one.id, two.id, 10**9], "SELECT * FROM message_leased_many(%s, %s)"

    def found() -> list[str]:
        rows = conn.execute(query, (ids, [one.token])).fetchall()
        assert [row[0] for row in rows] == ids
        return [row[1] for row in rows]

    assert found() == ["leased", "leased", "leased", "not_found"]
    other.execute("SELECT message_complete(%s, %s)", (one.id, one.token))
    other.execute("SELECT message_retry(%s, %s)", (two.id, two.token))
    conn.execute("SELECT message_cancel(%s)", (three.id,))
    assert found() == ["cancelled", "leased", "leased", "not_found"]
    other.commit()
    assert found() == ["cancelled", "not_found", "lost", "not_found"]
    assert conn.execute(query, ([three.id], [uuid4()])).fetchall() == [(three.id, "lost")]


def test_extend_stores_a_state(conn: psycopg.Connection) -> None:
    [message] = lease(conn, 1)
    query = "SELECT result FROM message_extend(%s, %s, 60000, %s)"
    assert conn.execute(query, (message.id, message.token, b"page 3")).fetchone() == ("extended",)
    assert conn.execute(query, (message.id, message.token, None)).fetchone() == ("extended",)
    assert conn.execute(query, (message.id, uuid4(), b"page 4")).fetchone() == ("lost",)
    assert conn.execute("SELECT state FROM message").fetchone() == (b"page 3",)
    conn.execute("SELECT message_cancel(%s)", (message.id,))
    assert conn.execute(query, (message.id, message.token, b"page 5")).fetchone() == ("cancelled",)
    assert conn.execute("SELECT state FROM message").fetchone() == (b"page 3",)


def test_extend_many_stores_a_state_per_message(conn: psycopg.Connection) -> None:
    a, b, c = lease(conn, 3)
    ids, tokens = [a.id, b.id, c.id, c.id], [a.token, b.token, c.token, c.token]
    conn.execute(
        "SELECT * FROM message_extend_many(%s, %s, 60000, %s)", (ids, tokens, [b"a", None, b"c1", b"c2"])
    )
    states = conn.execute("SELECT state FROM message ORDER BY id").fetchall()
    assert states == [(b"a",), (None,), (b"c2",)]
