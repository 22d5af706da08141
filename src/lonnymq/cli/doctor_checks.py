"""What doctor looks at: a check is a function that asks the database one thing and says what it found.

All of them read catalogs and settings, a few rows of the queue's own tables, and nothing else.
"""

# ruff: noqa: S608 - the schema's name is quoted

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from lonnymq.cli.failure import sentence
from lonnymq.cli.wording import DAY, HOUR, MINUTE, SECOND, YEAR, count, size, span
from lonnymq.errors import LonnyMQError, SchemaError
from lonnymq.statement import identifier
from lonnymq.version import __version__

if TYPE_CHECKING:
    from psycopg import Connection

OLDEST_VERSION = 15
CLOCK_OFF_MS = SECOND
OLD_TRANSACTION_MS, VERY_OLD_TRANSACTION_MS = 5 * MINUTE, HOUR
IDLE_TRANSACTION_MS = MINUTE
OLD_XIDS = 1_000_000
FEW_CONNECTIONS, HARDLY_ANY_CONNECTIONS = 0.2, 0.05
DEAD_ROWS, DEAD_SHARE = 100_000, 2
BLOATED_BYTES, BLOAT_FACTOR = 64 * 1024 * 1024, 5
ENTRY_BYTES, ROW_BYTES = 100, 200
"""About what an index entry, or a row of which nothing is known, takes."""
UNTIDY_WAKES = 100_000
UNFOLDED_MS = MINUTE
LAGGING_MS = DAY


