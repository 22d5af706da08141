"""Numbers that say how well the database keeps up: old transactions and snapshots, and dispatch."""

# ruff: noqa: S608 - the schema's name is quoted

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lonnymq.doctor.checks import Database


@dataclass(frozen=True, slots=True)
class Measures:
    """Durations are in milliseconds. None: there is none, or this login may not see it.

    `snapshot_xids`: how many transactions began since the oldest snapshot; vacuum cannot remove what these
    deleted. `dispatched_ms`: since the last dispatch. `undispatched_ms`: how long the oldest message waits
    that is not dispatched yet.
    """

    transaction_ms: int | None
    snapshot_xids: int | None
    dispatched_ms: int | None
    undispatched_ms: int | None


def measure(db: Database) -> Measures:
    return Measures(
        _number(db, _transaction),
        _number(db, _snapshot),
        _number(db, _dispatched),
        _number(db, _undispatched),
    )


def _number(db: Database, read: Callable[[Database], object]) -> int | None:
    from psycopg import DatabaseError, OperationalError

    try:
        found = read(db)
    except OperationalError:
        raise
    except DatabaseError:
        return None
    return found if isinstance(found, int) else None


def _transaction(db: Database) -> object:
    return db.one(
        "SELECT (EXTRACT(EPOCH FROM clock_timestamp() - min(xact_start)) * 1000)::bigint"
        " FROM pg_catalog.pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        "   AND backend_type IN ('client backend', 'walsender')"
    )[0]


def _snapshot(db: Database) -> object:
    return db.one(
        "SELECT max(GREATEST(age(backend_xmin), age(backend_xid))) FROM pg_catalog.pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )[0]


def _dispatched(db: Database) -> object:
    return db.one(
        "SELECT GREATEST(0, (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint - at)"
        f" FROM {db.name}.tick ORDER BY id DESC LIMIT 1"
    )[0]


def _undispatched(db: Database) -> object:
    """The first notice of new messages that the last dispatch has not read."""
    found = db.rows(
        "SELECT GREATEST(0, (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint - m.created_at)"
        f" FROM (SELECT seen_xid, seen_id FROM {db.name}.tick ORDER BY id DESC LIMIT 1) t"
        f" CROSS JOIN LATERAL (SELECT n.lo_id FROM {db.name}.notice n"
        "   WHERE (n.xid, n.id) > (t.seen_xid, t.seen_id) AND n.lo_id IS NOT NULL"
        "   ORDER BY n.xid, n.id LIMIT 1) w"
        f" JOIN {db.name}.message m ON m.id = w.lo_id"
    )
    return found[0][0] if found else None
