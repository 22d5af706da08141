"""Checks the queue: its schema, its tables, and whether its consumers work.

Reads catalogs and a few rows of the queue's own tables.
"""

# ruff: noqa: S608 - the schema's name is quoted

from __future__ import annotations

from lonnymq.doctor.access_checks import credentials, rights, roles
from lonnymq.doctor.checks import Check, CheckResult, Database, ok, problem, warning
from lonnymq.errors import SchemaError
from lonnymq.formatting import DAY, MINUTE, count, duration, plural, size
from lonnymq.statement import identifier
from lonnymq.version import __version__

DEAD_ROWS, DEAD_SHARE = 100_000, 2
BLOATED_BYTES, BLOAT_FACTOR = 64 * 1024 * 1024, 5
ENTRY_BYTES, ROW_BYTES = 100, 200
"""Rough size of an index entry, and of a row without statistics."""
LEFTOVER_ROWS = 100_000
NOT_DEQUEUED_MS = MINUTE
NO_WORKER = "none has reported (those of Celery and taskiq do not)"
LAGGING_MS = DAY


def schema_version(db: Database) -> CheckResult:
    from lonnymq.install import check

    try:
        found = check(db.conn, db.schema)
    except SchemaError as error:
        return problem(error.message, error.hint or "run `lonnymq install`")
    if found.release != __version__:
        return warning(
            f"the schema has version {found.release} and this package {__version__}: they work together",
            "run `lonnymq upgrade` once all programs use the newer package",
        )
    return ok(f"LonnyMQ {found.release} in schema {db.schema!r}, step {found.step}")


def autovacuum(db: Database) -> CheckResult:
    for setting in ("autovacuum", "track_counts"):
        if db.setting(setting) == "off":
            return problem(f"{setting} is off: the tables will only grow", f"set {setting} = on")
    off = [
        name
        for (name,) in db.rows(
            "SELECT c.oid::regclass::text FROM pg_catalog.pg_class c"
            " WHERE c.relnamespace = CAST($1 AS regnamespace) AND EXISTS ("
            "   SELECT FROM unnest(c.reloptions) o"
            "   WHERE o ~* '^autovacuum_enabled=(off|false|no|0)$') ORDER BY 1",
            db.name,
        )
    ]
    if off:
        return problem(
            f"autovacuum is off for {', '.join(off)}",
            f"ALTER TABLE {off[0]} RESET (autovacuum_enabled)",
        )
    return ok("on")


def listening(db: Database) -> CheckResult:
    from lonnymq.adapters.psycopg_pool import is_behind_a_pooler

    (backend_pid,) = db.one("SELECT pg_backend_pid()")
    if is_behind_a_pooler(db.conn, backend_pid):
        return warning(
            "the address is that of a pooler, where LISTEN does not work: consumers poll once per second",
            "give them a direct address for LISTEN: Queue(..., listen=...)",
        )
    (notify,) = db.one(f"SELECT notify FROM {db.name}.queue_get()")
    if not notify:
        return warning(
            "notifications are off: consumers poll once per second",
            "`lonnymq queue set --notify` switches them on",
        )
    return ok("consumers are notified at once")


def pausing(db: Database) -> CheckResult:
    (paused,) = db.one(f"SELECT paused FROM {db.name}.queue_get()")
    if paused:
        return warning(
            "the whole queue is paused: no messages are served", "`lonnymq queue set --not-paused` resumes it"
        )
    return ok("the queue is not paused")


def dead_rows(db: Database) -> CheckResult:
    found = db.rows(
        "SELECT relname, n_dead_tup, n_live_tup FROM pg_catalog.pg_stat_user_tables"
        " WHERE schemaname = $1 AND n_dead_tup >= CAST($2 AS bigint)"
        "   AND n_dead_tup >= n_live_tup * CAST($3 AS int)"
        " ORDER BY n_dead_tup DESC",
        db.schema,
        DEAD_ROWS,
        DEAD_SHARE,
    )
    for name, dead, live in found:
        return warning(
            f"table {name} has {count(dead)} dead rows and {count(live)} live ones",
            "if no check above says what holds back vacuum, raise autovacuum_vacuum_cost_limit",
        )
    return ok("vacuum keeps up")


