"""The history: one row per finished message, followed by snapshot, with one partition per day."""

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import Delivery, check, dequeue, dispatch

DAY = 86_400_000
NOON = 1_700_000_000_000 // DAY * DAY + DAY // 2


@pytest.fixture
def clock(conn: psycopg.Connection) -> FakeClock:
    return FakeClock(conn, NOON)


def switch_on(conn: psycopg.Connection, **settings: object) -> None:
    names = "".join(f", p_{name} => %({name})s" for name in settings)
    conn.execute(f"SELECT * FROM queue_set(p_history => TRUE{names})".encode(), settings)


def create(conn: psycopg.Connection, channel: str = "a", **options: object) -> int:
    names = "".join(f", p_{name} => %({name})s" for name in options)
    query = f"SELECT id FROM message_create(%(channel)s, 'content'{names})"
    row = conn.execute(query.encode(), {"channel": channel} | options).fetchone()
    assert row is not None
    return int(row[0])


def lease(conn: psycopg.Connection, **options: object) -> Delivery:
    create(conn, **options)  # type: ignore[arg-type]
    dispatch(conn)
    [message], _ = dequeue(conn, 1, 1000, "worker")
    return message


def complete(conn: psycopg.Connection, message: Delivery) -> str:
    row = conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token)).fetchone()
    assert row is not None
    return str(row[0])


def fail(conn: psycopg.Connection, message: Delivery, error: str = "broken") -> None:
    conn.execute("SELECT message_retry(%s, %s, p_error => %s)", (message.id, message.token, error))


def cancel(conn: psycopg.Connection, id_: int) -> str:
    row = conn.execute("SELECT message_cancel(%s)", (id_,)).fetchone()
    assert row is not None
    return str(row[0])


def finish_one(conn: psycopg.Connection) -> int:
    message = lease(conn)
    assert complete(conn, message) == "completed"
    return message.id


def ends(conn: psycopg.Connection) -> list[tuple[Any, ...]]:
    return conn.execute("SELECT id, outcome FROM history ORDER BY id, xid").fetchall()


def partitions(conn: psycopg.Connection) -> list[str]:
    rows = conn.execute(
        "SELECT inhrelid::REGCLASS::TEXT FROM pg_inherits WHERE inhparent = 'finished'::REGCLASS ORDER BY 1"
    )
    return [str(row[0]) for row in rows]


def name_of(at: int) -> str:
    """The name of a day's partition."""
    return f"finished_{datetime.fromtimestamp(at / 1000, UTC):%Y%m%d}"


def maintain(conn: psycopg.Connection) -> None:
    """It must not wait, whoever holds locks."""
    with conn.transaction():
        conn.execute("SET LOCAL statement_timeout TO '5s'")
        conn.execute("SELECT maintain()")


def complete_leased(conn: psycopg.Connection, _clock: FakeClock) -> int:
    return finish_one(conn)


def complete_many(conn: psycopg.Connection, _clock: FakeClock) -> int:
    message = lease(conn)
    query = "SELECT result FROM message_complete_many(%s, %s)"
    # The second mention finds nothing and writes nothing.
    rows = conn.execute(query, ([message.id] * 2, [message.token] * 2)).fetchall()
    assert rows == [("completed",), ("not_found",)]
    return message.id


def die_of_an_error(conn: psycopg.Connection, _clock: FakeClock) -> int:
    message = lease(conn, max_attempts=1)
    fail(conn, message)
    return message.id


def die_in_a_sweep(conn: psycopg.Connection, clock: FakeClock) -> int:
    message = lease(conn, max_attempts=1)
    clock.advance(1001)
    dispatch(conn)
    return message.id


def cancel_waiting(conn: psycopg.Connection, _clock: FakeClock) -> int:
    id_ = create(conn)
    assert cancel(conn, id_) == "cancelled"
    assert cancel(conn, id_) == "not_found"
    return id_


