"""Batches that want the same sizes and keys in opposite orders. Single calls never deadlock; several calls
in one transaction may, and then PostgreSQL reports it.
"""

import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import psycopg
import pytest

from tests import invariants
from tests.isolation.pausing import paused
from tests.isolation.shared_database import SharedDatabase, end, take, until, value

DEADLOCK = psycopg.errors.DeadlockDetected
CHANNELS = ("a", "b", "c")
KEYS = ("1", "2", "3")
EVERY = [(channel, key) for channel in CHANNELS for key in KEYS]

Wanted = list[tuple[str, str]]


def create(conn: psycopg.Connection, wanted: Wanted) -> list[tuple[int | None, str]]:
    channels, keys = [channel for channel, _ in wanted], [key for _, key in wanted]
    return conn.execute(
        "SELECT id, result FROM message_create_many(%s, %s, p_dedupe_keys => %s, p_unique_fors_ms => %s)",
        (channels, [b"work"] * len(wanted), keys, [0] * len(wanted)),
    ).fetchall()


def limit_sizes(conn: psycopg.Connection, max_size: int) -> None:
    for channel in CHANNELS:
        conn.execute("SELECT channel_set(%s, p_max_size => %s)", (channel, max_size))


def check(conn: psycopg.Connection) -> None:
    """Every message has its own key, no key is used twice, and no size has drifted."""
    keys = conn.execute("SELECT channel, dedupe_key FROM message WHERE dedupe_key IS NOT NULL").fetchall()
    assert max(Counter(keys).values(), default=1) == 1, keys
    loose = conn.execute(
        "SELECT m.id FROM message m LEFT JOIN dedupe d "
        "ON (d.channel, d.key) = (m.channel, m.dedupe_key) AND d.message_id IS NOT NULL "
        "WHERE m.dedupe_key IS NOT NULL AND (d.message_id, d.until_at IS NULL) IS DISTINCT FROM (m.id, TRUE)"
    ).fetchall()
    assert not loose
    drifted = conn.execute(
        "SELECT * FROM capacity c "
        "WHERE size - (SELECT COALESCE(SUM(n), 0) FROM departure d WHERE d.channel = c.channel) "
        "<> (SELECT COUNT(*) FROM message m WHERE m.channel = c.channel AND m.is_counted)"
    ).fetchall()
    assert not drifted
    invariants.check(conn)


@pytest.mark.parametrize("held", EVERY, ids=" ".join)
@pytest.mark.parametrize("is_sized", [False, True], ids=["keys", "keys and sizes"])
@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_two_batches_behind_one_that_holds_what_both_want(
    database: SharedDatabase, is_sized: bool, held: tuple[str, str], ending: str
) -> None:
    """A third call blocks both in the middle; when it ends, they continue at the same time."""
    observer, gate = database.session("observer"), database.session("gate")
    one, two = database.session("one"), database.session("two")
    if is_sized:
        limit_sizes(observer, 100)
    gate.execute("BEGIN")
    create(gate, [held])
    early = database.start(partial(create, one, EVERY))
    until(lambda: database.is_waiting(one, gate), "the first batch to wait")
    late = database.start(partial(create, two, EVERY[::-1]))
    until(lambda: database.is_waiting(two, one) or database.is_waiting(two, gate), "the second batch to wait")
    end(gate, ending)
    results = [*early.result(timeout=10), *late.result(timeout=10)]
    made = len(EVERY) - (1 if ending == "commit" else 0)
    assert Counter(result for _, result in results) == {"created": made, "duplicate": 2 * len(EVERY) - made}
    assert value(observer, "SELECT COUNT(*) FROM message") == len(EVERY)
    check(observer)


# Every call that locks sizes, keys, messages or dead letters, all at once, each in its own transaction.


