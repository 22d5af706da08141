"""message_dequeue: order, shares, leases, and the answer to a consumer that got less than it asked for."""

from collections import Counter
from itertools import combinations

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import audit, check, dequeue, dispatch, drain


def fill(conn: psycopg.Connection, **channels: int) -> None:
    for channel, count in channels.items():
        conn.execute(
            "SELECT message_create_many(array_fill(%s::TEXT, ARRAY[%s]), array_fill(''::BYTEA, ARRAY[%s]))",
            (channel, count, count),
        )
    dispatch(conn)


def test_channels_take_turns(conn: psycopg.Connection) -> None:
    """Invariant 12, also within one millisecond: the clock does not move."""
    FakeClock(conn)
    fill(conn, noisy=100, quiet=5, other=5)
    served = [dequeue(conn)[0][0].channel for _ in range(15)]
    assert Counter(served) == {"noisy": 5, "quiet": 5, "other": 5}
    assert all(len(set(served[n : n + 3])) == 3 for n in range(0, 15, 3))


def test_a_batch_is_shared_and_leftovers_go_to_those_that_have_more(conn: psycopg.Connection) -> None:
    """Invariants 12 and 13: never fewer than asked for while more is due, and never more."""
    fill(conn, noisy=100, quiet=2, other=7)
    messages, again_at = dequeue(conn, 20)
    assert Counter(message.channel for message in messages) == {"noisy": 11, "quiet": 2, "other": 7}
    assert again_at is None
    assert {message.channel for message in messages[:3]} == {"noisy", "quiet", "other"}


def test_more_channels_than_asked_for_get_one_each(conn: psycopg.Connection) -> None:
    fill(conn, **{f"c{n}": 3 for n in range(10)})
    turns = [[message.channel for message in dequeue(conn, 4)[0]] for _ in range(5)]
    assert [len(set(turn)) for turn in turns] == [4] * 5
    assert set(Counter(channel for turn in turns for channel in turn).values()) == {2}


def test_a_channel_is_served_in_order(conn: psycopg.Connection) -> None:
    """Invariant 11."""
    fill(conn, a=30, b=10)
    served = [message for _ in range(8) for message in dequeue(conn, 5)[0]]
    for channel in "ab":
        ids = [message.id for message in served if message.channel == channel]
        assert ids == sorted(ids)
    assert len(served) == 40


def test_nothing_jumps_another_tenants_turn(conn: psycopg.Connection) -> None:
    """Urgency orders a channel, not the queue: an urgent message waits until its channel's turn comes."""
    FakeClock(conn)
    fill(conn, a=10, b=10, c=10)
    [first], _ = dequeue(conn)
    for n in range(5):
        conn.execute("SELECT message_create(%s, 'urgent', %s)", (first.channel, -1 - n))
        dispatch(conn)
    served = [dequeue(conn)[0][0] for _ in range(5)]
    turn = [message.channel for message in served].index(first.channel)
    assert {message.channel for message in served[:turn]} == set("abc") - {first.channel}
    assert served[turn].content == b"urgent"
    assert max(Counter(message.channel for message in served).values()) == 2, "invariant 21"


def test_weights_and_costs_divide_what_is_served(conn: psycopg.Connection) -> None:
    """Invariant 21: served cost divided by weight advances together."""
    FakeClock(conn)
    weights = {"half": 0.5, "one": 1, "three": 3}
    for channel, weight in weights.items():
        conn.execute("SELECT channel_set(%s, p_weight => %s::NUMERIC)", (channel, weight))
    costs = {"half": 1, "one": 1, "three": 1, "dear": 4}
    for channel, cost in costs.items():
        conn.execute(
            "SELECT message_create_many(array_fill(%s::TEXT, ARRAY[400]), array_fill(''::BYTEA, ARRAY[400]),"
            " p_costs => array_fill(%s, ARRAY[400]))",
            (channel, cost),
        )
    served: Counter[str] = Counter()
    for _ in range(190):
        dispatch(conn)
        served.update(message.channel for message in dequeue(conn, 3)[0])
        steps = {channel: cost / weights.get(channel, 1) for channel, cost in costs.items()}
        for (one, step), (other, other_step) in combinations(steps.items(), 2):
            apart = abs(served[one] * step - served[other] * other_step)
            assert apart <= step + other_step + 3 * max(costs.values()), f"invariant 21: {served}"
    assert served["three"] > 300
    check(conn)


