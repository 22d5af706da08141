"""Many clients at once, over real connections, doing everything that clients do wrong.

Invariants 1-7, 9-11, 14 and 17, judged from what the clients saw. LONNYMQ_FAULT_SECONDS makes it last longer,
LONNYMQ_FAULT_SEED repeats the clients' choices (not the server's timing).
"""

import os
import secrets
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import psycopg
import pytest

from tests.database import Connect
from tests.faults.clients import Consumer, Killer, Maintainer, Pauser, Producer
from tests.faults.history import Dead, History, Judge, Policy
from tests.judge import check, dequeue, fold

FREE = [f"free-{i}" for i in range(5)]
POLICIES = {
    "one": Policy(max_concurrency=1),
    "three": Policy(max_concurrency=3),
    "slow": Policy(release_interval_ms=40),
    "slow-one": Policy(max_concurrency=1, release_interval_ms=25),
    "stopped": Policy(max_concurrency=2),
}
DRAIN_SECONDS = 60.0
# What must have happened for the run to say anything.
WANTED = (
    "create ok",
    "create fail",
    "savepoint rolled back",
    "complete completed ok",
    "complete lost ok",
    "complete not_found ok",
    "defer deferred ok",
    "fail deferred ok",
    "fail dead ok",
    "extend extended ok",
    "dequeue rolled back",
    "forgotten",
    "stalled",
    "killed",
    "cut",
    "rows cleaned",
)


def run_clients(dsn: str, conn: psycopg.Connection, seed: str, seconds: float) -> History:
    producers = [Producer(f"producer-{i}", dsn, seed, FREE, limited=list(POLICIES)) for i in range(4)]
    consumers = [Consumer(f"consumer-{i}", dsn, seed) for i in range(4)]
    is_over, is_drained = threading.Event(), threading.Event()
    with ThreadPoolExecutor(max_workers=12) as pool:
        try:
            makers = [pool.submit(producer.run, is_over) for producer in producers]
            makers.append(pool.submit(Pauser("pauser", dsn, seed).run, "stopped", is_over))
            makers.append(pool.submit(Killer("killer", dsn, seed).run, [*producers, *consumers], is_over))
            servers = [pool.submit(consumer.run, is_over, is_drained) for consumer in consumers]
            servers.append(pool.submit(Maintainer("maintainer", dsn, seed).run, is_drained))
            _wait(seconds, [*makers, *servers])
            is_over.set()
            history = History()
            for future in makers:
                history += future.result(timeout=30)
            deadline = time.monotonic() + DRAIN_SECONDS + seconds
            while conn.execute("SELECT EXISTS (SELECT FROM message)").fetchone() == (True,):
                if time.monotonic() > deadline or any(future.done() for future in servers):
                    break
                time.sleep(0.05)
        finally:
            is_over.set()
            is_drained.set()
        for future in servers:
            history += future.result(timeout=30)
    return history


def _wait(seconds: float, futures: list[Future[History]]) -> None:
    """A client that ends before its time has failed."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not any(future.done() for future in futures):
        time.sleep(0.05)


@pytest.mark.timeout(1200)
def test_nothing_is_lost_and_no_limit_broken(dsn: str, connect: Connect, conn: psycopg.Connection) -> None:
    seed = os.environ.get("LONNYMQ_FAULT_SEED", secrets.token_hex(4))
    print(f"LONNYMQ_FAULT_SEED={seed}")
    for channel, policy in POLICIES.items():
        limits = (channel, policy.max_concurrency, policy.release_interval_ms)
        conn.execute("SELECT * FROM channel_set(%s, %s, %s)", limits)
    snapshot = connect(autocommit=False)
    snapshot.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    snapshot.execute("SELECT 1")
    history = run_clients(dsn, conn, seed, float(os.environ.get("LONNYMQ_FAULT_SECONDS", "8")))
    snapshot.rollback()
    print(dict(sorted(history.notes.items())))
    stored = [row[0] for row in conn.execute("SELECT content FROM message")]
    dead = [Dead(*row) for row in conn.execute("SELECT id, attempts, max_attempts, content FROM dead")]
    broken = Judge(history, stored=stored, dead=dead, policies=POLICIES).violations()
    assert not broken, f"seed {seed}, {len(broken)} violations, the first: {broken[:10]}"
    assert not stored, f"seed {seed}: not served: {stored[:5]}"
    missing = [what for what in WANTED if not history.notes[what]]
    assert not missing, f"seed {seed}: did not happen: {missing}"
    # Invariant 17: at rest, and one visit more finds and does nothing.
    check(conn)
    assert conn.execute("SELECT channel FROM ring WHERE due_at IS NOT NULL").fetchall() == []
    assert conn.execute("SELECT * FROM postponed").fetchall() == []
    assert dequeue(conn, 100)[0] == []
    assert fold(conn) == 1
