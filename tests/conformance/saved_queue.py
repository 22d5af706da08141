"""A queue whose tables can be restored to their first contents: faster than a new database per test."""

import psycopg
from psycopg import sql

# With the partitioned one, so that partitions that a test adds are emptied, too.
TABLES = """
    SELECT relname FROM pg_class WHERE relnamespace = 'lonnymq'::REGNAMESPACE AND relkind IN ('r', 'p')"""


class SavedQueue:
    def __init__(self, conn: psycopg.Connection, dsn: str) -> None:
        self.dsn = dsn
        self._conn = conn
        names = [str(name) for (name,) in conn.execute(TABLES)]
        steps = [sql.SQL("DELETE FROM {}").format(sql.Identifier("lonnymq", name)) for name in names]
        conn.execute("CREATE SCHEMA saved")
        for name in names:
            table, saved = sql.Identifier("lonnymq", name), sql.Identifier("saved", name)
            if conn.execute(sql.SQL("SELECT FROM {} LIMIT 1").format(table)).fetchall():
                conn.execute(sql.SQL("CREATE TABLE {} AS TABLE {}").format(saved, table))
                steps.append(sql.SQL("INSERT INTO {} OVERRIDING SYSTEM VALUE TABLE {}").format(table, saved))
        self._restore = sql.SQL(";\n").join(steps)

    def restore(self) -> None:
        """Restore in one transaction, as PostgreSQL runs several statements in one string."""
        self._conn.execute(self._restore)
