"""Consuming from certain channels only: their messages are found wherever they are in the order, and nobody
else's order changes."""

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import Delivery, audit, check, dequeue, dispatch, drain
from tests.sql.test_dequeue import fill

LOWERED = "invariant 7: no channel above its limit"
"""Not when a limit was lowered."""


def make_ready(
    conn: psycopg.Connection, channels: list[str] | None, limit: int = 10, pattern: str | None = None
) -> None:
    dispatch(conn)
    query = "SELECT channels_dispatch(%s, %s, p_limit => %s)"
    for _ in range(1000):
        if conn.execute(query, (channels, pattern, limit)).fetchone() != (True,):
            return
    pytest.fail("channels_dispatch does not finish")


def take(conn: psycopg.Connection, channels: list[str], limit: int = 10) -> list[Delivery]:
    make_ready(conn, channels, limit)
    rows = conn.execute(
        "SELECT * FROM message_dequeue(%s, 60000, 'stream', p_channels => %s)", (limit, channels)
    ).fetchall()
    return [Delivery(*row[:8]) for row in rows if row[0] is not None]


def complete(conn: psycopg.Connection, messages: list[Delivery]) -> None:
    for message in messages:
        conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token))


def counted(messages: list[Delivery]) -> Counter[str]:
    return Counter(message.channel for message in messages)


def test_a_channel_far_behind_is_found_and_nobody_elses_order_changes(conn: psycopg.Connection) -> None:
    """What the stream took counts as the channel's turns; the others take theirs as always."""
    others = {f"c{n:02}": 60 for n in range(30)}
    fill(conn, **others, far=60)
    taken = take(conn, ["far"], 25)
    assert counted(taken) == {"far": 25}
    assert [message.id for message in taken] == sorted(message.id for message in taken)
    check(conn)
    served: Counter[str] = Counter()
    for _ in range(60):
        dispatch(conn)
        messages, _ = dequeue(conn, 30)
        served += counted(messages)
        assert max(served[name] for name in others) - min(served[name] for name in others) <= 1
        assert served["far"] <= max(0, max(served.values()) - 25) + 1, (
            "it waits until the others have caught up"
        )
        complete(conn, messages)
    rest = drain(conn)
    assert (served + counted(rest))["far"] == 35
    assert sum(served.values()) + len(rest) + 25 == 31 * 60


def test_shares_of_the_chosen_channels(conn: psycopg.Connection) -> None:
    conn.execute("SELECT channel_set('heavy', p_weight => 3)")
    fill(conn, other=500, heavy=300, light=300)
    shares: Counter[str] = Counter()
    for limit in (1, 7, 32, 160):
        messages = take(conn, ["heavy", "light"], limit)
        assert len(messages) == limit
        shares += counted(messages)
        check(conn)
    assert abs(shares["heavy"] - 150) <= 3
    assert len(take(conn, ["heavy", "light", "none"], 1000)) == 400, "all that is left"


def test_no_message_before_its_turn_among_the_chosen_channels(conn: psycopg.Connection) -> None:
    """Another stream made messages of one channel ready, far ahead of those that wait in the other."""
    fill(conn, **{f"c{n:02}": 60 for n in range(30)}, a=60, b=60)
    make_ready(conn, ["a"], 30)
    rows = conn.execute("SELECT channel FROM message_dequeue(20, p_channels => '{a,b}')").fetchall()
    served = Counter(channel for (channel,) in rows)
    assert 0 < served["b"] <= served["a"] <= served["b"] + 1, served
    check(conn)


@pytest.mark.parametrize(
    "change", ["channel_set('far', p_max_concurrency => 50)", "queue_set(p_channel_max_concurrency => 50)"]
)
def test_nothing_is_made_ready_under_a_policy_that_is_not_dispatched(
    conn: psycopg.Connection, change: str
) -> None:
    fill(conn, **{f"c{n:02}": 60 for n in range(30)}, far=60)
    dispatch(conn)
    ready = "SELECT COUNT(*) FROM ready WHERE channel = 'far'"
    before = conn.execute(ready).fetchone()
    conn.execute(f"SELECT * FROM {change}".encode())
    assert conn.execute("SELECT channels_dispatch('{far}', p_limit => 30)").fetchone() == (False,)
    assert conn.execute(ready).fetchone() == before
    make_ready(conn, ["far"], 30)
    assert conn.execute(ready).fetchone() == (30,)
    check(conn)


