"""Many clients at once, over real connections, making every mistake that clients make.

Checks invariants 1-7, 9-11, 14, 15 and 17 against what the clients saw. LONNYMQ_FAULT_SECONDS sets how long
it runs; LONNYMQ_FAULT_SEED repeats the clients' choices, but not the server's timing.
"""

import os
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import psycopg
import pytest

from tests.database import Connect
from tests.faults.clients import (
    Auditor,
    Client,
    Consumer,
    Killer,
    Maintainer,
    Operator,
    Pauser,
    Producer,
    Sleeper,
)
from tests.faults.ends import AUDITS, EndChecker
from tests.faults.history import Dead, Finished, History, HistoryChecker, Outcome, Policy
from tests.invariants import check, dequeue, dispatch

FREE = [f"free-{i}" for i in range(5)]
POLICIES = {
    "one": Policy(max_concurrency=1),
    "three": Policy(max_concurrency=3),
    "slow": Policy(release_interval_ms=40),
    "bursts": Policy(release_interval_ms=30, burst=6),
    "slow-one": Policy(max_concurrency=1, release_interval_ms=25),
    "stopped": Policy(max_concurrency=2),
}
DOOMED = "doomed"  # a channel that is deleted again and again
SIZES = {"free-0": 10, "three": 5}
QUEUE_LIMIT = 12
KEEP_MS = 100
FINISHED = """
    SELECT id, outcome, channel, finished_at, attempts, dedupe_key, content FROM finished"""
SERVED = """
    SELECT channel, SUM(served)::BIGINT
    FROM (
        SELECT channel, served FROM tally
        UNION ALL SELECT s.channel, s.n FROM served_by b CROSS JOIN unnest(b.shares) s) s
    GROUP BY channel"""
DRAIN_SECONDS = 60.0
# If one of these did not happen, the run proves nothing.
EXPECTED_EVENTS = (
    "create ok",
    "create fail",
    "savepoint rolled back",
    "complete completed ok",
    "complete lost ok",
    "complete not_found ok",
    "release retried ok",
    "fail retried ok",
    "fail dead ok",
    "extend extended ok",
    "dequeue rolled back",
    "forgotten",
    "stalled",
    "killed",
    "connection dropped",
    "rows cleaned",
)
EXPECTED_WITH_EVERYTHING = (
    "create duplicate",
    "create full",
    "complete cancelled ok",
    "cancel cancelled",
    "cancel marked",
    "cancel dead",
    "reschedule rescheduled",
    "reschedule leased",
    "retry retried",
    "retry all",
    "discard discarded",
    "delete deleted",
    "slept",
    "notified",
    "audited",
)


@dataclass
class Clients:
    """The running clients. `others` stop with the producers, `watchers` when everything is served."""

    producers: list[Producer]
    consumers: list[Consumer]
    others: list[Callable[[threading.Event], History]]
    watchers: list[Callable[[threading.Event], History]]

    @property
    def killable(self) -> list[Client]:
        return [*self.producers, *self.consumers]


def run_clients(conn: psycopg.Connection, clients: Clients, seconds: float) -> History:
    is_over, is_drained = threading.Event(), threading.Event()
    with ThreadPoolExecutor(max_workers=20) as pool:
        try:
            producing = [pool.submit(producer.run, is_over) for producer in clients.producers]
            producing += [pool.submit(run, is_over) for run in clients.others]
            consuming = [pool.submit(consumer.run, is_over, is_drained) for consumer in clients.consumers]
            consuming += [pool.submit(run, is_drained) for run in clients.watchers]
            _wait(seconds, [*producing, *consuming])
            is_over.set()
            history = History()
            for future in producing:
                history += future.result(timeout=30)
            deadline = time.monotonic() + DRAIN_SECONDS + seconds
            while conn.execute("SELECT EXISTS (SELECT FROM message)").fetchone() == (True,):
                if time.monotonic() > deadline or any(future.done() for future in consuming):
                    break
                time.sleep(0.05)
        finally:
            is_over.set()
            is_drained.set()
        for future in consuming:
            history += future.result(timeout=30)
    return history


