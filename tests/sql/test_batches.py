"""Batches: their counts, their callbacks, and what closes, cancels and removes them."""

import json
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import Delivery, check, dequeue, dispatch, drain

Counts = dict[str, int]
WEEK_MS = 7 * 86_400_000


def value(conn: psycopg.Connection, query: str, *parameters: Any) -> Any:
    row = conn.execute(query, parameters or None).fetchone()
    return None if row is None else row[0]


def opened(conn: psycopg.Connection, name: str = "import", **options: object) -> int:
    """A batch with both callbacks. `options` are those of the on_complete message."""
    return int(
        value(
            conn,
            "SELECT batch_open(%s, 'callbacks', 'complete', %s, 'callbacks', 'failure')",
            name,
            json.dumps(options) if options else None,
        )
    )


def add(conn: psycopg.Connection, batch_id: int, count: int = 1, max_attempts: int | None = None) -> None:
    conn.execute(
        "SELECT message_create_many(%s, %s, p_batch_ids => %s, p_max_attempts => %s)",
        (["a"] * count, [b"work"] * count, [batch_id] * count, [max_attempts] * count),
    )


def batch(conn: psycopg.Connection, count: int = 3, **options: Any) -> int:
    """A closed batch."""
    batch_id = opened(conn, **options)
    add(conn, batch_id, count)
    assert close(conn, batch_id) == "closed"
    return batch_id


def close(conn: psycopg.Connection, batch_id: int) -> Any:
    return value(conn, "SELECT batch_close(%s)", batch_id)


def status(conn: psycopg.Connection, batch_id: int) -> dict[str, Any]:
    with conn.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute("SELECT * FROM batch_get(%s)", (batch_id,)).fetchone()
    assert found is not None
    assert found["total"] == sum(
        found[name] for name in ("waiting", "leased", "completed", "dead", "cancelled")
    )
    return found


def counts(conn: psycopg.Connection, batch_id: int) -> Counts:
    """The counts that are not 0."""
    found = status(conn, batch_id)
    names = ("waiting", "leased", "completed", "dead", "cancelled")
    return {name: found[name] for name in names if found[name]}


def take(conn: psycopg.Connection, limit: int = 100, lease_ms: int = 30_000) -> list[Delivery]:
    dispatch(conn)
    return dequeue(conn, limit, lease_ms)[0]


def complete(conn: psycopg.Connection, delivery: Delivery) -> None:
    assert value(conn, "SELECT message_complete(%s, %s)", delivery.id, delivery.token) == "completed"


def fail(conn: psycopg.Connection, delivery: Delivery) -> None:
    query = "SELECT message_retry(%s, %s, p_error => 'no route', p_is_final => TRUE)"
    assert value(conn, query, delivery.id, delivery.token) == "dead"


def callbacks(conn: psycopg.Connection) -> list[tuple[bytes, Counts]]:
    """The callbacks that wait, in the order of their creation, with the counts that they carry."""
    rows = conn.execute(
        "SELECT content, headers -> 'batch' FROM message WHERE channel = 'callbacks' ORDER BY id"
    ).fetchall()
    names = ("completed", "dead", "cancelled")
    return [(content, {name: about[name] for name in names if about[name]}) for content, about in rows]


def test_a_batch_is_counted_until_it_is_finished(conn: psycopg.Connection) -> None:
    batch_id = opened(conn)
    assert (status(conn, batch_id)["status"], counts(conn, batch_id)) == ("open", {})
    add(conn, batch_id, 3)
    conn.execute("SELECT message_create('a', 'x', p_batch_id => %s)", (batch_id,))
    conn.execute("SELECT message_create('a', 'not of the batch')")
    assert counts(conn, batch_id) == {"waiting": 4}
    assert close(conn, batch_id) == "closed"
    assert (status(conn, batch_id)["status"], counts(conn, batch_id)) == ("closed", {"waiting": 4})
    deliveries = take(conn, 3)
    assert counts(conn, batch_id) == {"waiting": 1, "leased": 3}
    complete(conn, deliveries[0])
    fail(conn, deliveries[1])
    assert value(conn, "SELECT message_discard(%s, %s)", deliveries[2].id, deliveries[2].token) == "discarded"
    assert counts(conn, batch_id) == {"waiting": 1, "completed": 1, "dead": 1, "cancelled": 1}
    assert status(conn, batch_id)["finished_at"] is None
    check(conn)
    drain(conn)
    found = status(conn, batch_id)
    assert (found["status"], found["failed_id"]) == ("finished", deliveries[1].id)
    assert counts(conn, batch_id) == {"completed": 2, "dead": 1, "cancelled": 1}
    assert found["finished_at"] >= found["failed_at"] >= found["closed_at"] >= found["created_at"]
    check(conn)