def test_the_lease_and_its_token(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    fill(conn, a=3)
    messages, _ = dequeue(conn, 2, 5000, "worker 7")
    [other], _ = dequeue(conn, 1, 1)
    assert {message.lease_end_at for message in messages} == {clock.at + 5000}
    assert other.token not in {message.token for message in messages}
    consumers = conn.execute("SELECT consumer, cardinality(stubs) FROM lease ORDER BY 1").fetchall()
    assert consumers == [("worker 7", 2), (None, 1)]


def test_a_lease_that_ran_out_comes_back_to_its_place(conn: psycopg.Connection) -> None:
    """Invariants 1, 11 and 14: same dequeue_at, one attempt used up; an urgent message stays urgent."""
    clock = FakeClock(conn)
    conn.execute("SELECT message_create('a', 'urgent', -9)")
    fill(conn, a=2)
    [first], _ = dequeue(conn, 1, 1000)
    clock.advance(999)
    dispatch(conn)
    assert dequeue(conn)[0][0].id != first.id
    clock.advance(1)
    dispatch(conn)
    [again], _ = dequeue(conn)
    assert (again.id, again.content, again.attempts) == (first.id, b"urgent", 2)
    assert again.token != first.token
    assert conn.execute("SELECT message_complete(%s, %s)", (first.id, first.token)).fetchone() == ("lost",)
    assert conn.execute("SELECT dequeue_at FROM message WHERE id = %s", (first.id,)).fetchone() == (-9,)
    check(conn)


def test_a_message_dies_when_its_attempts_are_used_up(conn: psycopg.Connection) -> None:
    """Invariant 14: at exactly the limit."""
    clock = FakeClock(conn)
    conn.execute("SELECT message_create('a', 'poison', NULL, NULL, 3)")
    for attempt in (1, 2, 3):
        dispatch(conn)
        [message], _ = dequeue(conn, 1, 100)
        assert message.attempts == attempt
        assert conn.execute("SELECT COUNT(*) FROM dead").fetchone() == (0,)
        clock.advance(100)
    dispatch(conn)
    assert dequeue(conn)[0] == []
    row = conn.execute("SELECT id, channel, content, attempts, error, dead_at FROM dead").fetchone()
    assert row == (message.id, "a", b"poison", 3, "the lease ran out", clock.at)
    assert conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token)).fetchone() == (
        "lost",
    )


def test_how_long_a_message_was_due(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)

    def waited() -> int | None:
        dispatch(conn)
        query = "SELECT waited_ms, id, token FROM message_dequeue(1, 1000) WHERE id IS NOT NULL"
        [(found, *taken[:])] = conn.execute(query).fetchall()
        return None if found is None else int(found)

    taken: list[object] = []
    conn.execute("SELECT message_create('a', '', p_dequeue_at => 5)")
    clock.advance(70)
    assert waited() == 70, "since it was created"
    conn.execute("SELECT message_retry(%s, %s, p_delay_ms => 500)", taken)
    clock.advance(530)
    assert waited() == 30, "since the time that the retry asked for"
    clock.advance(1200)
    assert waited() == 1200, "since its last dequeue"


