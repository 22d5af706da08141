"""Several sessions on one queue, and a ledger of what it must still deliver."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import psycopg
from psycopg.pq import TransactionStatus

from tests import invariants
from tests.conftest import SCHEMA

# Much longer than any call takes.
TIMEOUT_S = 10.0
EMPTIED = (
    *(
        "message",
        "notice",
        "scheduled",
        "alarm",
        "line",
        "backlog",
        "ready",
        "ready_locked",
        "recent_tag",
        "lease",
        "tick",
    ),
    *("dead", "channel", "policy_change", "slots", "dedupe", "capacity", "departure", "served_by", "tally"),
    *("staging", "staging_chunk", "batch", "batch_part", "batch_count"),
)
# The leased messages: stubs of leases whose message still has that generation.
LEASED = """
    SELECT m.id, m.channel, l.token, l.end_at, m.attempts
    FROM lease l CROSS JOIN unnest(l.stubs) s JOIN message m ON m.id = s.id AND m.generation = s.generation"""


def until(is_true: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
    """Poll until it is true; fail after the timeout."""
    deadline = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < deadline, f"timed out waiting for: {what}"
        time.sleep(0.002)


def value(conn: psycopg.Connection, query: str, *parameters: Any) -> Any:
    row = conn.execute(query, parameters or None).fetchone()
    return None if row is None else row[0]


@dataclass
class Ledger:
    """What the queue must still deliver, by message id."""

    contents: dict[int, bytes] = field(default_factory=dict)  # of every message that must still exist
    used: dict[int, int] = field(default_factory=dict)  # attempts used up
    leases: dict[int, UUID] = field(default_factory=dict)  # running: valid until completed
    expired: dict[int, UUID] = field(default_factory=dict)  # expired: valid until the next sweep
    void: list[tuple[int, UUID]] = field(default_factory=list)  # must never be accepted again
    policies: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def create(self, message_id: int, content: bytes) -> None:
        self.contents[message_id] = content
        self.used[message_id] = 0

    def lease(self, delivery: invariants.Delivery) -> None:
        assert delivery.id not in self.leases, f"invariant 4: message {delivery.id} runs already"
        assert delivery.content == self.contents[delivery.id], "invariant 3: not what was created"
        assert delivery.attempts == self.used[delivery.id] + 1, f"invariant 14: {delivery}"
        self.leases[delivery.id] = delivery.token

    def end_lease(self, message_id: int) -> None:
        token = self.leases.pop(message_id, None) or self.expired.pop(message_id)
        self.void.append((message_id, token))

    def sweep(self) -> None:
        """All expired leases have ended."""
        for message_id in list(self.expired):
            self.end_lease(message_id)
            self.used[message_id] += 1

    def finish(self, message_id: int) -> None:
        self.end_lease(message_id)
        del self.contents[message_id]


def dispatch(conn: psycopg.Connection) -> int:
    """Dispatch until nothing is left to do; returns the number of calls."""
    for calls in range(1, 5_000):
        if not value(conn, "SELECT dispatch()"):
            return calls
    raise AssertionError("dispatching does not finish")


def leased_ids(conn: psycopg.Connection) -> set[int]:
    return {message_id for (message_id,) in conn.execute(f"SELECT id FROM ({LEASED}) l")}


def leased_by_channel(conn: psycopg.Connection) -> dict[str, int]:
    rows = conn.execute(f"SELECT channel, COUNT(*) FROM ({LEASED}) l GROUP BY channel").fetchall()
    return {str(channel): int(count) for channel, count in rows}


def check_limits(conn: psycopg.Connection) -> None:
    """Invariant 7. It holds at any moment, even while other transactions are open."""
    limits = conn.execute("SELECT name, max_concurrency FROM channel WHERE max_concurrency IS NOT NULL")
    held = leased_by_channel(conn)
    for channel, limit in limits.fetchall():
        assert held.get(channel, 0) <= limit, (
            f"invariant 7: {held[channel]} run in {channel}, allowed are {limit}"
        )


def take(conn: psycopg.Connection, limit: int = 100, lease_ms: int = 3_600_000) -> list[invariants.Delivery]:
    return invariants.dequeue(conn, limit, lease_ms)[0]


def wait_until_expired(conn: psycopg.Connection, deliveries: list[invariants.Delivery]) -> None:
    last = max(delivery.lease_end_at for delivery in deliveries)
    until(lambda: bool(value(conn, "SELECT clock_ms() > %s", last)), "leases to run out")


def unsettled(conn: psycopg.Connection) -> int:
    """How many rows the dispatcher will look at again because they were locked, plus the expired leases."""
    return int(
        value(
            conn,
            "SELECT (SELECT COUNT(*) FROM ready_locked) + (SELECT COUNT(*) FROM alarm WHERE channel IS NULL)"
            f" + (SELECT COUNT(*) FROM ({LEASED}) l WHERE l.end_at < clock_ms())",
        )
    )


def settle(conn: psycopg.Connection, ledger: Ledger) -> None:
    """Dispatch until no row is set aside and every expired lease is swept; until then its token is valid. A
    sweep that finds a message locked leaves its lease for another second.
    """

    def is_settled() -> bool:
        dispatch(conn)
        tokens: dict[int, UUID] = dict(conn.execute(f"SELECT id, token FROM ({LEASED}) l").fetchall())
        return unsettled(conn) == 0 and not any(
            tokens.get(message_id) == token for message_id, token in ledger.expired.items()
        )

    until(is_settled, "the dispatcher to settle")


def check_and_deliver_all(conn: psycopg.Connection, ledger: Ledger) -> None:
    """At rest: every invariant holds, every message of the ledger is delivered exactly once, and exactly
    the live tokens are accepted.
    """
    settle(conn, ledger)
    ledger.sweep()
    invariants.check(conn)
    check_limits(conn)
    for channel, policy in ledger.policies.items():
        row = conn.execute("SELECT * FROM channel_get(%s)", (channel,)).fetchone()
        assert row == (channel, *policy)
    for message_id, token in ledger.void:
        refused = value(conn, "SELECT message_complete(%s, %s)", message_id, token)
        assert refused in {"lost", "not_found"}, (
            f"invariant 5: a token that was void made {message_id} {refused}"
        )
    running = dict(ledger.leases)
    deliver_all(conn, ledger, but=set(running))
    for message_id, token in running.items():
        honoured = value(conn, "SELECT message_complete(%s, %s)", message_id, token)
        assert honoured == "completed", f"invariant 5: a live token made {message_id} {honoured}"
        ledger.finish(message_id)
    deliver_all(conn, ledger)
    assert not ledger.contents, f"invariant 1: lost {ledger.contents}"
    assert value(conn, "SELECT COUNT(*) FROM message") == 0, "invariant 2: more is there than was created"
    assert value(conn, "SELECT COUNT(*) FROM dead") == 0
    invariants.check(conn)


def deliver_all(
    conn: psycopg.Connection, ledger: Ledger, but: frozenset[int] | set[int] = frozenset()
) -> None:
    """Deliver and complete all messages, except those that are leased elsewhere or wait for a slot."""

    def is_stuck(message_id: int) -> bool:
        channel = value(conn, "SELECT channel FROM message WHERE id = %s", message_id)
        limit = value(conn, "SELECT max_concurrency FROM channel WHERE name = %s", channel)
        return limit is not None and leased_by_channel(conn).get(channel, 0) >= limit

    deadline = time.monotonic() + TIMEOUT_S
    while True:
        dispatch(conn)
        for delivery in take(conn):
            ledger.lease(delivery)
            check_limits(conn)
            done = value(conn, "SELECT message_complete(%s, %s)", delivery.id, delivery.token)
            assert done == "completed", f"message {delivery.id} was {done}"
            ledger.finish(delivery.id)
        left = [message_id for message_id in ledger.contents if message_id not in but]
        if all(is_stuck(message_id) for message_id in left):
            return
        assert time.monotonic() < deadline, f"invariant 13: {left} are not delivered"


class SharedDatabase:
    """One database for a whole module, emptied before each test. Its sessions are long-lived, like those of
    clients.
    """

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.sessions: dict[str, psycopg.Connection] = {}
        self.threads = ThreadPoolExecutor(8)

    def session(self, name: str) -> psycopg.Connection:
        if name not in self.sessions:
            self.sessions[name] = psycopg.connect(
                self.dsn, autocommit=True, options=f"-c search_path={SCHEMA}", application_name=name
            )
        return self.sessions[name]

    def empty(self) -> None:
        for name, conn in list(self.sessions.items()):
            if conn.closed or conn.info.transaction_status is not TransactionStatus.IDLE:
                conn.close()
                del self.sessions[name]
        conn = self.session("observer")
        # What a failed test has left running.
        conn.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'"
        )
        for table in EMPTIED:
            conn.execute(f"DELETE FROM {table}")
        conn.execute("DELETE FROM queue; INSERT INTO queue DEFAULT VALUES")
        conn.execute("DELETE FROM sleep; INSERT INTO sleep (is_asleep) VALUES (FALSE)")
        dispatch(conn)

    def close(self) -> None:
        for conn in self.sessions.values():
            conn.close()
        self.threads.shutdown()

    def is_waiting(self, waiter: psycopg.Connection, holder: psycopg.Connection) -> bool:
        blocking: list[int] = value(
            self.session("observer"), "SELECT pg_blocking_pids(%s)", waiter.info.backend_pid
        )
        return holder.info.backend_pid in blocking

    def start(self, call: Callable[[], Any]) -> "Future[Any]":
        return self.threads.submit(call)


def commit_later_transaction(conn: psycopg.Connection) -> None:
    """Commit a later transaction, so that transactions that are open now lie below the xmax of new
    snapshots.
    """
    conn.execute("SELECT pg_current_xact_id()")


@contextmanager
def fail_on_lock_wait(conn: psycopg.Connection) -> Iterator[None]:
    """Inside this block, waiting for a lock is an error."""
    conn.execute("SET lock_timeout = '300ms'; SET statement_timeout = '60s'")
    try:
        yield
    finally:
        conn.execute("RESET lock_timeout; RESET statement_timeout")


def end(conn: psycopg.Connection, ending: str) -> None:
    conn.execute("COMMIT" if ending == "commit" else "ROLLBACK")