def _wait(seconds: float, futures: list[Future[History]]) -> None:
    """Wait, but no longer than until a client stops, which means that it has failed."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not any(future.done() for future in futures):
        time.sleep(0.05)


def prepare(connect: Connect, conn: psycopg.Connection) -> tuple[str, float, psycopg.Connection]:
    """The seed, the length of the run, and a snapshot that stays open during it."""
    seed = os.environ.get("LONNYMQ_FAULT_SEED", secrets.token_hex(4))
    print(f"LONNYMQ_FAULT_SEED={seed}")
    for channel, policy in POLICIES.items():
        limits = (channel, policy.max_concurrency, 1000 * policy.release_interval_ms, policy.burst)
        conn.execute("SELECT * FROM channel_set(%s, %s, %s, %s)", limits)
    snapshot = connect(autocommit=False)
    snapshot.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    snapshot.execute("SELECT 1")
    return seed, float(os.environ.get("LONNYMQ_FAULT_SECONDS", "8")), snapshot


def dead_letters(conn: psycopg.Connection) -> list[Dead]:
    return [Dead(*row) for row in conn.execute("SELECT id, attempts, max_attempts, content FROM dead")]


def check_empty_queue(conn: psycopg.Connection) -> None:
    """Invariant 17: one more dequeue finds nothing and changes nothing."""
    check(conn)
    for place in ("line", "backlog WHERE ranges <> '{}'", "ready", "scheduled", "ready_locked"):
        assert conn.execute(f"SELECT * FROM {place}".encode()).fetchall() == []
    assert dequeue(conn, 100)[0] == []
    assert dispatch(conn) == 1


@pytest.mark.long  # the next test checks the same, and more
@pytest.mark.timeout(1200)
def test_nothing_is_lost_and_no_limit_broken(dsn: str, connect: Connect, conn: psycopg.Connection) -> None:
    seed, seconds, snapshot = prepare(connect, conn)
    clients = Clients(
        producers=[Producer(f"producer-{i}", dsn, seed, FREE, limited=list(POLICIES)) for i in range(4)],
        consumers=[Consumer(f"consumer-{i}", dsn, seed) for i in range(4)],
        others=[partial(Pauser("pauser", dsn, seed).run, "stopped")],
        watchers=[Maintainer("maintainer", dsn, seed).run],
    )
    clients.others.append(partial(Killer("killer", dsn, seed).run, clients.killable))
    history = run_clients(conn, clients, seconds)
    snapshot.rollback()
    print(dict(sorted(history.notes.items())))
    stored = [row[0] for row in conn.execute("SELECT content FROM message")]
    broken = HistoryChecker(history, stored=stored, dead=dead_letters(conn), policies=POLICIES).violations()
    assert not broken, f"seed {seed}, {len(broken)} violations, the first: {broken[:10]}"
    assert not stored, f"seed {seed}: not served: {stored[:5]}"
    missing = [what for what in EXPECTED_EVENTS if not history.notes[what]]
    assert not missing, f"seed {seed}: did not happen: {missing}"
    check_empty_queue(conn)


def enable_everything(conn: psycopg.Connection) -> None:
    for channel, size in SIZES.items():
        conn.execute("SELECT * FROM channel_set(%s, p_max_size => %s)", (channel, size))
    conn.execute(
        "SELECT * FROM queue_set(p_max_concurrency => %s, p_history => TRUE, p_history_content => TRUE)",
        (QUEUE_LIMIT,),
    )


def all_clients(dsn: str, seed: str) -> Clients:
    channels = [*FREE, DOOMED]
    limited = list(POLICIES)
    clients = Clients(
        producers=[
            Producer(
                f"producer-{i}", dsn, seed, channels, limited=limited, keyed=0.4, keep_ms=KEEP_MS, poison=0.1
            )
            for i in range(4)
        ],
        consumers=[
            *(Consumer(f"consumer-{i}", dsn, seed) for i in range(3)),
            *(Sleeper(f"sleeper-{i}", dsn, seed) for i in range(2)),
        ],
        others=[
            partial(Pauser("pauser", dsn, seed).run, "stopped"),
            partial(Pauser("queue-pauser", dsn, seed).run, None),
            *(Operator(f"operator-{i}", dsn, seed, doomed=DOOMED).run for i in range(2)),
        ],
        watchers=[
            Maintainer("maintainer", dsn, seed).run,
            partial(Auditor("auditor", dsn, seed).run, AUDITS),
        ],
    )
    clients.others.append(partial(Killer("killer", dsn, seed).run, clients.killable))
    return clients


@pytest.mark.timeout(1200)
def test_with_every_feature_enabled(dsn: str, connect: Connect, conn: psycopg.Connection) -> None:
    """Adds invariant 15, channel sizes, a limit over all channels, and one history row per end."""
    seed, seconds, snapshot = prepare(connect, conn)
    enable_everything(conn)
    history = run_clients(conn, all_clients(dsn, seed), seconds)
    snapshot.rollback()
    print(dict(sorted(history.notes.items())))
    stored = [row[0] for row in conn.execute("SELECT content FROM message")]
    finished = [Finished(*row) for row in conn.execute(FINISHED)]
    dispatch(conn)
    served: dict[str, int] = dict(conn.execute(SERVED).fetchall())
    dead = dead_letters(conn)
    broken = HistoryChecker(
        history,
        stored=stored,
        dead=dead,
        policies=POLICIES,
        queue_limit=QUEUE_LIMIT,
        finished=finished,
    ).violations()
    broken += EndChecker(
        history, finished, stored=stored, dead=dead, keep_ms=KEEP_MS, sizes=SIZES, served=served
    ).violations()
    assert not broken, f"seed {seed}, {len(broken)} violations, the first: {broken[:10]}"
    assert not stored, f"seed {seed}: not served: {stored[:5]}"
    missing = [what for what in (*EXPECTED_EVENTS, *EXPECTED_WITH_EVERYTHING) if not history.notes[what]]
    assert not missing, f"seed {seed}: did not happen: {missing}"
    check_empty_queue(conn)
    for rule, query in AUDITS.items():
        assert conn.execute(query).fetchall() == [], rule
    check_counts(conn, history)


def check_counts(conn: psycopg.Connection, history: History) -> None:
    """The counts that the dispatches summed up, over the whole run."""
    row = conn.execute("SELECT waiting, leased, dead, served, running FROM queue_stats()").fetchone()
    assert row is not None
    dead = conn.execute("SELECT COUNT(*) FROM dead").fetchall()[0][0]
    assert row[:3] == (0, 0, dead)
    certain = sum(d.outcome is Outcome.OK for d in history.deliveries)
    possible = sum(d.outcome is Outcome.UNKNOWN for d in history.deliveries)
    assert certain <= row[3] <= certain + possible + 30 * history.hidden_dequeues
    assert row[4] == 0