def test_limits_hold(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT channel_set('two', p_max_concurrency => 2)")
    conn.execute("SELECT channel_set('rate', p_release_interval_us => 1000000, p_burst => 3)")
    conn.execute("SELECT channel_set('paused', p_paused => TRUE)")
    fill(conn, two=20, rate=20, paused=20, other=20)
    chosen = ["two", "rate", "paused"]
    first = take(conn, chosen)
    assert counted(first) == {"two": 2, "rate": 3}
    assert take(conn, chosen) == []
    check(conn)
    complete(conn, first)
    clock.advance(1001)
    assert counted(take(conn, chosen)) == {"two": 2, "rate": 1}
    conn.execute("SELECT channel_set('paused', p_paused => FALSE)")
    messages = conn.execute("SELECT id FROM message_dequeue(9, p_channels => '{paused}')").fetchall()
    assert messages == [(None,)], "the new policy is not dispatched yet"
    assert counted(take(conn, chosen)) == {"paused": 10}
    check(conn)


def test_the_limit_of_the_queue(conn: psycopg.Connection) -> None:
    """Messages that nobody takes must not use it up for ever; those of other consumers are left alone."""
    clock = FakeClock(conn)
    conn.execute("SELECT * FROM queue_set(p_max_concurrency => 6)")
    fill(conn, other=20)
    mine = []
    for _ in range(2):
        mine += dequeue(conn)[0]
        dispatch(conn)
    fill(conn, far=20)
    assert take(conn, ["far"]) == [], "other consumers took some just now"
    for _ in range(4):
        clock.advance(2000)
        dispatch(conn)
    take(conn, ["far"])
    assert conn.execute("SELECT channel, COUNT(*) FROM leases GROUP BY 1 ORDER BY 1").fetchall() == [
        ("far", 4),
        ("other", 2),
    ]
    check(conn)
    complete(conn, mine)
    dispatch(conn)
    assert len(dequeue(conn, 5)[0]) == 2
    check(conn)


def test_priority_and_messages_that_come_late(conn: psycopg.Connection) -> None:
    fill(conn, other=300, a=5)
    make_ready(conn, ["a"], 5)
    conn.execute("SELECT message_create('a', 'urgent', p_priority => 5)")
    assert take(conn, ["a"], 1)[0].content == b"urgent"
    check(conn)


def test_a_claim_that_is_rolled_back(connect: Connect, conn: psycopg.Connection) -> None:
    """Its messages are found again, by the same consumer and by others."""
    fill(conn, **{f"c{n}": 100 for n in range(20)}, far=30)
    other = connect(autocommit=False)
    make_ready(conn, ["far"], 30)
    rows = other.execute("SELECT id FROM message_dequeue(30, p_channels => '{far}')").fetchall()
    assert take(conn, ["far"]) == [], "another has them all"
    other.rollback()
    assert sorted(message.id for message in take(conn, ["far"], 30)) == sorted(row[0] for row in rows)
    check(conn)
    assert len(drain(conn)) == 2000


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("tenant-.*", {"tenant-1", "tenant-2"}),
        ("tenant", set()),
        ("(?i)A|b", {"a", "b"}),
        (".*1", {"tenant-1"}),
    ],
)
def test_a_pattern_matches_whole_names(conn: psycopg.Connection, pattern: str, found: set[str]) -> None:
    fill(conn, **{"tenant-1": 3, "tenant-2": 3, "a": 3, "b": 3, "ab": 300})
    make_ready(conn, None, 100, pattern)
    conn.execute("SELECT claim_open('me')")
    claim = "SELECT messages FROM claim_next('me', 1, 0, 100, 60000, p_pattern => %s)"
    assert conn.execute(claim, (pattern,)).fetchone() == (3 * len(found),)
    channels = conn.execute("SELECT channel FROM claim_read('me', 1, 0, 1)").fetchall()
    assert {channel for (channel,) in channels} == found
    check(conn)


@pytest.mark.parametrize(
    ("arguments", "sqlstate", "match"),
    [
        ("NULL, '(a'", "LM010", r"p_pattern '\(a': invalid regular expression"),
        ("NULL, 'a)|(b'", "LM010", "invalid regular expression"),
        ("'{a}', 'a'", "LM010", "both given"),
        ("NULL", "LM010", "neither"),
        ("'{}'", "LM005", "0 names"),
        ("array_fill('a'::TEXT, '{1001}')", "LM005", "1001 names"),
        ("'{a,NULL}'", "LM001", r"a channel needs a name \(channel 2 of 2\)"),
        ("'{a}', p_limit => 0", "LM005", "p_limit is 0"),
    ],
)
def test_refused(conn: psycopg.Connection, arguments: str, sqlstate: str, match: str) -> None:
    with pytest.raises(psycopg.Error, match=match) as error:
        conn.execute(f"SELECT channels_dispatch({arguments})".encode())
    assert error.value.sqlstate == sqlstate