def _marked(conn: psycopg.Connection, **options: object) -> Delivery:
    message = lease(conn, **options)
    assert cancel(conn, message.id) == "marked"
    return message


def cancel_and_complete(conn: psycopg.Connection, _clock: FakeClock) -> int:
    message = _marked(conn)
    assert complete(conn, message) == "cancelled"
    return message.id


def cancel_and_complete_many(conn: psycopg.Connection, _clock: FakeClock) -> int:
    message = _marked(conn)
    query = "SELECT result FROM message_complete_many(%s, %s)"
    assert conn.execute(query, ([message.id], [message.token])).fetchall() == [("cancelled",)]
    return message.id


def cancel_and_retry(conn: psycopg.Connection, _clock: FakeClock) -> int:
    message = _marked(conn, max_attempts=1)
    fail(conn, message)
    return message.id


def cancel_and_sweep(conn: psycopg.Connection, clock: FakeClock) -> int:
    message = _marked(conn, max_attempts=1)
    clock.advance(1001)
    dispatch(conn)
    return message.id


def delete_waiting(conn: psycopg.Connection, _clock: FakeClock) -> int:
    id_ = create(conn)
    conn.execute("SELECT * FROM channel_delete('a', TRUE)")
    return id_


def delete_leased(conn: psycopg.Connection, _clock: FakeClock) -> int:
    message = lease(conn)
    conn.execute("SELECT * FROM channel_delete('a', TRUE)")
    return message.id


END: dict[Callable[[psycopg.Connection, FakeClock], int], str] = {
    complete_leased: "completed",
    complete_many: "completed",
    die_of_an_error: "dead",
    die_in_a_sweep: "dead",
    cancel_waiting: "cancelled",
    cancel_and_complete: "cancelled",
    cancel_and_complete_many: "cancelled",
    cancel_and_retry: "cancelled",
    cancel_and_sweep: "cancelled",
    delete_waiting: "cancelled",
    delete_leased: "cancelled",
}


@pytest.mark.parametrize("end", END)
def test_one_row_for_every_end(
    conn: psycopg.Connection, clock: FakeClock, end: Callable[[psycopg.Connection, FakeClock], int]
) -> None:
    switch_on(conn)
    id_ = end(conn, clock)
    assert ends(conn) == [(id_, END[end])]
    assert conn.execute("SELECT finished_at FROM history").fetchall() == [(clock.at,)]
    assert conn.execute("SELECT COUNT(*) FROM message").fetchone() == (0,)
    check(conn)


@pytest.mark.parametrize("end", END)
def test_off_by_default_nothing_is_written(
    conn: psycopg.Connection, clock: FakeClock, end: Callable[[psycopg.Connection, FakeClock], int]
) -> None:
    end(conn, clock)
    maintain(conn)
    assert ends(conn) == []
    assert partitions(conn) == ["finished_other"]


def test_a_returned_message_writes_no_row(conn: psycopg.Connection, clock: FakeClock) -> None:
    switch_on(conn)
    fail(conn, lease(conn))
    lease(conn)
    clock.advance(1001)
    dispatch(conn)
    assert ends(conn) == []


def test_a_batch_writes_one_row_per_message(conn: psycopg.Connection, clock: FakeClock) -> None:
    switch_on(conn)
    messages = [lease(conn, max_attempts=1) for _ in range(5)]
    cancel(conn, messages[1].id)
    tokens = [m.token for m in messages]
    conn.execute("SELECT * FROM message_complete_many(%s, %s)", ([m.id for m in messages[:2]], tokens[:2]))
    conn.execute(
        "SELECT * FROM message_retry_many(%s, %s, p_errors => ARRAY['broken', NULL, 'broken'])",
        ([m.id for m in messages[2:]], tokens[2:]),
    )
    expected = ["completed", "cancelled", "dead", "dead"]
    assert ends(conn) == list(zip((m.id for m in messages if m is not messages[3]), expected, strict=True))
    check(conn)