def test_a_message_whose_lease_ran_out_names_the_consumer_that_had_it(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    fill(conn, a=1)

    def stalled(consumer: str | None) -> str | None:
        dispatch(conn)
        query = "SELECT id, token, stalled_consumer FROM message_dequeue(1, 1000, %s) WHERE id IS NOT NULL"
        [(number, token, found)] = conn.execute(query, (consumer,)).fetchall()
        held.append((number, token))
        return None if found is None else str(found)

    held: list[tuple[int, str]] = []
    assert stalled("first") is None
    clock.advance(1001)
    assert stalled(None) == "first"
    clock.advance(1001)
    assert stalled("third") == "", "it had no name"
    conn.execute("SELECT message_retry(%s, %s, p_error => 'no')", held[-1])
    assert stalled("fourth") is None, "the third attempt failed otherwise"


def test_again_at_is_the_next_due_time_and_at_most_a_second_ahead(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    dispatch(conn)
    assert dequeue(conn) == ([], clock.at + 1000)
    conn.execute("SELECT message_create('a', '', %s)", (clock.at + 300,))
    assert dequeue(conn) == ([], clock.at), "there is a notice to dispatch"
    dispatch(conn)
    assert dequeue(conn) == ([], clock.at + 300)
    conn.execute("SELECT message_create('b', '', %s)", (clock.at + 60_000,))
    clock.advance(300)
    dispatch(conn)
    messages, again_at = dequeue(conn, 5)
    assert (len(messages), again_at) == (1, clock.at), "a consumer that got messages asks again at once"
    dispatch(conn)
    assert dequeue(conn, 5) == ([], clock.at + 1000)


def test_an_idle_queue_writes_nothing(connect: Connect) -> None:
    """No transaction id and no WAL: neither a dispatch, nor a dequeue, nor a maintain without work."""
    conn = connect()
    fill(conn, a=5)
    drain(conn)
    conn.execute("SELECT maintain()")
    conn.execute("UPDATE tick SET swept_at = lease_max_at + 1")  # as if the last lease had ended
    dispatch(conn)
    with conn.transaction():
        for call in ("dispatch()", "message_dequeue(10)", "maintain()"):
            conn.execute("SELECT " + call)
            assert conn.execute("SELECT pg_current_xact_id_if_assigned()").fetchone() == (None,), call


def test_a_dequeue_before_any_dispatch_asks_for_one(conn: psycopg.Connection) -> None:
    conn.execute("SELECT message_create('a', '')")
    messages, again_at = dequeue(conn)
    assert messages == []
    assert again_at is not None


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("call", ["message_dequeue()", "dispatch()", "rebuild()", "maintain()"])
def test_other_isolation_levels_are_refused(conn: psycopg.Connection, level: str, call: str) -> None:
    conn.execute(f"SET default_transaction_isolation TO '{level}'")
    with pytest.raises(psycopg.Error, match="cannot run at isolation level " + level) as error:
        conn.execute("SELECT " + call)
    assert error.value.sqlstate == "LM009"
    assert "READ COMMITTED" in (error.value.diag.message_hint or "")


def test_a_message_somebody_holds_is_put_back_and_not_forgotten(connect: Connect) -> None:
    """Invariant 20. A transaction that locks a message may be about to cancel it."""
    conn, other = connect(), connect(autocommit=False)
    clock = FakeClock(connect())
    fill(conn, a=10)
    other.execute("SELECT FROM message ORDER BY id LIMIT 3 FOR UPDATE")
    ids = [row[0] for row in conn.execute("SELECT id FROM message ORDER BY id")]
    served: list[int] = []
    for _ in range(20):
        messages, again_at = dequeue(conn, 1)
        served += [message.id for message in messages]
        if not messages:
            assert again_at is not None
            dispatch(conn)
        if len(served) == 4:
            break
    assert served == ids[3:7]
    dispatch(conn)
    audit(conn)
    other.rollback()
    clock.advance(1000)
    assert sorted(message.id for message in drain(conn)) == ids[:3] + ids[7:]


def test_leases_start_at_the_clock_and_not_at_the_transaction(conn: psycopg.Connection) -> None:
    fill(conn, a=1)
    with conn.transaction():
        conn.execute("SELECT pg_sleep(0.05)")
        [message], _ = dequeue(conn, 1, 10)
        began = conn.execute("SELECT to_epoch(now())").fetchone()
    assert began is not None
    assert message.lease_end_at >= began[0] + 60


def test_dequeue_and_complete_in_the_callers_own_transaction(connect: Connect) -> None:
    conn, other = connect(), connect()
    conn.execute("CREATE TABLE accounts (id BIGINT)")
    fill(conn, a=2)
    with conn.transaction():
        [message], _ = dequeue(conn)
        conn.execute("INSERT INTO accounts VALUES (%s)", (message.id,))
        conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token))
        assert other.execute("SELECT COUNT(*) FROM message").fetchone() == (2,)
    assert other.execute("SELECT COUNT(*) FROM message").fetchone() == (1,)
    with conn.transaction(force_rollback=True):
        dequeue(conn)
    assert len(drain(other)) == 1


def test_exact_limits_make_an_asynchronous_dequeue_synchronous(conn: psycopg.Connection) -> None:
    fill(conn, free=2)
    conn.execute("SELECT channel_set('limited', 1)")
    conn.execute("SELECT channel_set('slow', NULL, 1000000)")
    for channel, expected in (("free", "off"), ("limited", "on"), ("slow", "on")):
        drain(conn)
        fill(conn, **{channel: 1})
        with conn.transaction():
            conn.execute("SET LOCAL synchronous_commit TO off")
            assert len(dequeue(conn)[0]) == 1
            assert conn.execute("SHOW synchronous_commit").fetchone() == (expected,), channel
        assert conn.execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_one_message_is_not_released_before_its_time(conn: psycopg.Connection) -> None:
    """Invariant 9. The channel's first message was cancelled, and the next one is not due."""
    clock = FakeClock(conn)
    conn.execute("SELECT message_create('a', 'now'), message_create('a', 'later', %s)", (clock.at + 500,))
    dispatch(conn)
    conn.execute("SELECT message_cancel(MIN(id)) FROM message")
    dispatch(conn)
    assert dequeue(conn) == ([], clock.at + 500)
    clock.advance(499)
    dispatch(conn)
    assert dequeue(conn) == ([], clock.at + 5)
    clock.advance(1)
    dispatch(conn)
    assert [message.content for message in dequeue(conn)[0]] == [b"later"]