def test_what_was_there_at_a_time(conn: psycopg.Connection) -> None:
    """claim_next with p_before and p_channels stops when these channels have nothing older."""
    clock = FakeClock(conn)
    fill(conn, other=500, mine=30)
    before = clock.at
    clock.advance(1)
    conn.execute("SELECT claim_open('me')")
    call = "SELECT * FROM claim_next('me', 1, %s, 10, 60000, %s, p_channels => '{mine}')"
    for seq in range(10):
        make_ready(conn, ["mine"])
        claim = conn.execute(call, (seq, before)).fetchone()
        assert claim is not None
        if claim[1] == 0:
            break
        fill(conn, other=10)
        conn.execute("SELECT claim_complete('me', 1, %s)", (seq + 1,))
    assert claim == (3, 0, None)
    with conn.transaction():
        make_ready(conn, ["mine"])
        assert conn.execute(call, (3, None)).fetchone()[:2] == (3, 0)  # type: ignore[index]
        assert conn.execute("SELECT pg_current_xact_id_if_assigned()").fetchone() == (None,), "it is idle"


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 20))]
)
def test_random_calls(  # noqa: C901 - one case per call
    connect: Connect, conn: psycopg.Connection, seed: int
) -> None:
    """Whatever plain consumers, streams of certain channels and operators do, the tables agree, and every
    message comes once."""
    clock, chance = FakeClock(conn), random.Random(seed)
    other = connect(autocommit=False)
    names = [f"c{n}" for n in range(8)]
    held: list[Delivery] = []
    done: list[int] = []
    created = 0
    for _ in range(150):
        match chance.randrange(10):
            case 0 | 1 | 2:
                count = chance.choice([1, 3, 60])
                created += count
                conn.execute(
                    "SELECT message_create_many(array_agg(%s::TEXT), array_agg(''::BYTEA),"
                    " p_priorities => array_agg(%s), p_costs => array_agg(%s)) FROM generate_series(1, %s)",
                    (chance.choice(names), chance.choice([0, 0, 3]), chance.choice([1, 1, 5]), count),
                )
            case 3:
                held += dequeue(conn, chance.choice([1, 5, 40]), 60_000)[0]
            case 4 | 5:
                held += take(conn, chance.sample(names, chance.choice([1, 2, 4])), chance.choice([1, 5, 40]))
            case 6:
                channels = chance.sample(names, 2)
                make_ready(conn, channels, 20)
                other.execute("SELECT COUNT(*) FROM message_dequeue(20, p_channels => %s)", (channels,))
                dispatch(conn)
                make_ready(conn, channels, 5)
                other.rollback()
            case 7:
                chance.shuffle(held)
                part, held = held[:20], held[20:]
                done += [message.id for message in part]
                complete(conn, part)
            case 8:
                for message in held[:3]:
                    conn.execute("SELECT message_retry(%s, %s)", (message.id, message.token))
                held = held[3:]
            case 9:
                conn.execute(
                    "SELECT channel_set(%s, p_max_concurrency => %s, p_paused => %s, p_weight => %s)",
                    (
                        chance.choice(names),
                        chance.choice([0, 0, 3]),
                        chance.random() < 0.2,
                        chance.choice([1, 3]),
                    ),
                )
                clock.advance(chance.choice([0, 1, 300]))
        audit(conn, but=(LOWERED,))
    complete(conn, held)
    done += [message.id for message in held]
    check(conn)
    for name in names:
        conn.execute("SELECT channel_set(%s, p_max_concurrency => 0, p_paused => FALSE)", (name,))
    done += [message.id for message in drain(conn)]
    assert len(set(done)) == len(done) == created


def test_a_crowd(connect: Connect, conn: psycopg.Connection) -> None:
    """Plain consumers and streams of certain channels at once: every message once, and limits hold."""
    conn.execute("SELECT channel_set('c1', p_max_concurrency => 3)")
    fill(conn, **{f"c{n}": 150 for n in range(6)})
    done: list[int] = []
    stopped = threading.Event()

    def consume(session: Any, channels: list[str] | None) -> None:
        while not stopped.is_set():
            if channels is None:
                dispatch(session)
                messages, _ = dequeue(session, 7, 60_000)
            else:
                messages = take(session, channels, 15)
            complete(session, messages)
            done.extend(message.id for message in messages)

    chosen = [None, None, ["c1", "c2"], ["c2"]]
    with ThreadPoolExecutor(len(chosen)) as threads:
        running = [threads.submit(consume, connect(), channels) for channels in chosen]
        try:
            for _ in range(600):
                audit(conn)
                if len(done) >= 900 or any(one.done() for one in running):
                    break
        finally:
            stopped.set()
        for one in running:
            one.result()
    assert len(done) == len(set(done)) == 900
    check(conn)
