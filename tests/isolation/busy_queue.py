"""A queue in the middle of its work, and the operations that two sessions run on it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from tests import invariants
from tests.isolation.shared_database import Ledger, dispatch, take, value, wait_until_expired

MANY = 50


class Lease(NamedTuple):
    id: int
    token: UUID


@dataclass
class BusyQueue:
    """Three channels. Two have running leases (and, if asked for, one expired lease each); all have
    messages in `ready`; and the first channel and a new one have one message each that is not dispatched
    yet.
    """

    ledger: Ledger
    first: str
    second: str
    leases: dict[str, list[Lease]] = field(default_factory=dict)  # two per channel
    expired: dict[str, Lease] = field(default_factory=dict)
    third: str = "third"
    new: str = "new"


def create(conn: psycopg.Connection, ledger: Ledger, channel: str, text: str, at: int | None = None) -> int:
    message_id: int = value(conn, "SELECT id FROM message_create(%s, %s, %s)", channel, text.encode(), at)
    ledger.create(message_id, text.encode())
    return message_id


def build(conn: psycopg.Connection, *, expired: bool = False) -> BusyQueue:
    ledger = Ledger()
    for channel in ("east", "west"):
        for at in (1, 2, 3, 10, 11):
            create(conn, ledger, channel, f"{channel} {at}", at)
    dispatch(conn)
    busy = BusyQueue(ledger, first="", second="")
    for delivery in take(conn, 4):
        ledger.lease(delivery)
        busy.leases.setdefault(delivery.channel, []).append(Lease(delivery.id, delivery.token))
    create(conn, ledger, busy.third, "third 10", 10)
    dispatch(conn)
    last = take(conn, 2, lease_ms=1 if expired else 3_600_000)
    for delivery in last:
        if expired:
            ledger.expired[delivery.id] = delivery.token
            busy.expired[delivery.channel] = Lease(delivery.id, delivery.token)
        else:
            ledger.lease(delivery)
    if expired:
        wait_until_expired(conn, last)
    turns = conn.execute(
        "SELECT channel FROM ("
        "SELECT DISTINCT ON (channel) channel, tag, id FROM ready ORDER BY channel, tag, id) r"
        " ORDER BY tag, id"
    ).fetchall()
    busy.first, busy.second, third = (channel for (channel,) in turns)
    assert third == busy.third
    assert sorted(busy.leases) == ["east", "west"]
    create(conn, ledger, busy.new, "new 1", 10)
    create(conn, ledger, busy.first, "first, not dispatched", 12)
    return busy


@dataclass
class Outcome:
    """The result of a call, and what it means for the ledger once it is committed or rolled back."""

    result: Any
    commit: Callable[[Ledger], None] = lambda _ledger: None
    rollback: Callable[[Ledger], None] = lambda _ledger: None


Operation = Callable[[psycopg.Connection, BusyQueue, Any], Outcome]


def do_create(conn: psycopg.Connection, _busy: BusyQueue, channel: str) -> Outcome:
    row = conn.execute("SELECT * FROM message_create(%s, 'created')", (channel,)).fetchone()
    message_id, result = row or ()
    return Outcome(result, lambda ledger: ledger.create(message_id, b"created"))


def do_producer(conn: psycopg.Connection, busy: BusyQueue, _target: None) -> Outcome:
    channels = [busy.first, busy.second, busy.third, busy.new, *(f"bulk {i}" for i in range(MANY))]
    contents = [channel.encode() for channel in channels]
    rows = conn.execute("SELECT * FROM message_create_many(%s, %s)", (channels, contents)).fetchall()

    def commit(ledger: Ledger) -> None:
        for (message_id, _), content in zip(rows, contents, strict=True):
            ledger.create(message_id, content)

    return Outcome({result for _, result in rows}, commit)


def do_dispatch(conn: psycopg.Connection, _busy: BusyQueue, _target: None) -> Outcome:
    return Outcome(value(conn, "SELECT dispatch()"))


def do_sweep(conn: psycopg.Connection, _busy: BusyQueue, _target: None) -> Outcome:
    return Outcome(value(conn, "SELECT dispatch()"))


def do_dequeue(conn: psycopg.Connection, _busy: BusyQueue, limit: int) -> Outcome:
    deliveries, again_at = invariants.dequeue(conn, limit, 3_600_000)
    assert (again_at is not None) == (len(deliveries) < limit)

    def commit(ledger: Ledger) -> None:
        for delivery in deliveries:
            ledger.lease(delivery)

    def rollback(ledger: Ledger) -> None:
        ledger.void += [(delivery.id, delivery.token) for delivery in deliveries]

    return Outcome({delivery.channel for delivery in deliveries}, commit, rollback)


def do_complete(conn: psycopg.Connection, _busy: BusyQueue, lease: Lease) -> Outcome:
    result = value(conn, "SELECT message_complete(%s, %s)", *lease)
    return Outcome(result, lambda ledger: ledger.finish(lease.id) if result == "completed" else None)


def do_extend(conn: psycopg.Connection, _busy: BusyQueue, lease: Lease) -> Outcome:
    result = value(conn, "SELECT result FROM message_extend(%s, %s, 7200000)", *lease)

    def commit(ledger: Ledger) -> None:
        if result == "extended" and lease.id in ledger.expired:
            ledger.leases[lease.id] = ledger.expired.pop(lease.id)

    return Outcome(result, commit)


def do_retry(conn: psycopg.Connection, _busy: BusyQueue, lease: Lease) -> Outcome:
    result = value(conn, "SELECT message_retry(%s, %s, p_dequeue_at => 20)", *lease)
    return Outcome(result, lambda ledger: ledger.end_lease(lease.id) if result == "retried" else None)


def do_channel_set(conn: psycopg.Connection, _busy: BusyQueue, target: tuple[str, dict[str, int]]) -> Outcome:
    channel, options = target
    arguments = "".join(f", p_{name} => {number}" for name, number in options.items())
    row = conn.execute(f"SELECT * FROM channel_set(%s{arguments})", (channel,)).fetchone()
    assert row is not None

    def commit(ledger: Ledger) -> None:
        ledger.policies[channel] = row[1:]

    return Outcome(row[1:], commit)


def do_snapshot(conn: psycopg.Connection, _busy: BusyQueue, _target: None) -> Outcome:
    return Outcome(see(conn))


def see(conn: psycopg.Connection) -> Any:
    """The messages and leases that a snapshot sees."""
    messages = "SELECT id, channel, generation, attempts, dequeue_at, state FROM message ORDER BY id"
    leases = "SELECT token, last_id, end_at, stubs::TEXT FROM lease ORDER BY token, last_id"
    return conn.execute(messages).fetchall(), conn.execute(leases).fetchall()


OPERATIONS: dict[str, Operation] = {
    "create": do_create,
    "dispatch": do_dispatch,
    "dequeue": do_dequeue,
    "complete": do_complete,
    "extend": do_extend,
    "retry": do_retry,
    "sweep": do_sweep,
    "channel_set": do_channel_set,
    "producer": do_producer,
    "snapshot": do_snapshot,
}
