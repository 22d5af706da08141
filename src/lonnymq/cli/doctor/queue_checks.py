"""The queue: its schema, its tables, and whether its consumers do what they should.

Reads catalogs and a few rows of the queue's own tables.
"""

# ruff: noqa: S608 - the schema's name is quoted

from __future__ import annotations

from lonnymq.cli.doctor.access_checks import credentials, rights, roles
from lonnymq.cli.doctor.checks import Check, Patient, Verdict, ok, problem, warning
from lonnymq.cli.formatting import DAY, MINUTE, count, size, span
from lonnymq.errors import SchemaError
from lonnymq.statement import identifier
from lonnymq.version import __version__

DEAD_ROWS, DEAD_SHARE = 100_000, 2
BLOATED_BYTES, BLOAT_FACTOR = 64 * 1024 * 1024, 5
ENTRY_BYTES, ROW_BYTES = 100, 200
"""About what an index entry, or a row of which nothing is known, takes."""
UNTIDY_ROWS = 100_000
UNTAKEN_MS = MINUTE
LAGGING_MS = DAY


def schema_version(patient: Patient) -> Verdict:
    from lonnymq.install import check

    try:
        found = check(patient.conn, patient.schema)
    except SchemaError as error:
        return problem(error.message, error.hint or "run `lonnymq install`")
    if found.release != __version__:
        return warning(
            f"the schema is of LonnyMQ {found.release}, this package of {__version__}: they work together",
            "run `lonnymq upgrade` when all programs have the newer package",
        )
    return ok(f"LonnyMQ {found.release} in schema {patient.schema!r}, step {found.step}")


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
            "the queue's notify is off: consumers look every second",
            "`lonnymq queue set --notify` switches it on",
        )
    return ok("consumers are woken at once")


def pausing(patient: Patient) -> Verdict:
    (paused,) = patient.one(f"SELECT paused FROM {patient.name}.queue_get()")
    if paused:
        return warning(
            "the whole queue is paused: nothing is served", "`lonnymq queue set --not-paused` resumes it"
        )
    return ok("the queue is not paused")


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


def consuming(patient: Patient) -> Verdict:
    """Only where something is due is it a bad sign that nothing is taken."""
    ((age, is_due),) = patient.rows(
        f"SELECT n.at - GREATEST(t.served_at, (SELECT MAX(w.at) FROM {patient.name}.notice w"
        "   WHERE w.xid >= t.seen_xid AND w.taken IS NOT NULL)),"
        f" NOT (SELECT paused FROM {patient.name}.queue) AND ("
        f"   EXISTS (SELECT FROM {patient.name}.ready)"
        f"   OR EXISTS (SELECT FROM {patient.name}.backlog b WHERE b.is_open)"
        "   OR EXISTS (SELECT FROM ("
        f"     SELECT s.channel FROM {patient.name}.scheduled s WHERE s.id > 0 AND s.at <= n.at"
        f"     UNION ALL SELECT m.channel FROM {patient.name}.notice w JOIN {patient.name}.message m"
        "       ON m.id BETWEEN w.lo_id AND w.hi_id AND m.xid = w.xid AND m.dequeue_at <= n.at"
        "     WHERE w.xid >= t.seen_xid) d"
        f"   WHERE NOT EXISTS (SELECT FROM {patient.name}.channel c WHERE c.name = d.channel AND c.paused)))"
        " FROM (SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint AS at) n"
        f" CROSS JOIN (SELECT * FROM {patient.name}.tick ORDER BY id DESC LIMIT 1) t"
    )
    last = "no message was ever taken" if age is None else f"a message was last taken {span(age)} ago"
    if is_due and (age is None or age >= UNTAKEN_MS):
        return warning(f"{last}, and some are due", "start a worker, or see why none reaches the database")
    return ok(last)


def upkeep(patient: Patient) -> Verdict:
    """There is no record of when it was done; there is of what was left undone."""
    (left,) = patient.one(
        "SELECT count(*) FROM (SELECT FROM"
        f" {patient.name}.notice w WHERE w.xid < (SELECT t.seen_xid FROM {patient.name}.tick t"
        " ORDER BY t.id DESC LIMIT 1) LIMIT CAST($1 AS int)) x",
        UNTIDY_ROWS,
    )
    if left >= UNTIDY_ROWS:
        return warning(
            f"{count(left, UNTIDY_ROWS)} rows are left to be cleaned away",
            "call maintain() once a minute, or more often; workers do it by themselves",
        )
    return ok(f"{count(left)} {'row is' if left == 1 else 'rows are'} left to be cleaned away")


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


QUEUE_CHECKS: dict[str, Check] = {
    "autovacuum": autovacuum,
    "dead rows": dead_rows,
    "bloat": bloat,
    "roles": roles,
    "rights": rights,
    "credentials": credentials,
    "listen": listening,
    "pause": pausing,
    "consumers": consuming,
    "upkeep": upkeep,
    "history": history_partitions,
    "followers": followers,
}