def bloat(db: Database) -> CheckResult:
    """Compares large tables and indexes with the size that their rows should need, by the statistics."""
    found = db.rows(
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
        db.schema,
        BLOATED_BYTES,
        BLOAT_FACTOR,
    )
    for name, is_index, octets, live in found:
        what = f"{db.name}.{identifier(name)}"
        return warning(
            f"{'index' if is_index else 'table'} {name} takes {size(octets)} for {count(live)} rows",
            f"REINDEX INDEX CONCURRENTLY {what}"
            if is_index
            else f"the queue will reuse the space; to free it, run VACUUM FULL {what} at a quiet time",
        )
    return ok("no table or index is much larger than its rows")


def consuming(db: Database) -> CheckResult:
    """Warns if messages are due and none has been dequeued for a while."""
    ((age, is_due),) = db.rows(
        f"SELECT n.at - GREATEST(t.served_at, (SELECT MAX(w.at) FROM {db.name}.notice w"
        "   WHERE w.xid >= t.seen_xid AND w.taken IS NOT NULL)),"
        f" NOT (SELECT paused FROM {db.name}.queue) AND ("
        f"   EXISTS (SELECT FROM {db.name}.ready)"
        f"   OR EXISTS (SELECT FROM {db.name}.backlog b WHERE b.is_open)"
        "   OR EXISTS (SELECT FROM ("
        f"     SELECT s.channel FROM {db.name}.scheduled s WHERE s.id > 0 AND s.at <= n.at"
        f"     UNION ALL SELECT m.channel FROM {db.name}.notice w JOIN {db.name}.message m"
        "       ON m.id BETWEEN w.lo_id AND w.hi_id AND m.xid = w.xid AND m.dequeue_at <= n.at"
        "     WHERE w.xid >= t.seen_xid) d"
        f"   WHERE NOT EXISTS (SELECT FROM {db.name}.channel c WHERE c.name = d.channel AND c.paused)))"
        " FROM (SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint AS at) n"
        f" CROSS JOIN (SELECT * FROM {db.name}.tick ORDER BY id DESC LIMIT 1) t"
    )
    last = (
        "no message was ever dequeued" if age is None else f"a message was last dequeued {duration(age)} ago"
    )
    if is_due and (age is None or age >= NOT_DEQUEUED_MS):
        return warning(
            f"{last}, and messages are due", "start a worker, or find out why none reaches the database"
        )
    return ok(last)


def lanes(db: Database) -> CheckResult:
    """Warns if the next message of a lane has been due for a while, and no consumer asked for the lane."""
    found = db.rows(
        "SELECT l.name, n.at - l.served_at FROM"
        " (SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint AS at) n"
        f" CROSS JOIN (SELECT t.lanes FROM {db.name}.tick t ORDER BY t.id DESC LIMIT 1) t"
        " CROSS JOIN unnest(t.lanes) l"
        f" CROSS JOIN LATERAL (SELECT r.id FROM {db.name}.ready r"
        "   WHERE r.lane = l.name AND r.tag >= l.floor ORDER BY r.tag, r.id LIMIT 1) r"
        f" JOIN {db.name}.message m ON m.id = r.id"
        f" WHERE NOT (SELECT paused FROM {db.name}.queue)"
        "   AND GREATEST(m.dequeue_at, m.created_at) <= n.at - CAST($1 AS int)"
        "   AND COALESCE(l.served_at <= n.at - CAST($1 AS int), TRUE)"
        " ORDER BY l.served_at NULLS FIRST, l.name",
        NOT_DEQUEUED_MS,
    )
    for name, age in found:
        more = f" (and {plural(len(found) - 1, 'other lane')})" if len(found) > 1 else ""
        since = "yet" if age is None else f"for {duration(age)}"
        return warning(
            f"messages in lane {name!r} are due, and no consumer has asked for it {since}{more}",
            "start a worker that serves it: `--lanes` of `lonnymq worker`, `-Q` of `celery worker`",
        )
    return ok("consumers ask for every lane whose messages are due")