def test_callbacks_carry_the_batch_and_its_counts(conn: psycopg.Connection) -> None:
    batch_id = batch(conn, headers={"task": "report"}, priority=7, max_attempts=2, lane="slow", cost=3)
    one, two, three = take(conn)
    fail(conn, two)
    assert callbacks(conn) == [(b"failure", {"dead": 1})]
    fail(conn, one)
    assert callbacks(conn) == [(b"failure", {"dead": 1})], "only the first failure is told"
    complete(conn, three)
    assert callbacks(conn) == [(b"failure", {"dead": 1}), (b"complete", {"completed": 1, "dead": 2})]
    row = conn.execute(
        "SELECT headers, priority, max_attempts, lane, cost FROM message WHERE content = 'complete'"
    ).fetchone()
    about = {"id": batch_id, "name": "import", "total": 3, "failed_id": two.id}
    assert row == (
        {"task": "report", "batch": about | {"completed": 1, "dead": 2, "cancelled": 0}},
        *(7, 2, "slow", 3),
    )
    drain(conn)
    assert (callbacks(conn), counts(conn, batch_id)) == ([], {"completed": 1, "dead": 2})


def complete_one(conn: psycopg.Connection, ids: list[int], tokens: list[UUID]) -> None:
    for message_id, token in zip(ids, tokens, strict=True):
        conn.execute("SELECT message_complete(%s, %s)", (message_id, token))


def complete_many(conn: psycopg.Connection, ids: list[int], tokens: list[UUID]) -> None:
    conn.execute("SELECT message_complete_many(%s, %s)", (ids, tokens))


def complete_with_one_token(conn: psycopg.Connection, ids: list[int], tokens: list[UUID]) -> None:
    conn.execute("SELECT message_complete_many(%s, %s)", (ids, tokens[:1]))


def discard(conn: psycopg.Connection, ids: list[int], tokens: list[UUID]) -> None:
    conn.execute("SELECT message_discard_many(%s, %s)", (ids, tokens))


def die(conn: psycopg.Connection, ids: list[int], tokens: list[UUID]) -> None:
    conn.execute(
        "SELECT message_retry_many(%s, %s, p_errors => %s, p_are_final => %s)",
        (ids, tokens, ["bad"] * len(ids), [True] * len(ids)),
    )


def cancel_leased(conn: psycopg.Connection, ids: list[int], tokens: list[UUID]) -> None:
    conn.execute("SELECT message_cancel_many(%s)", (ids,))
    conn.execute("SELECT message_complete_many(%s, %s)", (ids, tokens))


def cancel_and_let_expire(conn: psycopg.Connection, ids: list[int], _tokens: list[UUID]) -> None:
    conn.execute("SELECT message_cancel_many(%s)", (ids,))
    conn.execute("UPDATE lease SET end_at = 1")
    conn.execute("INSERT INTO notice (lease_end_at) VALUES (1)")
    dispatch(conn)


def expire_in_last_attempt(conn: psycopg.Connection, _ids: list[int], _tokens: list[UUID]) -> None:
    conn.execute("UPDATE message SET max_attempts = 1")
    conn.execute("UPDATE lease SET end_at = 1")
    conn.execute("INSERT INTO notice (lease_end_at) VALUES (1)")
    dispatch(conn)


def delete_channel(conn: psycopg.Connection, _ids: list[int], _tokens: list[UUID]) -> None:
    conn.execute("SELECT channel_delete('a', TRUE)")