class Crowd:
    def __init__(self, database: SharedDatabase, seconds: float) -> None:
        self.database = database
        self.deadline = time.monotonic() + seconds

    def create(self, conn: psycopg.Connection, chance: random.Random) -> None:
        create(conn, chance.sample(EVERY, chance.randint(2, len(EVERY))))

    def finish(self, conn: psycopg.Connection, chance: random.Random) -> None:
        conn.execute("SELECT dispatch()")
        deliveries = take(conn, 6)
        chance.shuffle(deliveries)
        ids, tokens = [d.id for d in deliveries], [d.token for d in deliveries]
        if not deliveries:
            return
        if chance.random() < 0.5:
            conn.execute("SELECT message_complete_many(%s, %s)", (ids, tokens))
        else:
            errors = ["bad"] * len(ids)
            conn.execute("SELECT message_retry_many(%s, %s, p_errors => %s)", (ids, tokens, errors))

    def cancel(self, conn: psycopg.Connection, chance: random.Random) -> None:
        ids = [message_id for (message_id,) in conn.execute("SELECT id FROM message").fetchall()]
        chance.shuffle(ids)
        if ids:
            conn.execute("SELECT message_cancel_many(%s)", (ids[:4],))

    def retry(self, conn: psycopg.Connection, chance: random.Random) -> None:
        ids = [message_id for (message_id,) in conn.execute("SELECT id FROM dead").fetchall()]
        chance.shuffle(ids)
        if ids:
            call = chance.choice(["dead_retry(%s)", "dead_retry(%s)", "dead_discard(%s)"])
            conn.execute(f"SELECT {call}", (ids[:6],))

    def limit(self, conn: psycopg.Connection, chance: random.Random) -> None:
        conn.execute(
            "SELECT channel_set(%s, p_max_size => %s)", (chance.choice(CHANNELS), chance.choice([0, 2, 5]))
        )

    def delete(self, conn: psycopg.Connection, chance: random.Random) -> None:
        conn.execute(
            "SELECT channel_delete(%s, %s)", (chance.choice(CHANNELS), chance.choice([True, True, False]))
        )
        conn.execute("SELECT maintain()")

    def start(self, name: str, seed: int) -> "Future[int]":
        conn, chance = self.database.session(f"crowd {seed}"), random.Random(seed)
        call: Callable[[psycopg.Connection, random.Random], None] = getattr(self, name)

        def run() -> int:
            conn.execute("SET deadlock_timeout = '50ms'")
            rounds = 0
            while time.monotonic() < self.deadline:
                call(conn, chance)
                rounds += 1
            return rounds

        return self.database.start(run)


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param(("create", "create", "create", "create"), marks=pytest.mark.long),
        ("create", "create", "create", "finish", "finish"),
        pytest.param(("create", "create", "finish", "retry", "retry"), marks=pytest.mark.long),
        pytest.param(("create", "create", "finish", "cancel", "retry"), marks=pytest.mark.long),
        ("create", "create", "create", "limit", "finish"),
        pytest.param(("create", "create", "finish", "retry", "delete"), marks=pytest.mark.long),
        ("create", "create", "finish", "cancel", "retry", "limit", "delete"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("max_size", [0, 3], ids=["keys", "keys and sizes"])
def test_single_calls_never_deadlock(database: SharedDatabase, max_size: int, calls: tuple[str, ...]) -> None:
    observer = database.session("observer")
    observer.execute("SELECT queue_set(p_max_attempts => 1)")
    limit_sizes(observer, max_size)
    crowd = Crowd(database, seconds=0.7)
    running = [crowd.start(name, seed) for seed, name in enumerate(calls)]
    rounds = [future.result(timeout=20) for future in running]
    assert min(rounds) > 2, f"no crowd: {rounds}"
    check(observer)


def test_a_deleted_channels_keys(database: SharedDatabase) -> None:
    """A batch takes a key that is free again and then wants one that is taken, which the delete frees."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    ((finished, _),) = create(observer, [("a", "1")])
    assert value(observer, "SELECT message_cancel(%s)", finished) == "cancelled"
    until(lambda: value(observer, "SELECT until_at < clock_ms() FROM dedupe") is True, "the key to be free")
    create(observer, [("a", "5")])
    batch: Wanted = [("a", "1"), ("a", "5")]
    with paused(database, "after update dedupe", lambda one: create(one, batch)) as running:
        deleting = database.start(partial(value, two, "SELECT result FROM channel_delete('a', TRUE)"))
        until(lambda: deleting.done() or database.is_waiting(two, one), "the delete to go on or to wait")
    results = [result for _, result in running.result()]
    deleting.result(timeout=10)
    assert results[0] == "created"
    check(observer)


# Several calls in one transaction.


@pytest.mark.parametrize("what", ["keys", "sizes"])
def test_several_calls_in_opposite_orders_are_told_of_the_deadlock(
    database: SharedDatabase, what: str
) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    if what == "sizes":
        limit_sizes(observer, 100)

    def want(conn: psycopg.Connection, channel: str, mine: str) -> Any:
        return create(conn, [(channel, "same" if what == "keys" else mine)])

    for conn, channel in ((one, "a"), (two, "b")):
        conn.execute("BEGIN")
        want(conn, channel, channel)
    crossed = database.start(partial(want, one, "b", "first"))
    until(lambda: database.is_waiting(one, two), "the first to wait for the second")
    crossing = database.start(partial(want, two, "a", "second"))
    told = [future.exception(timeout=10) for future in (crossed, crossing)]
    assert sorted(type(error).__name__ for error in told) == ["DeadlockDetected", "NoneType"]
    loser, winner = (one, two) if told[0] else (two, one)
    assert isinstance(told[0] or told[1], DEADLOCK)
    assert (told[0] or told[1]).sqlstate == "40P01"  # type: ignore[union-attr]
    end(loser, "rollback")
    end(winner, "commit")
    assert value(observer, "SELECT COUNT(*) FROM message") == 2
    for channel in ("a", "b"):
        (made,) = want(loser, channel, "again")
        assert made[1] == ("duplicate" if what == "keys" else "created")
    check(observer)