def test_each_life_has_its_end(conn: psycopg.Connection, clock: FakeClock) -> None:
    """A dead message that is retried can die again, and be completed later."""
    switch_on(conn)
    id_ = die_of_an_error(conn, clock)
    for error in ("again", None):
        conn.execute("SELECT * FROM dead_retry(%s)", ([id_],))
        dispatch(conn)
        [message], _ = dequeue(conn)
        if error is None:
            complete(conn, message)
        else:
            fail(conn, message, error)
    assert [row[1] for row in ends(conn)] == ["dead", "dead", "completed"]
    assert conn.execute("SELECT error FROM history WHERE outcome = 'dead' ORDER BY xid").fetchall() == [
        ("broken",),
        ("again",),
    ]


def test_a_rolled_back_finish_writes_no_row(connect: Connect, conn: psycopg.Connection) -> None:
    switch_on(conn)
    message = lease(conn)
    other = connect(autocommit=False)
    assert complete(other, message) == "completed"
    other.rollback()
    assert ends(conn) == []
    assert complete(conn, message) == "completed"
    assert ends(conn) == [(message.id, "completed")]


def test_the_columns_of_a_row(conn: psycopg.Connection, clock: FakeClock) -> None:
    """Delivered three times: it fails, its lease runs out, it is completed."""
    switch_on(conn)
    created_at = clock.at
    clock.advance(10)
    first = lease(conn, headers='{"a": 1}', dequeue_at=created_at, dedupe_key="key")
    first_at = clock.at
    fail(conn, first, "no route to host")
    clock.advance(10)
    dispatch(conn)
    dequeue(conn, 1, 1000, "second worker")
    clock.advance(1001)
    dispatch(conn)
    [last], _ = dequeue(conn, 1, 1000, "last worker")
    last_at = clock.at
    clock.advance(10)
    complete(conn, last)
    row = conn.execute(
        "SELECT channel, created_at, dequeue_at, first_dequeued_at, dequeued_at, finished_at, attempts,"
        " consumer, error, dedupe_key, headers, content_bytes, content, xid::TEXT::BIGINT > 0 FROM history"
    ).fetchone()
    assert row == (
        "a",
        created_at + 10,
        created_at,
        first_at,
        last_at,
        clock.at,
        3,
        "last worker",
        "the lease ran out",
        "key",
        {"a": 1},
        len(b"content"),
        None,
        True,
    )


def runs(conn: psycopg.Connection) -> list[Any]:
    return conn.execute("SELECT outcome, past_runs FROM history ORDER BY xid").fetchall()


def test_runs_before_the_last_are_kept(conn: psycopg.Connection, clock: FakeClock) -> None:
    """Whatever ends a run: an error, a release, or a lease that ran out. A message that is rescheduled while
    it waits has no run, and one that was dead begins again.
    """
    switch_on(conn)
    began = clock.at
    first = lease(conn, dequeue_at=began - 5, max_attempts=3)
    clock.advance(10)
    conn.execute("SELECT message_retry(%s, %s, %s)", (first.id, first.token, began + 100))
    conn.execute("SELECT message_reschedule(%s, %s)", (first.id, began + 50))
    clock.advance(50)
    dispatch(conn)
    [second], _ = dequeue(conn, 1, 1000)
    clock.advance(10)
    fail(conn, second)
    dispatch(conn)
    assert len(dequeue(conn, 1, 1000)[0]) == 1
    clock.advance(1001)
    dispatch(conn)
    past = [
        began - 5,
        began,
        began + 10,
        began + 50,
        began + 60,
        began + 70,
        began + 50,
        began + 70,
        clock.at,
    ]
    [last], _ = dequeue(conn, 1, 1000)
    fail(conn, last)
    assert runs(conn) == [("dead", past)]
    conn.execute("SELECT * FROM dead_retry(%s)", ([first.id],))
    dispatch(conn)
    [again], _ = dequeue(conn, 1, 1000)
    complete(conn, again)
    assert runs(conn) == [("dead", past), ("completed", None)]
    check(conn)