@pytest.mark.parametrize("with_history", [False, True])
@pytest.mark.parametrize(
    ("finish", "outcome"),
    [
        (complete_one, "completed"),
        (complete_many, "completed"),
        (complete_with_one_token, "completed"),
        (discard, "cancelled"),
        (die, "dead"),
        (cancel_leased, "cancelled"),
        (cancel_and_let_expire, "cancelled"),
        (expire_in_last_attempt, "dead"),
        (delete_channel, "cancelled"),
    ],
)
def test_every_way_to_finish_counts(
    conn: psycopg.Connection, finish: Any, outcome: str, *, with_history: bool
) -> None:
    conn.execute("SELECT queue_set(p_history => %s)", (with_history,))
    one, two = batch(conn, 2), batch(conn, 1)
    deliveries = take(conn)
    finish(conn, [delivery.id for delivery in deliveries], [delivery.token for delivery in deliveries])
    assert counts(conn, one) == {outcome: 2}
    assert counts(conn, two) == {outcome: 1}
    failures = [b"failure"] * 2 if outcome == "dead" else []
    found = sorted(content for content, _ in callbacks(conn))
    assert found == [b"complete"] * 2 + failures
    check(conn)


def test_waiting_messages_that_are_cancelled_count(conn: psycopg.Connection) -> None:
    batch_id = batch(conn, 2)
    ids = [row[0] for row in conn.execute("SELECT id FROM message")]
    conn.execute("SELECT message_cancel(%s)", (ids[0],))
    assert counts(conn, batch_id) == {"waiting": 1, "cancelled": 1}
    conn.execute("SELECT message_cancel(%s)", (ids[1],))
    assert callbacks(conn) == [(b"complete", {"cancelled": 2})]
    check(conn)


def test_a_rollback_takes_the_count_and_the_callback_back(conn: psycopg.Connection) -> None:
    batch_id = batch(conn, 1)
    [delivery] = take(conn)
    with conn.transaction(force_rollback=True):
        complete(conn, delivery)
        assert (counts(conn, batch_id), len(callbacks(conn))) == ({"completed": 1}, 1)
    assert (counts(conn, batch_id), callbacks(conn)) == ({"leased": 1}, [])
    complete(conn, delivery)
    assert callbacks(conn) == [(b"complete", {"completed": 1})]
    check(conn)


def test_retries_do_not_count(conn: psycopg.Connection) -> None:
    batch_id = batch(conn, 1)
    for _ in range(3):
        [delivery] = take(conn)
        query = "SELECT message_retry(%s, %s, p_error => 'again')"
        assert value(conn, query, delivery.id, delivery.token) == "retried"
        assert counts(conn, batch_id) == {"waiting": 1}
    check(conn)


def test_an_open_batch_does_not_finish(conn: psycopg.Connection) -> None:
    batch_id = opened(conn)
    add(conn, batch_id, 2, max_attempts=1)
    one, two = take(conn)
    fail(conn, one)
    complete(conn, two)
    assert callbacks(conn) == [(b"failure", {"dead": 1})]
    assert (status(conn, batch_id)["status"], counts(conn, batch_id)) == ("open", {"completed": 1, "dead": 1})
    add(conn, batch_id)
    complete(conn, next(delivery for delivery in take(conn) if delivery.channel == "a"))
    assert status(conn, batch_id)["finished_at"] is None
    assert close(conn, batch_id) == "closed"
    assert callbacks(conn)[1:] == [(b"complete", {"completed": 2, "dead": 1})]
    check(conn)


def test_an_empty_batch_is_finished_when_it_is_closed(conn: psycopg.Connection) -> None:
    batch_id = batch(conn, 0)
    assert status(conn, batch_id)["status"] == "finished"
    assert callbacks(conn) == [(b"complete", {})]
    assert close(conn, batch_id) == "closed"
    assert len(callbacks(conn)) == 1
    assert close(conn, 10**12) == "not_found"
    check(conn)


def test_a_batch_without_callbacks(conn: psycopg.Connection) -> None:
    batch_id = int(value(conn, "SELECT batch_open('plain')"))
    add(conn, batch_id, 2, max_attempts=1)
    close(conn, batch_id)
    one, two = take(conn)
    fail(conn, one)
    complete(conn, two)
    assert (status(conn, batch_id)["status"], value(conn, "SELECT COUNT(*) FROM message")) == ("finished", 0)
    check(conn)


