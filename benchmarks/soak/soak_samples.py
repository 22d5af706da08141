"""What is read from the server and the processes every few seconds."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg

from lonnymq.quantile import quantile

CALLS = {
    "message_create_many": "create",
    "message_dequeue": "dequeue",
    "message_complete_many": "complete",
    "message_retry_many": "retry",
    "dispatch": "dispatch",
}
HISTORY = "finished"
SIZES = """
SELECT COALESCE(parent.relname, c.relname), SUM(pg_table_size(c.oid))::BIGINT,
    SUM(pg_indexes_size(c.oid))::BIGINT, SUM(COALESCE(s.n_dead_tup, 0))::BIGINT
FROM pg_class c
LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
LEFT JOIN pg_class parent ON parent.oid = i.inhparent
LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
WHERE c.relnamespace = 'lonnymq'::regnamespace AND c.relkind = 'r'
GROUP BY 1
"""
STATEMENTS = """
SELECT query, SUM(calls)::BIGINT, SUM(shared_blks_hit + shared_blks_read)::BIGINT
FROM pg_stat_statements WHERE toplevel GROUP BY query
"""
# A plain VACUUM keeps no rows from being removed.
OLDEST_SNAPSHOT = """
SELECT COALESCE(MAX(EXTRACT(EPOCH FROM clock_timestamp() - xact_start)), 0) FROM pg_stat_activity
WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND query NOT LIKE 'autovacuum: VACUUM%'
"""
Sample = dict[str, float]
CALL = re.compile(r"lonnymq\"?\.\"?(\w+)\"?\s*\(")


class Buffers:
    """Pages that each call reads, between one sample and the next."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}

    def read(self, conn: psycopg.Connection) -> Iterator[tuple[str, float]]:
        totals: dict[str, tuple[int, int]] = {}
        for query, calls, pages in conn.execute(STATEMENTS).fetchall():
            found = CALL.search(query)
            if found and found[1] in CALLS:
                before = totals.get(found[1], (0, 0))
                totals[found[1]] = (before[0] + calls, before[1] + pages)
        for function, (calls, pages) in totals.items():
            last_calls, last_pages = self._last.get(function, (0, 0))
            if calls > last_calls:
                yield f"buffers per {CALLS[function]}", (pages - last_pages) / (calls - last_calls)
        self._last = totals


def sizes(conn: psycopg.Connection) -> Iterator[tuple[str, float]]:
    """Megabytes of tables and of their indexes, and dead rows. The history has a name of its own."""
    for table, heap, indexes, dead in conn.execute(SIZES).fetchall():
        if table.startswith(HISTORY):
            yield f"history of {table}, MB", (heap + indexes) / 1e6
        else:
            yield f"table {table}, MB", heap / 1e6
            yield f"indexes of {table}, MB", indexes / 1e6
            yield f"dead rows of {table}", dead


def history_per_message(conn: psycopg.Connection) -> float:
    """Bytes per message in the history, which itself grows until `history_keep`."""
    row = conn.execute(
        """
        SELECT SUM(pg_total_relation_size(c.oid)) / NULLIF((SELECT COUNT(*) FROM lonnymq.finished), 0)
        FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid
        WHERE i.inhparent = 'lonnymq.finished'::regclass"""
    ).fetchone()
    assert row is not None
    return float(row[0] or 0)


def oldest_snapshot(conn: psycopg.Connection) -> float:
    """How many seconds old the oldest one is: until it ends, VACUUM removes no row that it can see."""
    row = conn.execute(OLDEST_SNAPSHOT).fetchone()
    assert row is not None
    return float(row[0])


def latencies(times: Mapping[str, list[float]]) -> Iterator[tuple[str, float]]:
    for call, values in times.items():
        if values:
            yield f"{call}, p50 ms", quantile(values, 0.5)
            yield f"{call}, p99 ms", quantile(values, 0.99)


def private_megabytes(pid: int) -> float:
    """Memory that only this process has, so without PostgreSQL's shared buffers."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.findall(r"^Pss_Anon:\s+(\d+) kB", lines, re.MULTILINE)[0]) * 1024 / 1e6


def backend_megabytes(conn: psycopg.Connection) -> tuple[float, float]:
    """Of the largest backend that serves a client, and of all of them."""
    values = []
    for (pid,) in conn.execute(
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
    ).fetchall():
        try:
            values.append(private_megabytes(pid))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it disconnected in the meantime
    return max(values), sum(values)