def test_what_was_due_stays_due_when_the_clock_is_set_back(conn: psycopg.Connection) -> None:
    """Invariant 22: in ready, and in the backlog."""
    clock = FakeClock(conn)
    fill(conn, a=150)
    clock.advance(-3_600_000)
    check(conn)
    assert len(drain(conn)) == 150


def test_an_open_cancel_holds_its_own_message_alone(connect: Connect) -> None:
    conn, other = connect(), connect(autocommit=False)
    fill(conn, a=2)
    fill(conn, **{f"c{number}": 1 for number in range(60)})
    other.execute("SELECT message_cancel(MIN(id)) FROM message WHERE channel = 'a'")
    messages, _ = dequeue(conn, 100)
    assert len({message.id for message in messages}) == len(messages) == 61
    dispatch(conn)
    assert conn.execute("SELECT served FROM queue_stats()").fetchone() == (61,)
    other.rollback()
    check(conn)
    assert len(drain(conn)) == 1


@pytest.mark.parametrize("limit", [1, 3])
def test_a_clock_set_back_asks_for_a_dispatch(conn: psycopg.Connection, limit: int) -> None:
    def again_ats() -> list[int | None]:
        return [row[0] for row in conn.execute("SELECT again_at FROM message_dequeue(%s)", (limit,))]

    clock = FakeClock(conn)
    fill(conn, a=9)
    clock.advance(7_200_000)
    fill(conn, b=1)
    assert again_ats() == [None] * limit
    clock.advance(-3_600_000)
    assert set(again_ats()) == {clock.at}
    dispatch(conn)
    assert None in again_ats()


def test_messages_are_served_when_the_sequence_is_behind_the_backlogs(conn: psycopg.Connection) -> None:
    """As on a logical replica that was promoted: sequences are not replicated with the rows."""
    conn.execute("SELECT channel_set('limited', 2)")
    fill(conn, a=150, b=150, limited=3)
    conn.execute("SELECT setval('turn', 1)")
    assert len(dequeue(conn, 4)[0]) == 4
    check(conn)
    assert len(drain(conn)) >= 297


def test_under_a_limit_no_crash_undoes_a_dequeue(conn: psycopg.Connection) -> None:
    """However far away the limit is: otherwise other messages could run beside those that already run."""
    for channel, mode in (("free", "off"), ("limited", "on")):
        conn.execute("SELECT channel_set('limited', p_max_concurrency => 1000)")
        conn.execute("SELECT message_create(%s, 'x')", (channel,))
        dispatch(conn)
        with conn.transaction():
            taken = conn.execute("SELECT channel FROM message_dequeue(1, p_async_commit => TRUE)").fetchall()
            assert taken == [(channel,)]
            assert conn.execute("SHOW synchronous_commit").fetchone() == (mode,)


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("names", [["one", "two"], None], ids=["named", "all"])
def test_lanes_are_served_equally(conn: psycopg.Connection, limit: int, names: list[str] | None) -> None:
    """However many other lanes are empty."""
    create = "SELECT COUNT(message_create('a', 'x', p_lane => %s)) FROM generate_series(1, %s)"
    for lane in ("e1", "one", "e2", "e3", "two", "e4"):
        conn.execute(create, (lane, 1))
    drain(conn)
    for lane in ("one", "two"):
        conn.execute(create, (lane, 300))
    served: Counter[str] = Counter()
    for _ in range(200 // limit):
        dispatch(conn)
        taken = "SELECT lane FROM message_dequeue(%s, p_lanes => %s) WHERE id IS NOT NULL"
        served.update(lane for (lane,) in conn.execute(taken, (limit, names)))
    assert served.total() == 200
    assert 60 <= served["one"] <= 140


@pytest.mark.parametrize("lanes", [[], [""], [None], ["default", None]])
def test_lanes_need_names(conn: psycopg.Connection, lanes: list[str | None]) -> None:
    with pytest.raises(psycopg.Error, match="lanes") as raised:
        conn.execute("SELECT * FROM message_dequeue(1, p_lanes => %s::TEXT[])", (lanes,))
    assert raised.value.sqlstate == "LM010"
