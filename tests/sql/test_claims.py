"""Consuming in numbered claims: a restarted reader continues with its own claims, and with nobody else's."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect, until_waiting
from tests.invariants import check, dequeue, dispatch, drain
from tests.sql.test_dequeue import fill

LEASE = 60_000


class Claim(NamedTuple):
    seq: int
    messages: int


class Reader:
    """Makes claims as "me", or under another name, from one session."""

    def __init__(self, conn: psycopg.Connection, name: str = "me") -> None:
        self.conn = conn
        self.name = name
        self.generation, self.done, self.last = self.ask("claim_open(%s)", name)

    def ask(self, call: str, *arguments: Any) -> tuple[Any, ...]:
        row = self.conn.execute(f"SELECT * FROM {call}".encode(), arguments).fetchone()
        assert row is not None
        return row

    def next(self, seq: int, limit: int = 10, lease_ms: int | None = LEASE) -> Claim:
        return Claim(*self._next(seq, limit, lease_ms)[:2])

    def again_at(self, seq: int, limit: int = 10) -> int | None:
        again_at = self._next(seq, limit, LEASE)[2]
        return None if again_at is None else int(again_at)

    def _next(self, seq: int, limit: int, lease_ms: int | None) -> tuple[Any, ...]:
        return self.ask("claim_next(%s, %s, %s, %s, %s)", self.name, self.generation, seq, limit, lease_ms)

    def extend(self, lease_ms: int | None = LEASE, *, forget: bool = False) -> tuple[Any, ...]:
        return self.ask("claim_extend(%s, %s, %s, %s)", self.name, self.generation, lease_ms, forget)

    def read(self, after: int, upto: int, part: int = 0, parts: int = 1) -> list[tuple[Any, ...]]:
        query = "SELECT * FROM claim_read(%s, %s, %s, %s, %s, %s)"
        return self.conn.execute(query, (self.name, self.generation, after, upto, part, parts)).fetchall()

    def ids(self, after: int, upto: int, part: int = 0, parts: int = 1) -> list[int]:
        return [row[1] for row in self.read(after, upto, part, parts)]

    def complete(self, seq: int, *, whole: bool = False) -> tuple[Any, ...]:
        return self.ask("claim_complete(%s, %s, %s, %s)", self.name, self.generation, seq, whole)[:3]

    def opened(self) -> tuple[Any, ...]:
        """The position that a reader gets that opens the claimant now. This reader is refused from then
        on."""
        return self.ask("claim_open(%s)", self.name)[1:]


@pytest.fixture
def clock(conn: psycopg.Connection) -> FakeClock:
    return FakeClock(conn)


def filled(conn: psycopg.Connection, **channels: int) -> None:
    fill(conn, **channels)
    dispatch(conn)


def leased(conn: psycopg.Connection) -> list[int]:
    return [row[0] for row in conn.execute("SELECT id FROM message_leases(NULL) ORDER BY id")]


def refused(call: Any, *arguments: Any, **keywords: Any) -> str | None:
    with pytest.raises(psycopg.Error) as error:
        call(*arguments, **keywords)
    return error.value.sqlstate


def test_claim_by_claim(conn: psycopg.Connection) -> None:
    conn.execute("SELECT * FROM queue_set(p_history => TRUE)")
    filled(conn, a=3, b=2)
    reader = Reader(conn)
    assert (reader.generation, reader.done, reader.last) == (1, 0, 0)
    assert reader.next(0, 4) == Claim(1, 4)
    assert len(reader.ids(0, 1)) == 4
    assert reader.complete(1) == (4, 0, 0)
    assert reader.next(1, 4) == Claim(2, 1)
    assert reader.complete(2, whole=True) == (1, 0, 0)
    assert reader.next(2, 4) == Claim(2, 0)
    assert reader.complete(2) == (0, 0, 0), "it can be read again"
    assert reader.opened() == (2, 2)
    assert conn.execute("SELECT outcome, consumer, COUNT(*) FROM history GROUP BY 1, 2").fetchall() == [
        ("completed", "me", 5)
    ]
    assert conn.execute("SELECT COUNT(*) FROM claim").fetchone() == (0,)
    check(conn)


def test_the_columns_of_a_row(conn: psycopg.Connection, clock: FakeClock) -> None:
    conn.execute("SELECT message_create('a', 'content', %s, '{\"k\": [1]}', NULL, 'key')", (clock.at - 5,))
    created_at = clock.at
    dispatch(conn)
    [first], _ = dequeue(conn)
    conn.execute("SELECT message_retry(%s, %s, p_state => 'page 7', p_error => 'x')", (first.id, first.token))
    clock.advance(10)
    dispatch(conn)
    reader = Reader(conn)
    reader.next(0)
    assert reader.read(0, 1) == [
        (
            *(1, first.id, "a", b"content", {"k": [1]}, b"page 7", 2, "key"),
            *(created_at, created_at - 5, clock.at, "default", 0, 1),
        )
    ]


def test_a_claim_is_fair(conn: psycopg.Connection) -> None:
    filled(conn, crowd=1000, **{f"c{n}": 5 for n in range(9)})
    reader = Reader(conn)
    reader.next(0, 20)
    channels = [row[2] for row in reader.read(0, 1)]
    assert sorted(set(channels)) == sorted(["crowd", *(f"c{n}" for n in range(9))])
    assert max(channels.count(channel) for channel in channels) == 2


def test_limits_hold(conn: psycopg.Connection) -> None:
    conn.execute("SELECT channel_set('one', p_max_concurrency => 1)")
    conn.execute("SELECT channel_set('paused', p_paused => TRUE)")
    filled(conn, one=5, paused=5, free=2)
    reader = Reader(conn)
    assert reader.next(0) == Claim(1, 3)
    assert reader.next(1) == Claim(1, 0)
    reader.complete(1)
    dispatch(conn)
    assert reader.next(1) == Claim(2, 1)
    check(conn)


def test_more_than_a_dequeue_gives(conn: psycopg.Connection) -> None:
    filled(conn, a=24_000, b=1_500)
    reader = Reader(conn)
    sizes: list[int] = []
    while claim := reader.next(len(sizes), 25_000).messages:
        sizes.append(claim)
        dispatch(conn)
    assert sum(sizes) == 25_500
    last = len(sizes)
    parts = [reader.ids(0, last, part, 3) for part in range(3)]
    assert len({id_ for part in parts for id_ in part}) == sum(map(len, parts)) == 25_500
    assert max(map(len, parts)) - min(map(len, parts)) <= last
    assert reader.extend() == (25_500, 0)
    assert reader.complete(last, whole=True) == (25_500, 0, 0)
    check(conn)


def test_claims_of_so_many_bytes(conn: psycopg.Connection) -> None:
    """In their order, and each as large as possible; a message that is larger than that is alone."""
    sizes = [40, 50, 60, 0, 40, 500, 100, 30, 30, 30, 30] + [1] * 150
    for size in sizes:
        conn.execute("SELECT message_create('a', %s)", (b"x" * size,))
    dispatch(conn)
    reader = Reader(conn)
    claimed: list[list[int]] = []
    seq = 0
    while True:
        call = "claim_next(%s, %s, %s, 100, %s, p_max_bytes => 100)"
        seq, messages, _ = reader.ask(call, reader.name, reader.generation, seq, LEASE)
        if not messages:
            break
        rows = reader.read(seq - 1, seq)
        assert len(rows) == messages
        claimed.append([len(row[3]) for row in rows])
        check(conn)
        reader.complete(seq)
        dispatch(conn)
    assert claimed == [[40, 50], [60, 0, 40], [500], [100], [30] * 3, [30] + [1] * 70, [1] * 80]
    with pytest.raises(psycopg.Error, match="p_max_bytes is 0"):
        reader.ask("claim_next('me', 1, 0, 10, p_max_bytes => 0)")


def test_when_to_ask_again(conn: psycopg.Connection, clock: FakeClock) -> None:
    reader = Reader(conn)
    dispatch(conn)
    assert reader.again_at(0) == clock.at + 1000
    conn.execute("SELECT message_create('a', '', %s)", (clock.at + 500,))
    dispatch(conn)
    assert reader.again_at(0) == clock.at + 500


def test_an_idle_reader_writes_nothing(conn: psycopg.Connection) -> None:
    reader = Reader(conn)
    dispatch(conn)
    with conn.transaction():
        for _ in range(3):
            assert reader.next(0) == Claim(0, 0)
        assert conn.execute("SELECT pg_current_xact_id_if_assigned()").fetchone() == (None,)


def test_what_was_there_at_a_time(conn: psycopg.Connection, clock: FakeClock) -> None:
    """A reader of the present messages finishes although others keep producing, also if newer messages
    are served first."""
    filled(conn, **{f"old{n}": 3 for n in range(30)})
    conn.execute("SELECT message_create('later', '', %s)", (clock.at + 1000,))
    conn.execute("SELECT channel_set('old1', p_paused => TRUE)")
    before = clock.at
    reader = Reader(conn)
    taken: list[str] = []
    for seq in range(100):
        clock.advance(1)
        filled(conn, **{f"new{seq}_{n}": 1 for n in range(10)})
        made = reader.ask("claim_next('me', %s, %s, 10, 60000, %s)", reader.generation, seq, before)
        if made[1] == 0:
            assert made == (seq, 0, None)
            break
        taken += [row[2] for row in reader.read(seq, seq + 1)]
        reader.complete(seq + 1)
    else:
        pytest.fail("it does not come to an end")
    old = [channel for channel in taken if channel.startswith("old")]
    assert sorted(old) == sorted(f"old{n}" for n in range(30) for _ in range(3) if n != 1)
    clock.advance(5000)
    dispatch(conn)
    assert reader.next(seq).messages == 10, "there is more for a reader that gives no time"


def test_messages_that_others_hold_are_asked_for_again(
    connect: Connect, conn: psycopg.Connection, clock: FakeClock
) -> None:
    filled(conn, a=1)
    other = connect(autocommit=False)
    dequeue(other)
    reader = Reader(conn)
    call = "claim_next('me', %s, 0, 10, 60000, %s)"
    seq, messages, again_at = reader.ask(call, reader.generation, clock.at)
    assert (seq, messages) == (0, 0)
    assert again_at is not None, "there may be some"
    other.rollback()
    dispatch(conn)
    assert reader.ask(call, reader.generation, clock.at)[:2] == (1, 1)


def test_a_restarted_reader_continues_with_an_orphaned_claim(
    conn: psycopg.Connection, clock: FakeClock
) -> None:
    """The reader died before it wrote down that the claim exists."""
    filled(conn, a=5)
    first = Reader(conn)
    first.next(0, 3)
    ids = first.ids(0, 1)
    clock.advance(LEASE - 1)
    second = Reader(conn)
    assert (second.generation, second.done, second.last) == (2, 0, 1)
    assert second.next(0, 10) == Claim(1, 3), "the same claim, whatever the limit"
    assert second.ids(0, 1) == ids
    clock.advance(LEASE - 1)
    dispatch(conn)
    assert second.next(0, 10) == Claim(1, 3), "and its leases are extended"
    assert second.complete(1, whole=True) == (3, 0, 0)


def test_an_orphaned_claim_that_ran_out(conn: psycopg.Connection, clock: FakeClock) -> None:
    filled(conn, a=3)
    first = Reader(conn)
    first.next(0)
    clock.advance(LEASE + 1)
    dispatch(conn)
    others, _ = dequeue(conn, 2)
    second = Reader(conn)
    assert second.next(0) == Claim(1, 1), "a new claim with the same number, of the remaining messages"
    assert not set(second.ids(0, 1)) & {message.id for message in others}
    assert second.complete(1, whole=True) == (1, 0, 0)
    check(conn)


def test_an_orphaned_claim_that_was_partly_lost(conn: psycopg.Connection, clock: FakeClock) -> None:
    filled(conn, a=4)
    reader = Reader(conn)
    reader.next(0)
    lost, *left = reader.ids(0, 1)
    query = "SELECT message_extend_many(%s, ARRAY[(SELECT token FROM claim LIMIT 1)], %s)"
    conn.execute(query, (left, 2 * LEASE))
    clock.advance(LEASE)
    dispatch(conn)
    assert leased(conn) == sorted(left)
    assert reader.next(0) == Claim(1, 3)
    assert reader.complete(1, whole=True) == (3, 0, 0)
    assert [message.id for message in drain(conn)] == [lost]


def lose_all(conn: psycopg.Connection, clock: FakeClock) -> None:
    clock.advance(LEASE + 1)
    dispatch(conn)
    assert leased(conn) == []


def test_lost_in_mid_batch(connect: Connect, conn: psycopg.Connection, clock: FakeClock) -> None:
    """With p_whole the whole transaction fails; the next read leaves the lost messages out."""
    conn.execute("CREATE TABLE written (id BIGINT)")
    filled(conn, a=2)
    sink = connect(autocommit=False)
    reader = Reader(sink)
    reader.next(0)
    sink.commit()
    lose_all(conn, clock)
    [stolen], _ = dequeue(conn)
    sink.execute("INSERT INTO written SELECT id FROM message")
    with pytest.raises(psycopg.Error, match="2 messages of claim 1 are no longer held by 'me'") as error:
        reader.complete(1, whole=True)
    assert error.value.sqlstate == "LM016"
    sink.rollback()
    assert conn.execute("SELECT * FROM written").fetchall() == []
    assert conn.execute("SELECT COUNT(*) FROM claim").fetchone() == (2,), "nothing was completed"
    assert reader.read(0, 1) == [], "a message that is not held is not read"
    assert reader.extend(forget=True) == (0, 2)
    assert reader.complete(1, whole=True) == (0, 0, 0)
    sink.commit()
    assert conn.execute("SELECT message_complete(%s, %s)", (stolen.id, stolen.token)).fetchone() == (
        "completed",
    )
    assert reader.next(1) == Claim(2, 1)
    sink.commit()


def test_without_whole_the_lost_are_counted(conn: psycopg.Connection, clock: FakeClock) -> None:
    filled(conn, a=3)
    reader = Reader(conn)
    reader.next(0)
    lose_all(conn, clock)
    dequeue(conn, 1)
    assert reader.complete(1) == (0, 0, 3)
    assert reader.opened() == (1, 1)
    assert len(leased(conn)) == 1, "another's lease is left alone"
    check(conn)


def test_cancelled_messages(conn: psycopg.Connection, clock: FakeClock) -> None:
    conn.execute("SELECT * FROM queue_set(p_history => TRUE)")
    conn.execute("SELECT channel_set('a', p_max_concurrency => 4)")
    filled(conn, a=4)
    reader = Reader(conn)
    reader.next(0)
    first, second, *_ = reader.ids(0, 1)
    assert conn.execute("SELECT message_cancel(%s)", (first,)).fetchone() == ("marked",)
    assert reader.extend() == (3, 1)
    assert reader.extend(forget=True) == (3, 1)
    assert first not in leased(conn), "it is finished at once, and is no longer part of the claim"
    assert reader.extend() == (3, 0)
    conn.execute("SELECT message_cancel(%s)", (second,))
    assert reader.complete(1, whole=True) == (2, 1, 0), "a cancelled message is not lost"
    rows = conn.execute("SELECT outcome, COUNT(*) FROM history GROUP BY 1 ORDER BY 1").fetchall()
    assert rows == [("cancelled", 2), ("completed", 2)]
    check(conn)


def test_a_cancelled_message_in_an_orphaned_claim(conn: psycopg.Connection) -> None:
    filled(conn, a=1)
    reader = Reader(conn)
    reader.next(0)
    conn.execute("SELECT message_cancel(%s)", (reader.ids(0, 1)[0],))
    assert reader.next(0) == Claim(0, 0)
    assert conn.execute("SELECT COUNT(*) FROM message").fetchone() == (0,)
    check(conn)


def test_a_dead_message_is_lost(conn: psycopg.Connection, clock: FakeClock) -> None:
    conn.execute("SELECT message_create('a', '', p_max_attempts => 1)")
    dispatch(conn)
    reader = Reader(conn)
    assert reader.next(0) == Claim(1, 1)
    clock.advance(LEASE + 1)
    dispatch(conn)
    assert conn.execute("SELECT COUNT(*) FROM dead").fetchone() == (1,)
    assert refused(reader.complete, 1, whole=True) == "LM016"
    assert reader.complete(1) == (0, 0, 1)


def test_long_work_keeps_its_leases(conn: psycopg.Connection, clock: FakeClock) -> None:
    filled(conn, a=3)
    reader = Reader(conn)
    reader.next(0, lease_ms=1000)
    for _ in range(5):
        clock.advance(900)
        dispatch(conn)
        assert reader.extend(1000) == (3, 0)
    assert reader.complete(1, whole=True) == (3, 0, 0)


def test_the_queues_lease_is_the_default(conn: psycopg.Connection, clock: FakeClock) -> None:
    conn.execute("SELECT * FROM queue_set(p_lease_ms => 5000)")
    filled(conn, a=1)
    reader = Reader(conn)
    query = "SELECT end_at FROM lease"
    reader.next(0, lease_ms=None)
    assert conn.execute(query).fetchone() == (clock.at + 5000,)
    clock.advance(1000)
    reader.extend(None)
    assert conn.execute(query).fetchone() == (clock.at + 5000,)


def test_a_later_reader_replaces_the_earlier_one(connect: Connect, conn: psycopg.Connection) -> None:
    filled(conn, a=4)
    first = Reader(conn)
    first.next(0, 2)
    ids = first.ids(0, 1)
    second = Reader(connect())
    calls = {
        "next": lambda: first.next(0),
        "extend": first.extend,
        "forget": lambda: first.extend(forget=True),
        "read": lambda: first.read(0, 1),
        "complete": lambda: first.complete(1),
    }
    assert {name: refused(call) for name, call in calls.items()} == dict.fromkeys(calls, "LM014")
    with pytest.raises(psycopg.Error, match="claimant 'me' was opened by another reader since"):
        first.read(0, 1)
    assert second.ids(0, 1) == ids
    assert second.complete(1) == (2, 0, 0)


def test_claimants_with_different_names_are_independent(connect: Connect, conn: psycopg.Connection) -> None:
    filled(conn, a=4)
    mine, yours = Reader(conn), Reader(connect(), "you")
    assert (mine.next(0, 2), yours.next(0, 2)) == (Claim(1, 2), Claim(1, 2))
    assert not set(mine.ids(0, 1)) & set(yours.ids(0, 1))
    assert yours.complete(1) == (2, 0, 0)
    assert mine.extend() == (2, 0)


def test_two_open_at_the_same_time(connect: Connect, conn: psycopg.Connection) -> None:
    first, second = connect(autocommit=False), connect()
    one = Reader(first)
    with ThreadPoolExecutor(1) as thread:
        opening = thread.submit(Reader, second)
        until_waiting(conn, second)
        first.commit()
        two = opening.result(timeout=10)
    assert (one.generation, two.generation) == (1, 2)
    assert refused(one.extend) == "LM014"


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_opened_while_the_other_one_completes(connect: Connect, conn: psycopg.Connection, end: str) -> None:
    """The new reader waits, and then knows the result."""
    filled(conn, a=2)
    first, second = connect(autocommit=False), connect()
    one = Reader(conn)
    one.next(0)
    one.conn = first
    assert one.complete(1, whole=True) == (2, 0, 0)
    with ThreadPoolExecutor(1) as thread:
        opening = thread.submit(Reader, second)
        until_waiting(conn, second)
        first.execute(end.encode())
        two = opening.result(timeout=10)
    assert (two.done, two.last) == (1 if end == "commit" else 0, 1)
    assert two.next(two.done) == (Claim(1, 0) if end == "commit" else Claim(1, 2))


def test_nobody_opens_it_between_the_check_and_what_is_done(
    connect: Connect, conn: psycopg.Connection
) -> None:
    filled(conn, a=2)
    blocker, first, second = connect(autocommit=False), connect(), connect()
    one = Reader(conn)
    one.next(0)
    one.conn = first
    blocker.execute("SELECT FROM message FOR UPDATE")
    with ThreadPoolExecutor(2) as threads:
        completing = threads.submit(one.complete, 1)
        until_waiting(conn, first)
        opening = threads.submit(Reader, second)
        try:
            until_waiting(conn, second)
        finally:
            blocker.rollback()
        assert completing.result(timeout=10) == (2, 0, 0)
        assert opening.result(timeout=10).done == 1


def test_opened_while_the_other_one_claims(connect: Connect, conn: psycopg.Connection) -> None:
    """The new reader continues with that claim."""
    filled(conn, a=2)
    first, second = connect(autocommit=False), connect()
    one = Reader(conn)
    one.conn = first
    one.next(0, 1)
    with ThreadPoolExecutor(1) as thread:
        opening = thread.submit(Reader, second)
        until_waiting(conn, second)
        first.commit()
        two = opening.result(timeout=10)
    assert (two.done, two.last) == (0, 1)
    assert two.next(0) == Claim(1, 1)


def test_while_others_consume(connect: Connect, conn: psycopg.Connection) -> None:
    """Messages that others hold, committed or not, are skipped."""
    filled(conn, a=2, b=2)
    other = connect(autocommit=False)
    [held], _ = dequeue(other, 1)
    reader = Reader(conn)
    assert reader.next(0) == Claim(1, 3)
    assert held.id not in reader.ids(0, 1)
    other.rollback()


def test_extending_while_it_is_completed(connect: Connect, conn: psycopg.Connection) -> None:
    """The heartbeat of a reader whose sink commits at that moment: no deadlock, and nothing is extended."""
    filled(conn, a=50)
    reader = Reader(conn)
    reader.next(0, 100)
    sink, beat = connect(autocommit=False), connect()
    completing, beating = Reader.__new__(Reader), Reader.__new__(Reader)
    for one, connection in ((completing, sink), (beating, beat)):
        one.__dict__.update(reader.__dict__ | {"conn": connection})
    assert completing.complete(1, whole=True) == (50, 0, 0)
    with ThreadPoolExecutor(1) as thread:
        extending = thread.submit(beating.extend)
        until_waiting(conn, beat)
        sink.commit()
        assert extending.result(timeout=10) == (0, 50)
    check(conn)


def test_an_old_position_skips_what_is_done(conn: psycopg.Connection) -> None:
    """A reader without a checkpoint starts at 0, but all claims up to the last were completed long ago."""
    filled(conn, a=5)
    reader = Reader(conn)
    for seq in (1, 2):
        reader.next(seq - 1, 1)
        reader.complete(seq)
    assert reader.next(2, 2) == Claim(3, 2)
    ids = reader.ids(2, 3)
    again = Reader(conn)
    assert again.complete(0) == (0, 0, 0)
    assert again.next(0, 2) == Claim(3, 2), "it continues with the claim that is not complete"
    assert again.ids(0, 3) == ids
    assert again.complete(3) == (2, 0, 0)
    assert Reader(conn).next(0, 2) == Claim(4, 1)


def test_several_claims_at_once(conn: psycopg.Connection, clock: FakeClock) -> None:
    filled(conn, a=6)
    reader = Reader(conn)
    for seq in range(3):
        reader.next(seq, 2)
    assert len(reader.ids(0, 3)) == 6
    assert len(reader.ids(1, 2)) == 2
    assert reader.extend() == (6, 0)
    lose_all(conn, clock)
    assert reader.next(0, 1) == Claim(1, 1), "all are lost, and the first claim is made again"
    assert reader.complete(3) == (1, 0, 0), "the last number stays used"
    check(conn)


def test_a_claim_that_was_never_made_is_refused(conn: psycopg.Connection) -> None:
    """The checkpoint is from another queue, or newer than the restored dump."""
    filled(conn, a=1)
    reader = Reader(conn)
    reader.next(0)
    for seq in (2, -1, None):
        assert refused(reader.next, seq) == "LM015"
        assert refused(reader.complete, seq) == "LM015"
    with pytest.raises(psycopg.Error, match="claim 9 of 'me' was never made"):
        reader.complete(9)


@pytest.mark.parametrize("limit", [None, 0, -1, 100_001])
def test_bad_limits(conn: psycopg.Connection, limit: Any) -> None:
    assert refused(Reader(conn).next, 0, limit) == "LM005"


@pytest.mark.parametrize("lease", [0, -1, 86_400_001])
def test_bad_leases(conn: psycopg.Connection, lease: int) -> None:
    filled(conn, a=1)
    reader = Reader(conn)
    assert refused(reader.next, 0, 1, lease) == "LM004"
    reader.next(0)
    assert refused(reader.next, 0, 1, lease) == "LM004"
    assert refused(reader.extend, lease) == "LM004"


@pytest.mark.parametrize(("part", "parts"), [(None, 1), (0, None), (0, 0), (1, 1), (-1, 1)])
def test_bad_parts(conn: psycopg.Connection, part: Any, parts: Any) -> None:
    assert refused(Reader(conn).read, 0, 0, part, parts) == "LM005"


@pytest.mark.parametrize("name", [None, "", "ä" * 128])
def test_bad_names(conn: psycopg.Connection, name: Any) -> None:
    assert refused(Reader, conn, name) == "LM010"
    assert refused(conn.execute, "SELECT * FROM claim_extend(%s, 1)", (name,)) == "LM014"


def test_nobody_has_opened_it(conn: psycopg.Connection) -> None:
    with pytest.raises(psycopg.Error, match="nobody has opened the claimant 'me'"):
        conn.execute("SELECT * FROM claim_next('me', 1, 0, 1)")
    reader = Reader(conn)
    reader.generation = None
    assert refused(reader.extend) == "LM014"


def test_isolation(connect: Connect, conn: psycopg.Connection) -> None:
    filled(conn, a=1)
    strict = connect(autocommit=False)
    strict.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    reader = Reader(strict)
    assert refused(reader.next, 0) == "LM009"
    strict.rollback()
    reader = Reader(conn)
    reader.next(0)
    reader.conn = strict
    strict.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
    assert reader.complete(1, whole=True) == (1, 0, 0)
    strict.commit()
    assert reader.opened() == (1, 1)


def test_a_claim_that_is_rolled_back_was_not_made(connect: Connect, conn: psycopg.Connection) -> None:
    filled(conn, a=2)
    reader = Reader(conn)
    open_one = connect(autocommit=False)
    reader.conn = open_one
    assert reader.next(0) == Claim(1, 2)
    open_one.rollback()
    dispatch(conn)
    reader.conn = conn
    assert leased(conn) == []
    assert reader.complete(0) == (0, 0, 0)
    assert reader.next(0) == Claim(1, 2)
