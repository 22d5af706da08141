"""The server: its version, its settings, and what holds back vacuum or runs out."""

from __future__ import annotations

import time

from lonnymq.cli.doctor.checks import Check, Patient, Verdict, ok, problem, warning
from lonnymq.cli.formatting import HOUR, MINUTE, SECOND, count, span

OLDEST_VERSION = 15
CLOCK_OFF_MS = SECOND
OLD_TRANSACTION_MS, VERY_OLD_TRANSACTION_MS = 5 * MINUTE, HOUR
IDLE_TRANSACTION_MS = MINUTE
OLD_XIDS = 1_000_000
FEW_CONNECTIONS, HARDLY_ANY_CONNECTIONS = 0.2, 0.05
NOT_SEEN = "this login does not see the sessions of others"
LET_SEE = "grant it pg_read_all_stats, or run doctor as an administrator"


def server_version(patient: Patient) -> Verdict:
    version = patient.conn.info.server_version // 10_000
    if version < OLDEST_VERSION:
        return problem(f"PostgreSQL {version}", f"upgrade to PostgreSQL {OLDEST_VERSION} or newer")
    return ok(f"PostgreSQL {patient.setting('server_version')}")


def fsync(patient: Patient) -> Verdict:
    if patient.setting("fsync") == "off":
        return problem("fsync is off: a crash can destroy the database", "set fsync = on")
    return ok("on")


def full_page_writes(patient: Patient) -> Verdict:
    if patient.setting("full_page_writes") == "off":
        return problem(
            "full_page_writes is off: a crash can destroy pages",
            "set it on, unless the disk never tears pages",
        )
    return ok("on")


def synchronous_commit(patient: Patient) -> Verdict:
    if patient.setting("synchronous_commit") == "off":
        return warning(
            "synchronous_commit is off: a crash forgets messages that were created moments before",
            "set synchronous_commit = on, at least for producers; dequeues switch it off for themselves",
        )
    return ok(patient.setting("synchronous_commit"))


def clock(patient: Patient) -> Verdict:
    """The time on the way is nobody's fault: half of it, at least, is not a difference."""
    before = time.time() * 1000
    (server,) = patient.one("SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::float8")
    after = time.time() * 1000
    off = round(abs(server - (before + after) / 2) - (after - before) / 2)
    if off > CLOCK_OFF_MS:
        return warning(
            f"this machine's clock and the database's differ by {span(off)}",
            "set both by NTP; delays count by the database's clock, but run_at comes from your programs",
        )
    return ok("the database's is this machine's, to a second")


def _sees_others(patient: Patient) -> bool:
    (sees,) = patient.one("SELECT pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')")
    return bool(sees)


def open_transactions(patient: Patient) -> Verdict:
    if not _sees_others(patient):
        return warning(NOT_SEEN, LET_SEE)
    found = patient.rows(
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
                f"session {pid} has been idle in a transaction for {span(idle)}",
                f"let the program commit; SELECT pg_terminate_backend({pid}) ends it;"
                " idle_in_transaction_session_timeout prevents it",
            )
    for pid, _, age, _ in found[:1]:
        if age >= OLD_TRANSACTION_MS:
            return warning(*_old_transaction(pid, age))
    return ok(f"the oldest has been open for {span(found[0][2])}" if found else "none")


def _old_transaction(pid: int, age: int) -> tuple[str, str]:
    return (
        f"session {pid} has had a transaction open for {span(age)}: vacuum cannot clean what is newer",
        f"let it end, or SELECT pg_terminate_backend({pid})",
    )


def prepared_transactions(patient: Patient) -> Verdict:
    found = patient.rows(
        "SELECT gid, (EXTRACT(EPOCH FROM clock_timestamp() - prepared) * 1000)::bigint"
        " FROM pg_catalog.pg_prepared_xacts WHERE database = current_database() ORDER BY prepared LIMIT 1"
    )
    for gid, age in found:
        if age >= OLD_TRANSACTION_MS:
            how = problem if age >= VERY_OLD_TRANSACTION_MS else warning
            return how(
                f"transaction {gid!r} was prepared {span(age)} ago and never ended: vacuum waits for it",
                "COMMIT PREPARED or ROLLBACK PREPARED it",
            )
    return ok("the oldest is young" if found else "none")


def replication_slots(patient: Patient) -> Verdict:
    found = patient.rows(
        "SELECT slot_name, active, COALESCE(age(xmin), 0), wal_status"
        " FROM pg_catalog.pg_replication_slots ORDER BY age(xmin) DESC NULLS LAST"
    )
    for name, active, age, wal in found:
        if wal in {"unreserved", "lost"}:
            return problem(
                f"replication slot {name} has fallen too far behind ({wal})",
                f"make its standby anew, or SELECT pg_drop_replication_slot('{name}')",
            )
        if age >= OLD_XIDS:
            return (warning if active else problem)(
                f"replication slot {name} holds back vacuum by {count(age)} transactions",
                f"look at its standby, or SELECT pg_drop_replication_slot('{name}')",
            )
    return ok(f"{len(found)}, none far behind" if found else "none")


def connections(patient: Patient) -> Verdict:
    used, most, reserved = patient.one(
        "SELECT (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend'),"
        " current_setting('max_connections')::int,"
        " current_setting('superuser_reserved_connections')::int"
        " + COALESCE(current_setting('reserved_connections', TRUE)::int, 0)"
    )
    room = most - reserved
    says = f"{used} of {room} in use"
    if room - used <= room * FEW_CONNECTIONS:
        how = problem if room - used <= room * HARDLY_ANY_CONNECTIONS else warning
        return how(says, "raise max_connections, lower pool sizes, or put a pooler in between")
    return ok(says)


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