class Status(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """What a check found; and where it is not ok, what to do about it."""

    check: str
    status: Status
    says: str
    advice: str | None = None


@dataclass(frozen=True)
class Verdict:
    status: Status
    says: str
    advice: str | None = None


@dataclass(frozen=True)
class Patient:
    """The database that is looked at, and the schema in it."""

    conn: Connection[Any]
    schema: str

    @property
    def name(self) -> str:
        return identifier(self.schema)

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        from psycopg import RawCursor
        from psycopg.rows import tuple_row

        with RawCursor(self.conn, row_factory=tuple_row) as cursor:
            return cursor.execute(query.encode(), parameters).fetchall()

    def one(self, query: str, *parameters: object) -> tuple[Any, ...]:
        return self.rows(query, *parameters)[0]

    def setting(self, name: str) -> str:
        return str(self.one("SELECT current_setting($1)", name)[0])


Check = Callable[[Patient], Verdict]


def ok(says: str) -> Verdict:
    return Verdict(Status.OK, says)


def warning(says: str, advice: str) -> Verdict:
    return Verdict(Status.WARNING, says, advice)


def problem(says: str, advice: str) -> Verdict:
    return Verdict(Status.PROBLEM, says, advice)


def server_version(patient: Patient) -> Verdict:
    version = patient.conn.info.server_version // 10_000
    if version < OLDEST_VERSION:
        return problem(f"PostgreSQL {version}", f"upgrade to PostgreSQL {OLDEST_VERSION} or newer")
    return ok(f"PostgreSQL {patient.setting('server_version')}")


def schema_version(patient: Patient) -> Verdict:
    from lonnymq.install import verify

    try:
        found = verify(patient.conn, patient.schema)
    except SchemaError as error:
        return problem(error.message, error.hint or "run `lonnymq install`")
    if found.release != __version__:
        return warning(
            f"the schema is of LonnyMQ {found.release}, this package of {__version__}: they work together",
            "run `lonnymq upgrade` when all programs have the newer package",
        )
    return ok(f"LonnyMQ {found.release} in schema {patient.schema!r}, step {found.step}")


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


def autovacuum(patient: Patient) -> Verdict:
    for setting in ("autovacuum", "track_counts"):
        if patient.setting(setting) == "off":
            return problem(f"{setting} is off: tables only grow", f"set {setting} = on")
    off = [
        name
        for (name,) in patient.rows(
            "SELECT c.oid::regclass::text FROM pg_catalog.pg_class c"
            " WHERE c.relnamespace = CAST($1 AS regnamespace) AND EXISTS ("
            "   SELECT FROM unnest(c.reloptions) o"
            "   WHERE o ~* '^autovacuum_enabled=(off|false|no|0)$') ORDER BY 1",
            patient.name,
        )
    ]
    if off:
        return problem(
            f"autovacuum is off for {', '.join(off)}",
            f"ALTER TABLE {off[0]} RESET (autovacuum_enabled)",
        )
    return ok("on")


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


NOT_SEEN = "this login does not see the sessions of others"
LET_SEE = "grant it pg_read_all_stats, or run doctor as an administrator"


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


def listening(patient: Patient) -> Verdict:
    from lonnymq.adapters.psycopg_pool import is_behind_a_pooler

    (backend_pid,) = patient.one("SELECT pg_backend_pid()")
    if is_behind_a_pooler(patient.conn, backend_pid):
        return warning(
            "there is a pooler in between, and LISTEN does not go through it: consumers look every second",
            "give them a direct address to listen on: Queue(..., listen=...)",
        )
    (notify,) = patient.one(f"SELECT notify FROM {patient.name}.queue_get()")
    if not notify:
        return warning(
            "the queue's notify is off: consumers look every second", "queue.set(notify=True) switches it on"
        )
    return ok("consumers are woken at once")


def pausing(patient: Patient) -> Verdict:
    (paused,) = patient.one(f"SELECT paused FROM {patient.name}.queue_get()")
    if paused:
        return warning("the whole queue is paused: nothing is served", "queue.set(paused=False) resumes it")
    return ok("the queue is not paused")


def roles(patient: Patient) -> Verdict:
    from lonnymq.install.roles import role_names

    names = role_names(patient.schema)
    (are_wanted,) = patient.one(f"SELECT roles FROM {patient.name}.installation")
    if not are_wanted:
        return ok("none were asked for: the owner alone has rights (`lonnymq install --roles` makes them)")
    there = {name for (name,) in patient.rows("SELECT rolname FROM pg_roles WHERE rolname = ANY ($1)", names)}
    if missing := [name for name in names if name not in there]:
        return problem(f"missing: {', '.join(missing)}", "run `lonnymq upgrade`, which makes them again")
    if lacking := _lacking(patient):
        return problem(f"{lacking[0]} (and {len(lacking) - 1} more)", "run `lonnymq upgrade`")
    if public := _public(patient):
        return warning(
            f"everybody may call {', '.join(public)}", "run `lonnymq upgrade`, which takes that back"
        )
    return ok(f"{', '.join(names)}, with their rights")


def _lacking(patient: Patient) -> list[str]:
    """What the installer would grant, and is not granted."""
    from lonnymq.install.roles import EXECUTES, READS_VIEWS, ROLES, role_name

    views = patient.rows(f"SELECT unnest(views) FROM {patient.name}.installation")
    wanted = [(role_name(patient.schema, role), name) for role in ROLES for name in EXECUTES[role]]
    lacking = patient.rows(
        "SELECT format('%s may not call %s', w.role, w.name)"
        " FROM unnest(CAST($1 AS text[]), CAST($2 AS text[])) w (role, name)"
        " JOIN pg_catalog.pg_proc p ON p.proname = w.name AND p.pronamespace = CAST($3 AS regnamespace)"
        " WHERE NOT has_function_privilege(w.role, p.oid, 'EXECUTE')"
        " UNION ALL"
        " SELECT format('%s may not read %s', CAST($4 AS text), v) FROM unnest(CAST($5 AS text[])) v"
        " WHERE NOT has_table_privilege(CAST($4 AS name), format('%I.%I', CAST($6 AS text), v), 'SELECT')"
        " UNION ALL"
        " SELECT format('%s may not use the schema', r) FROM unnest(CAST($7 AS text[])) r"
        " WHERE NOT has_schema_privilege(r, CAST($6 AS text), 'USAGE')",
        [role for role, _ in wanted],
        [name for _, name in wanted],
        patient.name,
        role_name(patient.schema, READS_VIEWS),
        [view for (view,) in views],
        patient.schema,
        [role_name(patient.schema, role) for role in ROLES],
    )
    return [text for (text,) in lacking]


def _public(patient: Patient) -> Sequence[str]:
    found = patient.rows(
        "SELECT DISTINCT p.proname FROM pg_catalog.pg_proc p"
        f" JOIN {patient.name}.installation i ON p.proname = ANY (i.functions)"
        " CROSS JOIN LATERAL aclexplode(COALESCE(p.proacl, acldefault('f', p.proowner))) a"
        " WHERE p.pronamespace = CAST($1 AS regnamespace) AND a.grantee = 0 ORDER BY 1",
        patient.name,
    )
    return [name for (name,) in found]


def dead_rows(patient: Patient) -> Verdict:
    found = patient.rows(
        "SELECT relname, n_dead_tup, n_live_tup FROM pg_catalog.pg_stat_user_tables"
        " WHERE schemaname = $1 AND n_dead_tup >= CAST($2 AS bigint)"
        "   AND n_dead_tup >= n_live_tup * CAST($3 AS int)"
        " ORDER BY n_dead_tup DESC",
        patient.schema,
        DEAD_ROWS,
        DEAD_SHARE,
    )
    for name, dead, live in found:
        return warning(
            f"table {name} has {count(dead)} dead rows beside {count(live)} living ones",
            "see above what holds back vacuum; else raise autovacuum_vacuum_cost_limit",
        )
    return ok("vacuum keeps up")


def bloat(patient: Patient) -> Verdict:
    """Of large tables and indexes, against what their rows should take, by the statistics there are."""
    found = patient.rows(
        "SELECT c.relname, c.relkind = 'i', pg_relation_size(c.oid), s.n_live_tup"
        " FROM pg_catalog.pg_class c"
        " LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid"
        " JOIN pg_catalog.pg_stat_user_tables s ON s.relid = COALESCE(i.indrelid, c.oid)"
        " CROSS JOIN LATERAL (SELECT CASE WHEN c.relkind = 'i' THEN CAST($1 AS int) ELSE COALESCE("
        "   (SELECT sum(p.avg_width) FROM pg_catalog.pg_stats p"
        "    WHERE p.schemaname = s.schemaname AND p.tablename = s.relname) + 30,"
        "   CAST($2 AS int)) END AS width) w"
        " WHERE s.schemaname = $3 AND c.relkind IN ('r', 'i')"
        "   AND pg_relation_size(c.oid) >= CAST($4 AS bigint)"
        "   AND pg_relation_size(c.oid) > CAST($5 AS int) * (s.n_live_tup * w.width)"
        " ORDER BY pg_relation_size(c.oid) DESC",
        ENTRY_BYTES,
        ROW_BYTES,
        patient.schema,
        BLOATED_BYTES,
        BLOAT_FACTOR,
    )
    for name, is_index, octets, live in found:
        what = f"{patient.name}.{identifier(name)}"
        return warning(
            f"{'index' if is_index else 'table'} {name} takes {size(octets)} for {count(live)} rows",
            f"REINDEX INDEX CONCURRENTLY {what}"
            if is_index
            else f"it is used again as the queue fills; to give it back, VACUUM FULL {what} in a quiet hour",
        )
    return ok("no table or index is much larger than its rows")


def folding(patient: Patient) -> Verdict:
    """Folds write nothing where there is nothing to do: only with work left is an old one a bad sign."""
    ((age, is_work_left),) = patient.rows(
        "SELECT n.at - t.at,"
        f" EXISTS (SELECT FROM {patient.name}.wake w WHERE w.xid >= t.seen_xid AND w.n > 0)"
        f" OR EXISTS (SELECT FROM {patient.name}.ring r WHERE r.due_at <= n.at"
        "   AND (r.due_at, r.turn) >= (t.floor_at, t.floor_turn))"
        " FROM (SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint AS at) n"
        f" CROSS JOIN (SELECT * FROM {patient.name}.tick ORDER BY id DESC LIMIT 1) t"
    )
    last = "no consumer ever found work" if age > 10 * YEAR else f"a consumer last found work {span(age)} ago"
    if is_work_left and age >= UNFOLDED_MS:
        return warning(f"{last}, and there is some", "start a worker, or see why none reaches the database")
    return ok(last)


def upkeep(patient: Patient) -> Verdict:
    """There is no record of when it was done; there is of what was left undone."""
    (left,) = patient.one(
        "SELECT count(*) FROM (SELECT FROM"
        f" {patient.name}.wake w WHERE w.xid < (SELECT t.seen_xid FROM {patient.name}.tick t"
        " ORDER BY t.id DESC LIMIT 1) LIMIT CAST($1 AS int)) x",
        UNTIDY_WAKES,
    )
    if left >= UNTIDY_WAKES:
        return warning(
            f"{count(left, UNTIDY_WAKES)} rows are left to be cleaned away",
            "call maintain() once a minute, or more often; workers do it by themselves",
        )
    return ok(f"{count(left)} rows are left to be cleaned away")


def history_partitions(patient: Patient) -> Verdict:
    (is_kept,) = patient.one(f"SELECT history FROM {patient.name}.queue_get()")
    if not is_kept:
        return ok("no history is kept")
    (ahead,) = patient.one(
        "SELECT count(*) FROM generate_series(1, 7) n WHERE to_regclass(format('%I.%I', CAST($1 AS text),"
        " 'finished_' || to_char((now() AT TIME ZONE 'UTC')::date + n::int, 'YYYYMMDD'))) IS NOT NULL",
        patient.schema,
    )
    if not ahead:
        return warning(
            "there is no partition for tomorrow: rows go where they cannot be dropped by the day",
            "call maintain() once a minute, or run a worker",
        )
    return ok(f"made for {ahead} days ahead")


def followers(patient: Patient) -> Verdict:
    found = patient.rows(
        "SELECT name, (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint - at"
        f" FROM {patient.name}.history_followers() ORDER BY at"
    )
    for name, age in found:
        if age >= LAGGING_MS:
            return warning(
                f"{name!r} last followed the history {span(age)} ago: what it has not got is kept",
                f"start it again, or if it is gone: SELECT {patient.name}.history_unfollow('{name}')",
            )
    return ok(f"{len(found)}, none behind" if found else "none")


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
SCHEMA_CHECK = "schema"
QUEUE_CHECKS: dict[str, Check] = {
    "autovacuum": autovacuum,
    "dead rows": dead_rows,
    "bloat": bloat,
    "roles": roles,
    "listen": listening,
    "pause": pausing,
    "folds": folding,
    "upkeep": upkeep,
    "history": history_partitions,
    "followers": followers,
}


def examine(patient: Patient) -> list[Finding]:
    """Run all the checks; those of the queue only where there is one that this package works with."""
    found = [_run(name, check, patient) for name, check in SERVER_CHECKS.items()]
    schema = _run(SCHEMA_CHECK, schema_version, patient)
    found.append(schema)
    if schema.status != Status.PROBLEM:
        found += [_run(name, check, patient) for name, check in QUEUE_CHECKS.items()]
    return found


def _run(name: str, check: Check, patient: Patient) -> Finding:
    """What a login may not look at, it is told; the other checks go on."""
    from psycopg import ProgrammingError

    try:
        verdict = check(patient)
    except (ProgrammingError, LonnyMQError) as error:
        verdict = warning(f"not looked at: {sentence(error)}", "run doctor as the owner of the schema")
    return Finding(name, verdict.status, verdict.says, verdict.advice)
