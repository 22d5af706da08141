"""A message that makes its reader fail uses up its attempts and dies; the others are done, once."""

from collections import Counter

import psycopg
import pytest

from tests.clock import FakeClock
from tests.invariants import check, dispatch
from tests.sql.test_claims import LEASE, Reader

POISON = b"poison"


class Failed(Exception):
    pass


class Stream:
    """A stream as Spark runs it: the range of a batch is logged before the batch runs, and runs again after a
    restart."""

    def __init__(self, conn: psycopg.Connection, limit: int) -> None:
        self.conn = conn
        self.limit = limit
        self.logged = self.committed = 0
        self.done: list[int] = []
        self.sizes: list[int] = []

    def run(self, most: int = 1_000_000) -> None:
        """Consume until nothing is left, or a batch fails. At most so many batches."""
        reader = Reader(self.conn)
        for _ in range(most):
            if self.logged == self.committed:
                reader.complete(self.committed)
                dispatch(self.conn)
                self.logged = reader.next(self.committed, self.limit).seq
                if self.logged == self.committed:
                    return
            self.process(reader)
            self.committed = self.logged

    def process(self, reader: Reader) -> None:
        reader.ask("claim_begin(%s, %s, %s, %s)", "me", reader.generation, self.logged, LEASE)
        rows = reader.read(self.committed, self.logged)
        self.sizes.append(len(rows))
        if any(row[3] == POISON for row in rows):
            raise Failed
        self.done += [row[1] for row in rows]


@pytest.fixture
def clock(conn: psycopg.Connection) -> FakeClock:
    conn.execute("SELECT * FROM queue_set(p_history => TRUE)")
    return FakeClock(conn)


def create(conn: psycopg.Connection, count: int, poison: int) -> None:
    conn.execute(
        "SELECT message_create_many(array_agg('c' || n %% 7),"
        " array_agg(CASE WHEN n = %s THEN %s::BYTEA ELSE '' END)) FROM generate_series(1, %s) n",
        (poison, POISON, count),
    )


@pytest.mark.parametrize("poison", [1, 501, 1000])
def test_one_poison_message_in_a_thousand(conn: psycopg.Connection, clock: FakeClock, poison: int) -> None:
    create(conn, 1000, poison)
    stream = Stream(conn, 1000)
    restarts = 0
    while len(stream.done) < 999 or conn.execute("SELECT FROM dead").fetchone() is None:
        restarts += 1
        assert restarts <= 10
        try:
            stream.run()
        except Failed:
            clock.advance(1)
    assert len(set(stream.done)) == len(stream.done) == 999
    [(attempts, error, content)] = conn.execute("SELECT attempts, error, content FROM dead").fetchall()
    assert (attempts, content) == (5, POISON)
    assert error == "me failed, or was stopped, while it processed this message alone"
    rows = conn.execute("SELECT outcome, attempts, COUNT(*) FROM history GROUP BY 1, 2 ORDER BY 1").fetchall()
    assert rows == [("completed", 1, 999), ("dead", 5, 1)]
    create(conn, 1000, 0)
    stream.run()
    assert len(stream.done) == 1999
    assert max(stream.sizes[-3:]) >= 100, "claims grow again"
    check(conn)


def test_leases_that_run_out_before_each_restart(conn: psycopg.Connection, clock: FakeClock) -> None:
    """Every lost lease counts as an attempt, as always. Batches get smaller before that kills others."""
    create(conn, 1000, 1)
    stream = Stream(conn, 1000)
    for _ in range(12):
        try:
            stream.run()
        except Failed:
            clock.advance(LEASE + 1)
            dispatch(conn)
    assert len(set(stream.done)) == len(stream.done) == 999
    assert conn.execute("SELECT content FROM dead").fetchall() == [(POISON,)]
    query = "SELECT attempts FROM history WHERE outcome = 'completed' AND attempts > 4"
    assert conn.execute(query).fetchall() == []
    check(conn)