def test_a_closed_batch_takes_no_more_messages(conn: psycopg.Connection) -> None:
    batch_id = batch(conn)
    other = opened(conn)
    for ids in ([batch_id], [other, batch_id]):
        with pytest.raises(psycopg.Error, match=f"batch {batch_id} is closed") as refusal:
            conn.execute(
                "SELECT message_create_many(%s, %s, p_batch_ids => %s)",
                (["a"] * len(ids), [b""] * len(ids), ids),
            )
        assert refusal.value.sqlstate == "LM018"
    conn.execute("SELECT batch_cancel(%s)", (other,))
    with pytest.raises(psycopg.Error, match=f"batch {other} is cancelled"):
        add(conn, other)
    assert counts(conn, batch_id) == {"waiting": 3}
    check(conn)


def test_duplicates_and_full_channels_add_nothing(conn: psycopg.Connection) -> None:
    batch_id = opened(conn)
    conn.execute("SELECT channel_set('small', p_max_size => 1)")
    rows = conn.execute(
        "SELECT result FROM message_create_many(%s, %s, p_dedupe_keys => %s, p_batch_ids => %s)",
        (["a", "a", "small", "small"], [b""] * 4, ["k", "k", None, None], [batch_id] * 4),
    ).fetchall()
    assert [result for (result,) in rows] == ["created", "duplicate", "created", "full"]
    assert counts(conn, batch_id) == {"waiting": 2}
    check(conn)


def test_callbacks_ignore_the_size_of_their_channel(conn: psycopg.Connection) -> None:
    """The work is done, so its callback cannot be refused."""
    conn.execute("SELECT channel_set('callbacks', p_max_size => 1)")
    conn.execute("SELECT message_create('callbacks', 'fills it')")
    batch(conn, 0)
    assert value(conn, "SELECT COUNT(*) FROM message WHERE channel = 'callbacks'") == 2
    check(conn)


def test_a_dead_message_that_is_retried_is_open_again(conn: psycopg.Connection) -> None:
    """The batch then waits for it. A callback that was created is not created again."""
    batch_id = batch(conn, 2)
    one, two = take(conn)
    fail(conn, one)
    assert value(conn, "SELECT result FROM dead_retry(%s)", [one.id]) == "retried"
    assert counts(conn, batch_id) == {"waiting": 1, "leased": 1}
    complete(conn, two)
    assert status(conn, batch_id)["status"] == "closed"
    again = next(delivery for delivery in take(conn) if delivery.id == one.id)
    fail(conn, again)
    assert [content for content, _ in callbacks(conn)] == [b"failure", b"complete"]
    found = status(conn, batch_id)
    assert (found["status"], found["failed_id"]) == ("finished", one.id)
    conn.execute("SELECT dead_retry(%s)", ([one.id],))
    found = status(conn, batch_id)
    assert (found["status"], found["finished_at"], counts(conn, batch_id)) == (
        *("closed", None),
        {"waiting": 1, "completed": 1},
    )
    complete(conn, next(delivery for delivery in take(conn) if delivery.id == one.id))
    assert (status(conn, batch_id)["status"], counts(conn, batch_id)) == ("finished", {"completed": 2})
    assert [content for content, _ in callbacks(conn)] == [b"failure", b"complete"]
    check(conn)


def test_discarding_a_dead_message_leaves_its_count(conn: psycopg.Connection) -> None:
    batch_id = batch(conn, 1)
    [delivery] = take(conn)
    fail(conn, delivery)
    conn.execute("SELECT dead_discard(%s)", ([delivery.id],))
    assert counts(conn, batch_id) == {"dead": 1}
    check(conn)


def test_chains_of_callbacks(conn: psycopg.Connection) -> None:
    """A callback that belongs to another batch is counted there from the beginning, so that batch waits."""
    outer = opened(conn, "outer")
    inner = batch(conn, 1, batch_id=outer)
    assert counts(conn, outer) == {"waiting": 1}
    assert close(conn, outer) == "closed"
    [delivery] = take(conn)
    complete(conn, delivery)
    assert (status(conn, inner)["status"], status(conn, outer)["status"]) == ("finished", "closed")
    assert value(conn, "SELECT batch_id FROM message") == outer
    check(conn)
    [callback] = take(conn)
    assert counts(conn, outer) == {"leased": 1}
    complete(conn, callback)
    assert status(conn, outer)["status"] == "finished"
    assert value(conn, "SELECT headers -> 'batch' ->> 'name' FROM message") == "outer"
    check(conn)