def test_the_first_run_and_the_newest_99_are_kept(conn: psycopg.Connection, clock: FakeClock) -> None:
    switch_on(conn)
    id_ = create(conn)
    for _ in range(103):
        dispatch(conn)
        [message], _ = dequeue(conn)
        clock.advance(1)
        conn.execute("SELECT message_retry(%s, %s)", (message.id, message.token))
    cancel(conn, id_)
    [(_, past)] = runs(conn)
    began = clock.at - 103
    assert past[1::3] == [began, *range(began + 4, clock.at)]
    assert past[2::3] == [began + 1, *range(began + 5, clock.at + 1)]


def test_without_a_history_no_runs_are_kept(conn: psycopg.Connection, clock: FakeClock) -> None:
    fail(conn, lease(conn))
    assert conn.execute("SELECT past_runs FROM message").fetchall() == [(None,)]
    switch_on(conn)
    dispatch(conn)
    [message], _ = dequeue(conn)
    clock.advance(5)
    fail(conn, message)
    conn.execute("SELECT * FROM queue_set(p_history => FALSE)")
    dispatch(conn)
    [message], _ = dequeue(conn)
    fail(conn, message)
    past = [clock.at - 5] * 2 + [clock.at]
    assert conn.execute("SELECT past_runs FROM message").fetchall() == [(past,)]


def test_the_columns_after_one_delivery_and_without_any(conn: psycopg.Connection, clock: FakeClock) -> None:
    switch_on(conn)
    cancel_waiting(conn, clock)
    finish_one(conn)
    query = "SELECT first_dequeued_at, dequeued_at, attempts, consumer, error FROM history ORDER BY id"
    assert conn.execute(query).fetchall() == [
        (None, None, 0, None, None),
        (clock.at, clock.at, 1, "worker", None),
    ]


def test_the_columns_of_a_dead_message(conn: psycopg.Connection, clock: FakeClock) -> None:
    switch_on(conn)
    die_of_an_error(conn, clock)
    die_in_a_sweep(conn, clock)
    query = "SELECT attempts, error FROM history ORDER BY id"
    assert conn.execute(query).fetchall() == [(1, "broken"), (1, "the lease ran out")]


def test_the_content_is_kept_only_on_request(conn: psycopg.Connection, clock: FakeClock) -> None:
    switch_on(conn, history_content=True)
    finish_one(conn)
    conn.execute("SELECT * FROM queue_set(p_history_content => FALSE)")
    finish_one(conn)
    query = "SELECT content, content_bytes FROM history ORDER BY id"
    assert conn.execute(query).fetchall() == [(b"content", 7), (None, 7)]


def test_switching_it_off_keeps_existing_rows(conn: psycopg.Connection, clock: FakeClock) -> None:
    switch_on(conn)
    kept = finish_one(conn)
    conn.execute("SELECT * FROM queue_set(p_history => FALSE)")
    finish_one(conn)
    assert ends(conn) == [(kept, "completed")]


class Follower:
    """Reads each row once: the rows that its last snapshot did not see and the current one does."""

    def __init__(self, conn: psycopg.Connection) -> None:
        self._conn = conn
        self._seen = str(conn.execute("SELECT pg_current_snapshot()").fetchall()[0][0])
        self.taken: list[int] = []

    def read(self) -> None:
        rows = self._conn.execute(
            """
            WITH now AS MATERIALIZED (SELECT pg_current_snapshot() AS snapshot)
            SELECT now.snapshot::TEXT, h.id
            FROM now LEFT JOIN LATERAL (
                SELECT h.id FROM history h
                WHERE h.xid >= pg_snapshot_xmin(%(seen)s::PG_SNAPSHOT)
                    AND NOT pg_visible_in_snapshot(h.xid, %(seen)s::PG_SNAPSHOT)
                    AND pg_visible_in_snapshot(h.xid, now.snapshot)) h ON TRUE""",
            {"seen": self._seen},
        ).fetchall()
        self._seen = rows[0][0]
        self.taken += [id_ for _, id_ in rows if id_ is not None]