def workers(db: Database) -> CheckResult:
    """Warns if a worker stopped reporting without having been stopped."""
    found = db.rows(
        "SELECT name, is_alive, (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint - seen_at"
        f" FROM {db.name}.worker_list() ORDER BY seen_at"
    )
    for name, is_alive, age in found:
        if not is_alive:
            return warning(
                f"worker {name!r} last reported {duration(age)} ago: it died, or cannot reach the database",
                "start it again unless it was replaced; it is forgotten after an hour",
            )
    paused = db.rows(f"SELECT name FROM {db.name}.worker_list() WHERE requested = 'paused'")
    for (name,) in paused:
        return warning(f"worker {name!r} is paused", f"`lonnymq workers resume {name}` resumes it")
    return ok(f"{plural(len(found), 'worker')}" if found else NO_WORKER)


def tasks(db: Database) -> CheckResult:
    """Warns if workers have met messages of a task that none of them knows."""
    found = db.rows(
        "SELECT task, messages, workers, (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint - since_at"
        f" FROM {db.name}.unknown_task_list() WHERE NOT is_known ORDER BY messages DESC"
    )
    for task, messages, workers, age in found:
        return warning(
            f"no worker has a handler for {f'the task {task!r}' if task else 'messages without a task'}:"
            f" {plural(workers, 'worker')} rejected {plural(messages, 'message')}"
            f" in the last {duration(age)}",
            "deploy a worker that has the task, or cancel the messages; they become dead letters after a day"
            " (--unknown-task-timeout)",
        )
    return ok("every task that workers have met is known")


def maintenance(db: Database) -> CheckResult:
    """The queue does not record when maintenance ran, but rows that nobody cleaned up show if it did not."""
    (left,) = db.one(
        "SELECT count(*) FROM (SELECT FROM"
        f" {db.name}.notice w WHERE w.xid < (SELECT t.seen_xid FROM {db.name}.tick t"
        " ORDER BY t.id DESC LIMIT 1) LIMIT CAST($1 AS int)) x",
        LEFTOVER_ROWS,
    )
    if left >= LEFTOVER_ROWS:
        return warning(
            f"{count(left, LEFTOVER_ROWS)} rows to clean up",
            "run a worker, or call maintain() at least once per minute",
        )
    return ok(f"{plural(left, 'row')} to clean up")


def history_partitions(db: Database) -> CheckResult:
    (is_kept,) = db.one(f"SELECT history FROM {db.name}.queue_get()")
    if not is_kept:
        return ok("no history is kept")
    (ahead,) = db.one(
        "SELECT count(*) FROM generate_series(1, 7) n WHERE to_regclass(format('%I.%I', CAST($1 AS text),"
        " 'finished_' || to_char((now() AT TIME ZONE 'UTC')::date + n::int, 'YYYYMMDD'))) IS NOT NULL",
        db.schema,
    )
    if not ahead:
        return warning(
            "there is no partition for tomorrow: rows go to a partition that cannot be dropped day by day",
            "run a worker, or call maintain() at least once per minute",
        )
    return ok(f"partitions exist for {ahead} days ahead")


def followers(db: Database) -> CheckResult:
    found = db.rows(
        "SELECT name, (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint - at"
        f" FROM {db.name}.history_followers() ORDER BY at"
    )
    for name, age in found:
        if age >= LAGGING_MS:
            return warning(
                f"{name!r} last read the history {duration(age)} ago: rows it has not read are kept",
                f"start it again, or if it no longer exists: SELECT {db.name}.history_unfollow('{name}')",
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
    "lanes": lanes,
    "workers": workers,
    "tasks": tasks,
    "maintenance": maintenance,
    "history": history_partitions,
    "followers": followers,
}
