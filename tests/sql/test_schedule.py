"""Schedules: each tick is fired once, however many try and whatever commits, and never before its time."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.clock import FakeClock
from tests.database import Connect, until_waiting
from tests.invariants import check, drain

MINUTE = 60_000


class Fired(NamedTuple):
    result: str
    ticked_at: int | None
    created: int = 0
    refused: int = 0


@pytest.fixture
def clock(conn: psycopg.Connection) -> FakeClock:
    return FakeClock(conn)


def opened(conn: psycopg.Connection, *names: str) -> list[tuple[Any, ...]]:
    query = "SELECT name, ticked_at, now_at FROM schedule_open(%s)"
    return conn.execute(query, (list(names),)).fetchall()


def define(
    conn: psycopg.Connection, expression: str = "0 7 * * *", catch_up: str = "one", **options: Any
) -> None:
    conn.execute(
        "SELECT schedule_open('{s}', ARRAY[%s], '{Europe/Berlin}', ARRAY[%s], '{reports}', '{report}', %s)",
        (expression, catch_up, [Jsonb(options)]),
    )


def listed(conn: psycopg.Connection, *columns: str) -> Any:
    return conn.execute(f"SELECT {', '.join(columns)} FROM schedule_list()").fetchone()


def fire(
    conn: psycopg.Connection,
    after: int,
    *ticks: int,
    upto: int | None = None,
    channel: str = "reports",
    content: bytes | None = b"x",
    **options: Any,
) -> Fired:
    row = conn.execute(
        "SELECT result, ticked_at, created, refused"
        " FROM schedule_fire('s', %s, %s, %s::BIGINT[], %s, %s, %s)",
        (after, ticks[-1] if upto is None else upto, list(ticks), channel, content, Jsonb(options)),
    ).fetchone()
    assert row is not None
    return Fired(*row)


def ticks_made(conn: psycopg.Connection) -> list[int]:
    return [
        row[0] for row in conn.execute("SELECT (headers->'scheduled-at')::BIGINT FROM message ORDER BY id")
    ]


def position(conn: psycopg.Connection) -> Any:
    return conn.execute("SELECT ticked_at, fired_at FROM schedule WHERE name = 's'").fetchone()


def is_writing(conn: psycopg.Connection) -> bool:
    row = conn.execute("SELECT pg_current_xact_id_if_assigned() IS NOT NULL").fetchone()
    assert row is not None
    return bool(row[0])


def test_a_new_schedule_begins_now_and_an_old_one_stays_where_it_is(
    conn: psycopg.Connection, clock: FakeClock
) -> None:
    begun = clock.at
    assert opened(conn, "s") == [("s", begun, begun)]
    clock.advance(MINUTE)
    assert opened(conn, "t", "s", "t") == [("s", begun, clock.at), ("t", clock.at, clock.at)]
    assert opened(conn) == []
    rows = conn.execute("SELECT name, ticked_at, fired_at, opened_at FROM schedule_list()").fetchall()
    assert rows == [("s", begun, None, begun), ("t", clock.at, None, clock.at)]


def test_opening_existing_schedules_writes_nothing(conn: psycopg.Connection) -> None:
    opened(conn, "s", "t")
    with conn.transaction():
        opened(conn, "t", "s")
        assert not is_writing(conn)


def test_a_tick_makes_one_message(conn: psycopg.Connection, clock: FakeClock) -> None:
    opened(conn, "s")
    at = clock.at
    tick = clock.advance(MINUTE)
    more: dict[str, Any] = {"max_attempts": 2, "priority": -3, "cost": 4, "lane": "slow"}
    fired = fire(conn, at, tick, content=b"report", headers={"task": "report"}, **more)
    assert fired == Fired("fired", tick, 1)
    assert fire(conn, at, tick) == Fired("lost", tick), "the second one to try"
    row = conn.execute("SELECT channel, content, headers, dequeue_at FROM message").fetchall()
    assert row == [("reports", b"report", {"task": "report", "scheduled-at": tick}, tick)]
    row = conn.execute("SELECT max_attempts, priority, cost, lane FROM message").fetchall()
    assert row == [(2, -3, 4, "slow")]
    assert conn.execute("SELECT fired_at FROM schedule_list()").fetchone() == (tick,)
    assert len(drain(conn)) == 1
    check(conn)


def test_many_ticks_are_made_in_their_order(conn: psycopg.Connection, clock: FakeClock) -> None:
    opened(conn, "s")
    at = clock.at
    clock.advance(1000)
    ticks = list(range(at + 1, at + 1001))
    assert fire(conn, at, *ticks) == Fired("fired", at + 1000, 1000)
    assert ticks_made(conn) == ticks
    assert len(drain(conn)) == 1000
    check(conn)


def test_skipped_ticks(conn: psycopg.Connection, clock: FakeClock) -> None:
    opened(conn, "s")
    at = clock.at
    clock.advance(10)
    assert fire(conn, at, at + 2, upto=at + 3) == Fired("fired", at + 3, 1)
    assert fire(conn, at + 3, upto=at + 5) == Fired("skipped", at + 5)
    assert position(conn) == (at + 5, at + 2)
    assert ticks_made(conn) == [at + 2]
    assert fire(conn, at + 3, at + 4) == Fired("lost", at + 5), "a skipped tick stays skipped"


def test_never_before_its_time(conn: psycopg.Connection, clock: FakeClock) -> None:
    opened(conn, "s")
    at = clock.at
    assert fire(conn, at, at + 1) == Fired("early", at)
    assert fire(conn, at, upto=at + 1) == Fired("early", at), "nor skipped"
    clock.advance(1)
    assert fire(conn, at, at + 1, upto=at + 2) == Fired("early", at)
    assert fire(conn, at, at + 1) == Fired("fired", at + 1, 1)
    clock.set(at - MINUTE)
    assert fire(conn, at + 1, at + 2) == Fired("early", at + 1), "and not again when the clock is set back"
    assert opened(conn, "s") == [("s", at + 1, at - MINUTE)]


def test_a_schedule_that_was_never_opened(conn: psycopg.Connection, clock: FakeClock) -> None:
    assert fire(conn, clock.at - 1, clock.at) == Fired("not_found", None)
    opened(conn, "s")
    assert conn.execute("SELECT schedule_delete('s'), schedule_delete('s')").fetchone() == (True, False)
    assert fire(conn, clock.at - 1, clock.at) == Fired("not_found", None)
    assert ticks_made(conn) == []


def test_a_call_that_does_not_fire_writes_nothing(conn: psycopg.Connection, clock: FakeClock) -> None:
    opened(conn, "s")
    with conn.transaction():
        assert fire(conn, clock.at - 2, clock.at - 1).result == "lost"
        assert fire(conn, clock.at, clock.at + 1).result == "early"
        assert not is_writing(conn)


def test_a_full_channel_refuses_the_tick_and_the_schedule_goes_on(
    conn: psycopg.Connection, clock: FakeClock
) -> None:
    conn.execute("SELECT channel_set('reports', p_max_size => 2)")
    opened(conn, "s")
    at = clock.at
    clock.advance(10)
    assert fire(conn, at, at + 1, at + 2, at + 3) == Fired("fired", at + 3, 2, 1)
    assert fire(conn, at + 3, at + 4) == Fired("fired", at + 4, 0, 1)
    assert ticks_made(conn) == [at + 1, at + 2]


@pytest.mark.parametrize(
    ("more", "sqlstate"),
    [
        ({"channel": ""}, "LM001"),
        ({"content": None}, "LM002"),
        ({"max_attempts": 0}, "LM008"),
        ({"headers": []}, "LM010"),
        ({"headers": 7}, "LM010"),
        ({"cost": "much"}, "LM010"),
        ({"dedupe_key": "k"}, "LM010"),
        ({"colour": "red"}, "LM010"),
    ],
)
def test_a_bad_message_leaves_the_tick_unfired(
    conn: psycopg.Connection, clock: FakeClock, more: dict[str, Any], sqlstate: str
) -> None:
    opened(conn, "s")
    at = clock.at
    tick = clock.advance(1)
    with pytest.raises(psycopg.Error) as error:
        fire(conn, at, tick, **more)
    assert error.value.sqlstate == sqlstate
    assert position(conn) == (at, None)
    assert fire(conn, at, tick).result == "fired"


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_the_second_call_waits_for_the_first(
    conn: psycopg.Connection, connect: Connect, clock: FakeClock, ending: str
) -> None:
    """A tick is neither fired twice nor lost with the transaction that was to fire it."""
    opened(conn, "s")
    at = clock.at
    tick = clock.advance(1)
    first, second = connect(autocommit=False), connect()
    assert fire(first, at, tick).result == "fired"
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(fire, second, at, tick)
        until_waiting(conn, second)
        getattr(first, ending)()
        assert answer.result(10) == (Fired("lost", tick) if ending == "commit" else Fired("fired", tick, 1))
    assert ticks_made(conn) == [tick]


def test_a_killed_session_fires_nothing(conn: psycopg.Connection, connect: Connect, clock: FakeClock) -> None:
    opened(conn, "s")
    at = clock.at
    tick = clock.advance(1)
    first, second = connect(autocommit=False), connect()
    assert fire(first, at, tick).result == "fired"
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(fire, second, at, tick)
        until_waiting(conn, second)
        conn.execute("SELECT pg_terminate_backend(%s, 5000)", (first.info.backend_pid,))
        assert answer.result(10) == Fired("fired", tick, 1)
    assert ticks_made(conn) == [tick]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_above_read_committed_the_second_call_must_run_again(
    conn: psycopg.Connection, connect: Connect, clock: FakeClock, level: str
) -> None:
    opened(conn, "s")
    at = clock.at
    tick = clock.advance(1)
    late = connect()
    late.execute(f"BEGIN ISOLATION LEVEL {level}")
    late.execute("SELECT COUNT(*) FROM schedule")
    assert fire(conn, at, tick).result == "fired"
    with pytest.raises(psycopg.errors.SerializationFailure):
        fire(late, at, tick)
    late.execute("ROLLBACK")
    assert ticks_made(conn) == [tick]


def test_new_ones_are_opened_in_one_order(conn: psycopg.Connection, connect: Connect) -> None:
    """By name, whatever order they are given in: two calls that open the same ones never deadlock."""
    first, second = connect(autocommit=False), connect()
    opened(first, "b")
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(opened, second, "c", "b", "a")
        try:
            until_waiting(conn, second)
            conn.execute("SET lock_timeout = '300ms'")
            assert [row[0] for row in opened(conn, "c")] == ["c"], "it waits for b, and has not opened c"
            with pytest.raises(psycopg.errors.LockNotAvailable):
                opened(conn, "a")
        finally:
            first.commit()
        assert [row[0] for row in answer.result(10)] == ["a", "b", "c"]


def test_many_sessions_fire_each_tick_once(conn: psycopg.Connection, connect: Connect) -> None:
    """On the real clock: all see the same ticks come, and race for each; some of them roll back."""
    [(_, begun, _)] = opened(conn, "s")
    every, count = 20, 40
    sessions = [connect() for _ in range(6)]

    def race(number: int) -> int:
        session, made, after = sessions[number], 0, begun
        while after < begun + every * count:
            with session.transaction() as transaction:
                tick = after + every
                done = fire(session, after, tick)
                if done.result == "fired" and (tick // every + number) % 3 == 0:
                    raise psycopg.Rollback(transaction)
                made += done.created
            if done.result != "early" and transaction.status is transaction.Status.COMMITTED:
                after = done.ticked_at or 0
        return made

    with ThreadPoolExecutor(len(sessions)) as pool:
        made = list(pool.map(race, range(len(sessions))))
    assert ticks_made(conn) == [begun + every * n for n in range(1, count + 1)]
    assert sum(made) == count


# The definition, by hand, and pauses.


def test_a_definition_is_stored_and_changed(conn: psycopg.Connection) -> None:
    opened(conn, "s")
    columns = ("expression", "time_zone", "catch_up", "channel")
    assert listed(conn, *columns) == (None,) * 4
    define(conn, headers={"task": "report"}, priority=3)
    assert listed(conn, *columns) == ("0 7 * * *", "Europe/Berlin", "one", "reports")
    define(conn, catch_up="all", headers={"task": "report"}, priority=3)
    assert listed(conn, *columns) == ("0 7 * * *", "Europe/Berlin", "all", "reports")
    define(conn, "0 8 * * *", headers={"task": "report"}, lane="slow")
    row = conn.execute("SELECT expression, content, headers, options FROM schedule_get('s')").fetchone()
    assert row == ("0 8 * * *", b"report", {"task": "report"}, {"lane": "slow"})
    assert conn.execute("SELECT * FROM schedule_get('t')").fetchall() == []


def test_the_same_definition_writes_nothing(conn: psycopg.Connection) -> None:
    define(conn, headers={"task": "report"})
    with conn.transaction():
        define(conn, headers={"task": "report"})
        opened(conn, "s")
        assert not is_writing(conn)
    assert listed(conn, "expression") == ("0 7 * * *",), "opening without a definition keeps it"


def test_a_wrong_definition_is_refused(conn: psycopg.Connection) -> None:
    with pytest.raises(psycopg.Error, match="a schedule has no option 'dedupe_key'"):
        define(conn, dedupe_key="k")
    for value, type_ in ((7, "number"), ({"a": 1}, "object")):
        with pytest.raises(psycopg.Error, match=f"the lane is a JSON {type_}"):
            define(conn, lane=value)
    with pytest.raises(psycopg.Error, match="p_options is a JSON number"):  # without a channel, too
        conn.execute("SELECT schedule_open('{s}', '{* * * * *}', p_options => '{1}')")
    with pytest.raises(psycopg.Error, match="the arrays differ in length"):
        conn.execute("SELECT schedule_open('{s,t}', '{* * * * *}')")
    for channel, error in (("", "a channel needs a name"), ("x" * 256, "the channel name is 256 bytes long")):
        with pytest.raises(psycopg.Error, match=error):
            conn.execute("SELECT schedule_open('{s}', '{0 7 * * *}', p_channels => ARRAY[%s])", (channel,))


def run(conn: psycopg.Connection, name: str = "s") -> tuple[Any, ...]:
    row = conn.execute("SELECT id, result FROM schedule_run(%s)", (name,)).fetchone()
    assert row is not None
    return row


def test_run_makes_a_message_and_leaves_the_schedule(conn: psycopg.Connection, clock: FakeClock) -> None:
    define(conn, headers={"task": "report"}, priority=-3, cost=4, lane="slow", max_attempts=2)
    before = position(conn)
    clock.advance(MINUTE)
    made, result = run(conn)
    assert result == "created"
    row = conn.execute(
        "SELECT id, channel, content, headers, priority, cost, lane, max_attempts, dequeue_at FROM message"
    ).fetchone()
    headers = {"task": "report", "scheduled-at": clock.at, "schedule-run": True}
    assert row == (made, "reports", b"report", headers, -3, 4, "slow", 2, clock.at)
    assert position(conn) == before
    assert run(conn, "t") == (None, "not_found")
    opened(conn, "u")
    assert run(conn, "u") == (None, "undefined")
    check(conn)


def test_run_into_a_full_channel(conn: psycopg.Connection) -> None:
    define(conn)
    conn.execute("SELECT channel_set('reports', p_max_size => 1)")
    assert run(conn)[1] == "created"
    assert run(conn) == (None, "full")
    assert listed(conn, "refused", "refused_at") == (0, None), "it was not the schedule"


def test_a_paused_schedule_fires_nothing_and_skips(conn: psycopg.Connection, clock: FakeClock) -> None:
    opened(conn, "s")
    at = clock.at
    paused_at = clock.advance(MINUTE)
    pause, resume = "SELECT schedule_pause('s')", "SELECT schedule_resume('s')"
    assert conn.execute(pause).fetchone() == ("paused",)
    clock.advance(MINUTE)
    assert conn.execute(pause).fetchone() == ("paused",)
    assert listed(conn, "paused_at") == (paused_at,)
    assert fire(conn, at, at + MINUTE) == Fired("paused", at)
    assert fire(conn, at, upto=at + MINUTE) == Fired("paused", at), "nor does it skip yet"
    assert conn.execute("SELECT is_paused FROM schedule_open('{s}')").fetchone() == (True,)
    assert ticks_made(conn) == []
    assert conn.execute(resume).fetchone() == ("resumed",)
    assert position(conn) == (clock.at, None)
    assert fire(conn, at, at + MINUTE) == Fired("lost", clock.at), "what it missed is skipped"
    tick = clock.advance(MINUTE)
    assert fire(conn, tick - MINUTE, tick) == Fired("fired", tick, 1)
    clock.advance(MINUTE)
    assert conn.execute(resume).fetchone() == ("resumed",)
    assert position(conn) == (tick, tick), "resuming one that is not paused changes nothing"
    for call in ("pause", "resume"):
        assert conn.execute(f"SELECT schedule_{call}('t')").fetchone() == ("not_found",)


def test_a_schedule_that_is_resumed_to_catch_up(conn: psycopg.Connection, clock: FakeClock) -> None:
    opened(conn, "s")
    at = clock.at
    conn.execute("SELECT schedule_pause('s')")
    clock.advance(MINUTE)
    conn.execute("SELECT schedule_resume('s', p_catch_up => TRUE)")
    assert fire(conn, at, at + MINUTE) == Fired("fired", at + MINUTE, 1)


def test_a_full_channel_is_counted(conn: psycopg.Connection, clock: FakeClock) -> None:
    opened(conn, "s")
    at = clock.at
    conn.execute("SELECT channel_set('reports', p_max_size => 1)")
    clock.advance(10)
    assert fire(conn, at, at + 1) == Fired("fired", at + 1, 1)
    assert fire(conn, at + 1, at + 2, at + 3) == Fired("fired", at + 3, 0, 2)
    assert listed(conn, "refused", "refused_at", "fired_at") == (2, clock.at, at + 1)
    clock.advance(10)
    assert fire(conn, at + 3, at + 4) == Fired("fired", at + 4, 0, 1)
    assert listed(conn, "refused", "refused_at", "fired_at") == (3, clock.at, at + 1)
    check(conn)