class Naive:
    """Remembers the highest value that it has seen of a rising column."""

    def __init__(self, conn: psycopg.Connection, column: str) -> None:
        self._conn = conn
        self._query = f"SELECT id, {column} FROM history WHERE {column} > %s ORDER BY {column}"
        self._last = 0
        self.taken: list[int] = []

    def read(self) -> None:
        rows = self._conn.execute(self._query.encode(), (self._last,)).fetchall()
        self._last = rows[-1][1] if rows else self._last
        self.taken += [row[0] for row in rows]


@pytest.mark.parametrize("column", ["id", "finished_at"])
def test_a_row_that_commits_late_is_not_missed(connect: Connect, clock: FakeClock, column: str) -> None:
    """A reader that goes by id or by time misses such a row: that is why rows have an xid."""
    conn, late = connect(), connect(autocommit=False)
    switch_on(conn)
    first, second = lease(conn), lease(conn)
    follower, naive = Follower(conn), Naive(conn, column)
    complete(late, first)
    clock.advance(1)
    complete(conn, second)
    for _ in range(2):
        follower.read()
        naive.read()
    assert follower.taken == naive.taken == [second.id]
    late.commit()
    for _ in range(2):
        follower.read()
        naive.read()
    assert follower.taken == [second.id, first.id]
    assert naive.taken == [second.id]


@pytest.mark.parametrize("seed", range(8))
def test_a_follower_takes_each_row_once(connect: Connect, seed: int) -> None:
    """Writers start and finish in any order; some roll back to a savepoint; one stays open until the end."""
    chance = random.Random(seed)
    conn = connect()
    switch_on(conn)
    writers = [connect(autocommit=False) for _ in range(5)]
    open_ids: dict[int, list[int]] = {n: [] for n in range(len(writers))}
    messages = [lease(conn) for _ in range(60)]
    followers = [Follower(conn), Follower(connect())]
    committed: list[int] = []
    first = messages.pop()
    complete(writers[0], first)
    while messages:
        n = chance.randrange(1, len(writers))
        what = chance.choice(("write", "write", "savepoint", "commit", "rollback", "read"))
        if what in {"write", "savepoint"}:
            _write(writers[n], messages.pop(), open_ids[n], is_kept=what == "write")
        elif what == "read":
            chance.choice(followers).read()
        else:
            writers[n].execute(what.encode())
            committed += open_ids[n] if what == "commit" else []
            open_ids[n] = []
    for n, writer in enumerate(writers):
        writer.commit()
        committed += open_ids[n]
        chance.choice(followers).read()
    for follower in followers:
        follower.read()
        follower.read()
        assert sorted(follower.taken) == sorted([*committed, first.id])
    assert sorted(row[0] for row in ends(conn)) == sorted([*committed, first.id])


def _write(writer: psycopg.Connection, message: Delivery, written: list[int], *, is_kept: bool) -> None:
    writer.execute("SAVEPOINT s")
    complete(writer, message)
    writer.execute("RELEASE s" if is_kept else "ROLLBACK TO s")
    written += [message.id] if is_kept else []


def test_partitions_are_made_ahead(conn: psycopg.Connection, clock: FakeClock) -> None:
    switch_on(conn)
    assert partitions(conn) == [*(name_of(clock.at + n * DAY) for n in range(8)), "finished_other"]
    clock.advance(3 * DAY)
    maintain(conn)
    assert partitions(conn) == [*(name_of(NOON + n * DAY) for n in range(11)), "finished_other"]
    before = finish_one(conn)
    rows = conn.execute("SELECT tableoid::REGCLASS::TEXT, id FROM finished").fetchall()
    assert rows == [(name_of(clock.at), before)]


