"""Checks the server: its version and settings, what holds back vacuum, and free connections."""

from __future__ import annotations

import time

from lonnymq.doctor.checks import Check, CheckResult, Database, ok, problem, warning
from lonnymq.formatting import HOUR, MINUTE, SECOND, count, duration

OLDEST_VERSION = 15
CLOCK_OFF_MS = SECOND
OLD_TRANSACTION_MS, VERY_OLD_TRANSACTION_MS = 5 * MINUTE, HOUR
IDLE_TRANSACTION_MS = MINUTE
OLD_XIDS = 1_000_000
FEW_CONNECTIONS, VERY_FEW_CONNECTIONS = 0.2, 0.05
SEES_NO_SESSIONS = "this login cannot see the sessions of others"
GRANT_STATS = "grant it pg_read_all_stats, or run doctor as a superuser"


def server_version(db: Database) -> CheckResult:
    version = db.conn.info.server_version // 10_000
    if version < OLDEST_VERSION:
        return problem(f"PostgreSQL {version}", f"upgrade to PostgreSQL {OLDEST_VERSION} or newer")
    return ok(f"PostgreSQL {db.setting('server_version')}")


def fsync(db: Database) -> CheckResult:
    if db.setting("fsync") == "off":
        return problem("fsync is off: a crash can destroy the database", "set fsync = on")
    return ok("on")


def full_page_writes(db: Database) -> CheckResult:
    if db.setting("full_page_writes") == "off":
        return problem(
            "full_page_writes is off: a crash can corrupt the database",
            "set full_page_writes = on, unless the storage never writes partial pages",
        )
    return ok("on")


def synchronous_commit(db: Database) -> CheckResult:
    if db.setting("synchronous_commit") == "off":
        return warning(
            "synchronous_commit is off: a crash loses messages enqueued shortly before",
            "set synchronous_commit = on, at least for producers; dequeue switches it off by itself",
        )
    return ok(db.setting("synchronous_commit"))


def clock(db: Database) -> CheckResult:
    """Subtracts half of the round trip, which is not a difference of the clocks."""
    before = time.time() * 1000
    (server,) = db.one("SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::float8")
    after = time.time() * 1000
    off = round(abs(server - (before + after) / 2) - (after - before) / 2)
    if off > CLOCK_OFF_MS:
        return warning(
            f"this machine's clock and the database's differ by {duration(off)}",
            "synchronise both with NTP: delays use the database's clock, but run_at comes from your programs",
        )
    return ok("the clocks of the database and of this machine agree to the second")


def _sees_others(db: Database) -> bool:
    (sees,) = db.one("SELECT pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')")
    return bool(sees)


def open_transactions(db: Database) -> CheckResult:
    if not _sees_others(db):
        return warning(SEES_NO_SESSIONS, GRANT_STATS)
    found = db.rows(
        "SELECT pid, state LIKE 'idle%',"
        "  (EXTRACT(EPOCH FROM clock_timestamp() - xact_start) * 1000)::bigint,"
        "  (EXTRACT(EPOCH FROM clock_timestamp() - state_change) * 1000)::bigint"
        " FROM pg_catalog.pg_stat_activity"
        " WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()"
        "   AND backend_type IN ('client backend', 'walsender') ORDER BY xact_start"
    )
    for pid, _, age, _ in found[:1]:
        if age >= VERY_OLD_TRANSACTION_MS:
            return problem(*_old_transaction(pid, age))
    for pid, is_idle, _, idle in found:
        if is_idle and idle >= IDLE_TRANSACTION_MS:
            return warning(
                f"session {pid} has been idle in a transaction for {duration(idle)}",
                f"make the program commit, or run SELECT pg_terminate_backend({pid});"
                " idle_in_transaction_session_timeout prevents it",
            )
    for pid, _, age, _ in found[:1]:
        if age >= OLD_TRANSACTION_MS:
            return warning(*_old_transaction(pid, age))
    return ok(f"the oldest has been open for {duration(found[0][2])}" if found else "none")


def _old_transaction(pid: int, age: int) -> tuple[str, str]:
    return (
        f"session {pid} has had a transaction open for {duration(age)}: vacuum cannot remove newer dead rows",
        f"let it finish, or run SELECT pg_terminate_backend({pid})",
    )


def prepared_transactions(db: Database) -> CheckResult:
    found = db.rows(
        "SELECT gid, (EXTRACT(EPOCH FROM clock_timestamp() - prepared) * 1000)::bigint"
        " FROM pg_catalog.pg_prepared_xacts WHERE database = current_database() ORDER BY prepared LIMIT 1"
    )
    for gid, age in found:
        if age >= OLD_TRANSACTION_MS:
            how = problem if age >= VERY_OLD_TRANSACTION_MS else warning
            return how(
                f"transaction {gid!r} was prepared {duration(age)} ago and still holds back vacuum",
                "run COMMIT PREPARED or ROLLBACK PREPARED",
            )
    return ok("none is old" if found else "none")


def replication_slots(db: Database) -> CheckResult:
    found = db.rows(
        "SELECT slot_name, active, COALESCE(age(xmin), 0), wal_status"
        " FROM pg_catalog.pg_replication_slots ORDER BY age(xmin) DESC NULLS LAST"
    )
    for name, active, age, wal in found:
        if wal in {"unreserved", "lost"}:
            return problem(
                f"replication slot {name} has fallen too far behind ({wal})",
                f"rebuild its standby, or run SELECT pg_drop_replication_slot('{name}')",
            )
        if age >= OLD_XIDS:
            return (warning if active else problem)(
                f"replication slot {name} holds back vacuum by {count(age)} transactions",
                f"check its standby, or run SELECT pg_drop_replication_slot('{name}')",
            )
    return ok(f"{len(found)}, none far behind" if found else "none")


def connections(db: Database) -> CheckResult:
    used, most, reserved = db.one(
        "SELECT (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend'),"
        " current_setting('max_connections')::int,"
        " current_setting('superuser_reserved_connections')::int"
        " + COALESCE(current_setting('reserved_connections', TRUE)::int, 0)"
    )
    room = most - reserved
    usage = f"{used} of {room} in use"
    if room - used <= room * FEW_CONNECTIONS:
        how = problem if room - used <= room * VERY_FEW_CONNECTIONS else warning
        return how(usage, "raise max_connections, use smaller pools, or put a pooler in between")
    return ok(usage)


SERVER_CHECKS: dict[str, Check] = {
    "server": server_version,
    "fsync": fsync,
    "full page writes": full_page_writes,
    "synchronous commit": synchronous_commit,
    "clock": clock,
    "connections": connections,
    "open transactions": open_transactions,
    "prepared transactions": prepared_transactions,
    "replication slots": replication_slots,
}