def test_clean_restarts_use_up_no_attempts(conn: psycopg.Connection, clock: FakeClock) -> None:
    """Between batches, or in the middle of a batch of several messages."""
    create(conn, 40, 0)
    stream = Stream(conn, 20)
    for _ in range(10):
        stream.run(1)
    assert (len(stream.done), stream.sizes) == (40, [20, 20])
    create(conn, 40, 0)
    for _ in range(3):
        reader = Reader(conn)
        stream.logged = reader.next(stream.committed, 20).seq
        reader.ask("claim_begin('me', %s, %s, %s)", reader.generation, stream.logged, LEASE)
    stream.run()
    assert len(set(stream.done)) == 80
    counted: Counter[int] = Counter(
        dict(conn.execute("SELECT attempts, COUNT(*) FROM history GROUP BY 1").fetchall())
    )
    assert counted == {1: 80}
    check(conn)


def test_the_first_message_of_a_claim_that_was_cancelled(conn: psycopg.Connection, clock: FakeClock) -> None:
    """It is not dead, and nothing is left of the claim."""
    conn.execute("SELECT message_create('a', 'x', p_max_attempts => 1)")
    dispatch(conn)
    first = Reader(conn)
    first.next(0)
    first.ask("claim_begin('me', 1, 1)")
    conn.execute("SELECT message_cancel(id) FROM message")
    assert Reader(conn).ask("claim_begin('me', 2, 1)") == (0, 1, 0)
    assert conn.execute("SELECT outcome FROM history").fetchall() == [("cancelled",)]
    with pytest.raises(psycopg.Error, match="claim 2 of 'me' was never made"):
        conn.execute("SELECT claim_begin('me', 2, 2)")
    check(conn)


def test_single_messages_fail(conn: psycopg.Connection, clock: FakeClock) -> None:
    """The others are completed in the same call; these come back later, and die after the last attempt."""
    conn.execute("SELECT * FROM queue_set(p_max_attempts => 2)")
    create(conn, 10, 0)
    dispatch(conn)
    reader = Reader(conn)
    complete = "claim_complete('me', 1, %s, TRUE, %s, %s)"
    reader.next(0)
    first, second, third, *_ = reader.ids(0, 1)
    conn.execute("SELECT message_cancel(%s)", (third,))
    failed = [first, second, third, second]
    assert reader.ask(complete, 1, failed, ["x", "y", "z", "y"]) == (7, 1, 0, 2)
    dispatch(conn)
    assert reader.next(1).messages == 0, "not at once"
    clock.advance(1001)
    dispatch(conn)
    assert reader.next(1).messages == 2
    assert reader.ask(complete, 2, [first], ["again"]) == (1, 0, 0, 1)
    assert conn.execute("SELECT id, attempts, error FROM dead").fetchall() == [(first, 2, "again")]
    create(conn, 2, 0)
    dispatch(conn)
    reader.next(2)
    one, other = reader.ids(2, 3)
    clock.advance(LEASE + 1)
    dispatch(conn)
    with pytest.raises(psycopg.Error, match="2 messages of claim 3 are no longer held"):
        reader.ask(complete, 3, [one], ["x"])
    with pytest.raises(psycopg.Error, match="2 messages of claim 3 are no longer held"):
        reader.ask(complete, 3, [one, other], ["x", "y"])
    with pytest.raises(psycopg.Error) as refused:
        reader.ask(complete, 3, [one], [])
    assert refused.value.sqlstate == "LM006"
    reader.next(2)
    assert reader.ask(complete, 3, reader.ids(2, 3), ["x", "y"]) == (0, 0, 0, 2), "all of them"
    check(conn)


def test_claims_after_one_that_lost_all_its_messages(conn: psycopg.Connection, clock: FakeClock) -> None:
    """They are read, although nothing else is due."""
    create(conn, 10, 99)
    dispatch(conn)
    first = Reader(conn)
    first.next(0)
    first.ask("claim_begin('me', 1, 1)")
    second = Reader(conn)
    assert second.ask("claim_begin('me', 2, 1)") == (1, 0, 0), "one claim for each message"
    conn.execute("SELECT message_cancel(id) FROM claim WHERE seq IN (2, 3)")
    second.complete(1)
    dispatch(conn)
    assert second.next(1) == (4, 1)
    assert len(second.ids(1, 4)) == 1
    assert second.complete(10) == (7, 0, 0)
    check(conn)