def test_the_first_and_last_moment_of_a_day(conn: psycopg.Connection, clock: FakeClock) -> None:
    switch_on(conn)
    midnight = NOON - DAY // 2 + DAY
    for at in (midnight - 1, midnight):
        clock.set(at)
        finish_one(conn)
    rows = conn.execute("SELECT finished_at, tableoid::REGCLASS::TEXT FROM finished ORDER BY 1").fetchall()
    assert rows == [(midnight - 1, name_of(NOON)), (midnight, name_of(NOON + DAY))]


def test_a_row_without_a_partition_is_kept_all_the_same(conn: psycopg.Connection, clock: FakeClock) -> None:
    """Nobody called maintain for a month. A day that began without a partition stays so; later days get
    theirs."""
    switch_on(conn)
    clock.advance(30 * DAY)
    ids = [finish_one(conn)]
    for _ in range(2):
        maintain(conn)
        assert name_of(clock.at) not in partitions(conn)
        assert {name_of(clock.at + n * DAY) for n in range(1, 8)} <= set(partitions(conn))
        ids.append(finish_one(conn))
    clock.advance(DAY)
    ids.append(finish_one(conn))
    rows = conn.execute("SELECT id, tableoid::REGCLASS::TEXT FROM finished ORDER BY id").fetchall()
    expected = ["finished_other"] * 3 + [name_of(clock.at)]
    assert rows == list(zip(ids, expected, strict=True))