def test_cancel_drops_the_callbacks_and_cancels_the_messages(conn: psycopg.Connection) -> None:
    batch_id = batch(conn, 5)
    [delivery] = take(conn, 1)
    conn.execute("SELECT message_create('a', 'another')")
    results: list[tuple[Any, ...]] = []
    while not results or results[-1][0] == "more":
        results += conn.execute("SELECT * FROM batch_cancel(%s, 2)", (batch_id,)).fetchall()
    assert results == [("more", 0), ("more", 2), ("more", 2), ("cancelled", 1)]
    assert counts(conn, batch_id) == {"leased": 1, "cancelled": 4}
    check(conn)
    assert value(conn, "SELECT message_complete(%s, %s)", delivery.id, delivery.token) == "cancelled"
    found = status(conn, batch_id)
    assert (found["status"], found["cancelled"], found["finished_at"] is None) == ("cancelled", 5, False)
    assert (callbacks(conn), value(conn, "SELECT COUNT(*) FROM message")) == ([], 1)
    assert conn.execute("SELECT * FROM batch_cancel(%s)", (batch_id,)).fetchall() == [("cancelled", 0)]
    assert conn.execute("SELECT * FROM batch_cancel(10000)").fetchall() == [("not_found", 0)]
    check(conn)


def test_a_message_that_dies_while_its_batch_is_being_cancelled(conn: psycopg.Connection) -> None:
    batch_id = batch(conn, 2)
    [delivery] = take(conn, 1)
    assert conn.execute("SELECT * FROM batch_cancel(%s)", (batch_id,)).fetchall() == [("more", 0)]
    fail(conn, delivery)
    assert conn.execute("SELECT * FROM batch_cancel(%s)", (batch_id,)).fetchall() == [("cancelled", 1)]
    assert counts(conn, batch_id) == {"dead": 1, "cancelled": 1}
    assert callbacks(conn) == []
    check(conn)


def test_a_finished_batch_cannot_be_cancelled(conn: psycopg.Connection) -> None:
    batch_id = batch(conn, 0)
    assert conn.execute("SELECT * FROM batch_cancel(%s)", (batch_id,)).fetchall() == [("finished", 0)]
    assert (status(conn, batch_id)["status"], len(callbacks(conn))) == ("finished", 1)


def test_cancelling_a_batch_frees_the_batch_that_waits_for_its_callback(conn: psycopg.Connection) -> None:
    outer = opened(conn, "outer")
    inner = batch(conn, 1, batch_id=outer)
    close(conn, outer)
    assert value(conn, "SELECT result FROM batch_cancel(%s)", inner) == "more"
    assert (status(conn, outer)["status"], counts(conn, outer)) == ("finished", {"cancelled": 1})
    assert callbacks(conn) == [(b"complete", {"cancelled": 1})]
    assert value(conn, "SELECT result FROM batch_cancel(%s)", inner) == "cancelled"
    assert counts(conn, inner) == {"cancelled": 1}
    check(conn)


def test_cancelling_a_batch_drops_the_callbacks_that_were_to_belong_to_it(conn: psycopg.Connection) -> None:
    outer = opened(conn, "outer")
    inner, called = (batch(conn, 1, name=name, batch_id=outer) for name in ("inner", "called"))
    first, second = take(conn)
    complete(conn, second)
    assert counts(conn, outer) == {"waiting": 2}
    assert conn.execute("SELECT * FROM batch_cancel(%s)", (outer,)).fetchone() == ("more", 0)
    assert counts(conn, outer) == {"waiting": 1, "cancelled": 1}
    assert conn.execute("SELECT * FROM batch_cancel(%s)", (outer,)).fetchone() == ("cancelled", 1)
    assert counts(conn, outer) == {"cancelled": 2}
    assert status(conn, outer)["finished_at"] is not None
    complete(conn, first)
    assert [status(conn, b)["status"] for b in (inner, called)] == ["finished", "finished"]
    assert take(conn) == []
    check(conn)