def test_retention_drops_whole_days_and_only_those(conn: psycopg.Connection, clock: FakeClock) -> None:
    switch_on(conn, history_keep_ms=2 * DAY)
    ids: list[int] = []
    for _ in range(6):
        ids.append(finish_one(conn))
        clock.advance(DAY)
        conn.execute("SELECT history_prepare(clock_ms())")
    # At noon, rows of two days ago are too old, but their day as a whole is not yet.
    maintain(conn)
    assert [row[0] for row in ends(conn)] == ids[4:]
    assert partitions(conn)[0] == name_of(NOON + 4 * DAY)
    clock.advance(DAY // 2 - 1)
    maintain(conn)
    assert [row[0] for row in ends(conn)] == ids[4:]
    clock.advance(1)
    maintain(conn)
    assert [row[0] for row in ends(conn)] == ids[5:]


def test_retention_of_what_has_no_partition(conn: psycopg.Connection, clock: FakeClock) -> None:
    switch_on(conn, history_keep_ms=2 * DAY)
    clock.advance(30 * DAY)
    finish_one(conn)
    clock.advance(DAY)
    maintain(conn)
    assert len(ends(conn)) == 1
    clock.advance(DAY + 1)
    maintain(conn)
    assert ends(conn) == []


def test_kept_for_ever(conn: psycopg.Connection, clock: FakeClock) -> None:
    switch_on(conn, history_keep_ms=0)
    finish_one(conn)
    clock.advance(10_000 * DAY)
    finish_one(conn)
    maintain(conn)
    assert len(ends(conn)) == 2


def test_old_days_are_dropped_even_when_the_history_is_off(
    conn: psycopg.Connection, clock: FakeClock
) -> None:
    switch_on(conn, history_keep_ms=2 * DAY)
    finish_one(conn)
    conn.execute("SELECT * FROM queue_set(p_history => FALSE)")
    clock.advance(20 * DAY)
    maintain(conn)
    assert ends(conn) == []
    assert partitions(conn) == ["finished_other"]


def old_day(conn: psycopg.Connection, clock: FakeClock) -> str:
    """A partition with a row that is too old."""
    switch_on(conn, history_keep_ms=2 * DAY)
    finish_one(conn)
    name = name_of(clock.at)
    clock.advance(4 * DAY)
    conn.execute("SELECT history_prepare(clock_ms())")
    return name


def test_an_open_reader_of_an_old_day(connect: Connect, conn: psycopg.Connection, clock: FakeClock) -> None:
    """It can go on reading; maintain skips the day and drops it later."""
    name = old_day(conn, clock)
    reader = connect(autocommit=False)
    query = f"SELECT COUNT(*) FROM {name}".encode()
    assert reader.execute(query).fetchone() == (1,)
    maintain(conn)
    assert reader.execute(query).fetchone() == (1,)
    finish_one(conn)
    reader.rollback()
    maintain(conn)
    assert name not in partitions(conn)


def test_an_open_reader_of_all_days(connect: Connect, conn: psycopg.Connection, clock: FakeClock) -> None:
    """While it reads, no days are dropped or created; the queue works."""
    name = old_day(conn, clock)
    clock.advance(DAY)
    reader = connect(autocommit=False)
    query = "SELECT COUNT(*) FROM history"
    assert reader.execute(query).fetchone() == (1,)
    before = partitions(conn)
    maintain(conn)
    assert partitions(conn) == before
    finish_one(conn)
    assert reader.execute(query).fetchone() == (2,)
    reader.rollback()
    maintain(conn)
    assert name not in partitions(conn)
    assert name_of(clock.at + 7 * DAY) in partitions(conn)


def test_an_open_finisher(connect: Connect, conn: psycopg.Connection, clock: FakeClock) -> None:
    """The old day is emptied at once, and dropped when the finishing transaction has ended."""
    name = old_day(conn, clock)
    message, other = lease(conn), lease(conn)
    finisher = connect(autocommit=False)
    complete(finisher, message)
    maintain(conn)
    assert ends(conn) == []
    assert complete(finisher, other) == "completed"
    finisher.commit()
    assert [row[0] for row in ends(conn)] == [message.id, other.id]
    maintain(conn)
    assert name not in partitions(conn)
    assert len(ends(conn)) == 2


def test_an_open_producer(connect: Connect, conn: psycopg.Connection, clock: FakeClock) -> None:
    name = old_day(conn, clock)
    producer = connect(autocommit=False)
    create(producer)
    maintain(conn)
    assert name not in partitions(conn)
    create(producer)
    producer.commit()
    assert conn.execute("SELECT COUNT(*) FROM message").fetchone() == (2,)


def test_new_days_are_made_beside_an_open_finisher(
    connect: Connect, conn: psycopg.Connection, clock: FakeClock
) -> None:
    switch_on(conn)
    finisher = connect(autocommit=False)
    complete(finisher, lease(conn))
    clock.advance(DAY)
    maintain(conn)
    assert name_of(clock.at + 7 * DAY) in partitions(conn)
    finisher.commit()
    assert len(ends(conn)) == 1


def test_an_open_finisher_of_a_day_without_a_partition(
    connect: Connect, conn: psycopg.Connection, clock: FakeClock
) -> None:
    switch_on(conn)
    clock.advance(30 * DAY)
    message = lease(conn)
    finisher = connect(autocommit=False)
    complete(finisher, message)
    maintain(conn)
    finisher.commit()
    maintain(conn)
    assert ends(conn) == [(message.id, "completed")]
    assert name_of(clock.at + DAY) in partitions(conn)


@pytest.mark.parametrize(("is_on", "commits"), [(True, "on"), (False, "off")])
def test_how_a_dequeue_commits(conn: psycopg.Connection, *, is_on: bool, commits: str) -> None:
    """The history records who had a message and when: a crash must not undo that."""
    conn.execute("SELECT * FROM queue_set(p_history => %s)", (is_on,))
    create(conn)
    dispatch(conn)
    with conn.transaction():
        conn.execute("SET LOCAL synchronous_commit = off")
        assert len(dequeue(conn)[0]) == 1
        assert conn.execute("SHOW synchronous_commit").fetchone() == (commits,)