def test_callbacks_are_created_however_many_lanes_there_are(conn: psycopg.Connection) -> None:
    """Else the message could not be finished, and a dispatch that ends its lease would always fail."""
    clock = FakeClock(conn)
    opened_id = value(
        conn,
        "SELECT batch_open('import', 'callbacks', 'c', %s, 'callbacks', 'f', %s)",
        *['{"lane": "new"}'] * 2,
    )
    add(conn, opened_id, 2, max_attempts=1)
    close(conn, opened_id)
    first, _ = take(conn, lease_ms=1_000)
    conn.execute(
        "SELECT schedule_open('{s}', '{* * * * *}', '{UTC}', '{one}', '{s}', '{s}', %s)",
        ([Jsonb({"lane": "new"})],),
    )
    lanes = [f"lane {n}" for n in range(499)]
    conn.execute("SELECT message_create_many(%s, %s, p_lanes => %s)", (["b"] * 499, [b"work"] * 499, lanes))
    dispatch(conn)
    with pytest.raises(psycopg.Error, match="500 lanes"):
        opened(conn, lane="new")
    with pytest.raises(psycopg.Error, match="500 lanes"):
        conn.execute("SELECT schedule_run('s')")
    complete(conn, first)
    clock.advance(2_000)
    dispatch(conn)
    assert counts(conn, opened_id) == {"completed": 1, "dead": 1}
    assert value(conn, "SELECT COUNT(*) FROM message_list('callbacks')") == 2


def test_an_empty_batch_is_cancelled(conn: psycopg.Connection) -> None:
    batch_id = opened(conn)
    assert conn.execute("SELECT * FROM batch_cancel(%s)", (batch_id,)).fetchall() == [("cancelled", 0)]
    assert status(conn, batch_id)["finished_at"] is not None
    assert callbacks(conn) == []
    check(conn)


def test_a_list_of_batches(conn: psycopg.Connection) -> None:
    finished, closed, other, cancelled = batch(conn, 0), batch(conn, 1), opened(conn, "other"), opened(conn)
    conn.execute("SELECT batch_cancel(%s)", (cancelled,))

    def ids(arguments: str = "") -> list[int]:
        return [row[0] for row in conn.execute(f"SELECT id FROM batch_list({arguments})".encode())]

    assert ids() == [cancelled, other, closed, finished]
    assert ids("p_limit => 2") == [cancelled, other]
    assert ids(f"p_limit => 2, p_after => {other}") == [closed, finished]
    assert ids("'import'") == [cancelled, closed, finished]
    for name, batch_id in (
        ("open", other),
        ("closed", closed),
        ("finished", finished),
        ("cancelled", cancelled),
    ):
        assert ids(f"p_status => '{name}'") == [batch_id]


def test_maintenance_removes_finished_batches(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    kept, finished, removed = opened(conn), batch(conn, 2), opened(conn)
    for batch_id in (removed, removed, removed, kept):  # more calls than one call of maintain deletes rows
        add(conn, batch_id, 1)
    close(conn, removed)
    *done, dead = take(conn, 6)
    for delivery in done:
        complete(conn, delivery)
    fail(conn, dead)
    close(conn, kept)
    clock.advance(WEEK_MS - 1)
    conn.execute("SELECT maintain()")
    assert value(conn, "SELECT COUNT(*) FROM batch") == 3
    conn.execute("SELECT dead_retry(%s)", ([dead.id],))
    reopened = value(conn, "SELECT batch_id FROM message WHERE id = %s", dead.id)
    clock.advance(1)
    for _ in range(6):
        conn.execute("SELECT maintain(2)")
    assert conn.execute("SELECT id FROM batch").fetchall() == [(reopened,)]
    assert {row[0] for row in conn.execute("SELECT batch_id FROM batch_part")} == {reopened}
    assert {reopened} < {kept, finished, removed}
    check(conn)


def test_batches_can_be_kept_for_ever(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    batch(conn, 0)
    conn.execute("SELECT queue_set(p_batch_keep_ms => 0)")
    clock.advance(10 * WEEK_MS)
    conn.execute("SELECT maintain()")
    assert value(conn, "SELECT COUNT(*) FROM batch") == 1
    conn.execute("SELECT queue_set(p_batch_keep_ms => 3600000)")
    conn.execute("SELECT maintain()")
    assert value(conn, "SELECT COUNT(*) FROM batch") == 0


def test_a_message_of_a_batch_that_was_removed(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    batch(conn, 1)
    [delivery] = take(conn)
    fail(conn, delivery)
    clock.advance(WEEK_MS)
    conn.execute("SELECT maintain()")
    assert value(conn, "SELECT COUNT(*) FROM batch") == 0
    conn.execute("SELECT dead_retry(%s)", ([delivery.id],))
    assert [found.id for found in drain(conn) if found.channel == "a"] == [delivery.id]


def test_batches_of_claims(conn: psycopg.Connection) -> None:
    batch_id = batch(conn, 2)
    dispatch(conn)
    generation = value(conn, "SELECT generation FROM claim_open('stream')")
    conn.execute("SELECT claim_next('stream', %s, 0, 10)", (generation,))
    assert counts(conn, batch_id) == {"leased": 2}
    conn.execute("SELECT claim_complete('stream', %s, 1, TRUE)", (generation,))
    assert (counts(conn, batch_id), len(callbacks(conn))) == ({"completed": 2}, 1)
    check(conn)


@pytest.mark.parametrize("with_key", [False, True])
def test_batches_of_staged_rows(conn: psycopg.Connection, *, with_key: bool) -> None:
    batch_id = opened(conn)
    staged = "00000000-0000-0000-0000-000000000001"
    query = (
        "INSERT INTO staging (batch, ord, channel, content, batch_id, dedupe_key)"
        " VALUES (%s, %s, 'a', '', %s, %s)"
    )
    for ord_, owner in enumerate([batch_id, None, batch_id]):
        conn.execute(query, (staged, ord_, owner, "k" if with_key and ord_ == 1 else None))
    conn.execute("SELECT staging_publish(%s)", (staged,))
    assert counts(conn, batch_id) == {"waiting": 2}
    close(conn, batch_id)
    drain(conn)
    assert counts(conn, batch_id) == {"completed": 2}
    for ord_ in (1, 2):
        conn.execute(query, (staged, ord_, batch_id, None))
    with pytest.raises(psycopg.Error, match="is closed"):
        conn.execute("SELECT staging_publish(%s)", (staged,))
    check(conn)


def test_a_rebuild_keeps_batches(conn: psycopg.Connection) -> None:
    batch_id = batch(conn, 2)
    take(conn, 1)
    conn.execute("SELECT rebuild()")
    assert counts(conn, batch_id) == {"waiting": 1, "leased": 1}
    check(conn)


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_batch_in_one_transaction_works_at_every_isolation_level(
    conn: psycopg.Connection, connect: Connect, level: str
) -> None:
    other = connect()
    other.execute(f"SET default_transaction_isolation TO '{level}'")
    with other.transaction():
        batch_id = opened(other)
        add(other, batch_id, 2)
        close(other, batch_id)
    deliveries = take(conn)
    with other.transaction():
        for delivery in deliveries:
            complete(other, delivery)
    assert (counts(conn, batch_id), len(callbacks(conn))) == ({"completed": 2}, 1)
    late = opened(conn)
    for call in ("batch_close", "batch_cancel"):
        with pytest.raises(psycopg.Error, match=level) as refusal:
            other.execute(f"SELECT {call}(%s)", (late,))
        assert refusal.value.sqlstate == "LM009"
    check(conn)


def test_a_bound_login_has_no_batches(conn: psycopg.Connection, connect: Connect) -> None:
    """A batch may have messages of any channel, so its counts are not for a tenant's login."""
    batch_id = batch(conn, 1)
    conn.execute("SELECT credential_bind(current_user::TEXT, ARRAY['a'])")
    bound = connect()
    for call in (
        "batch_open('mine')",
        f"batch_close({batch_id})",
        f"batch_get({batch_id})",
        "batch_list()",
        f"batch_cancel({batch_id})",
        f"message_create('a', '', p_batch_id => {batch_id})",
    ):
        with pytest.raises(psycopg.Error, match="bound to channels") as refusal:
            bound.execute(f"SELECT {call}".encode())
        assert refusal.value.sqlstate == "LM012", call
    assert value(bound, "SELECT result FROM message_create('a', '')") == "created"
