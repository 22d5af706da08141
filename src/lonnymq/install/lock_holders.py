"""Finds the transactions that hold locks on an installation, and describes them in an error."""

# ruff: noqa: S608 - what goes into the SQL was quoted by lonnymq.install.sql_text

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lonnymq.errors import SchemaLocked
from lonnymq.install.plan import INSTALLER_TABLES, LOCK_TIMEOUT_MS, lock_key
from lonnymq.install.sql_text import literal
from lonnymq.statement import identifier

if TYPE_CHECKING:
    from psycopg import Cursor

NAMED_MAX = 5
QUERY_MAX_CHARS = 80
SIGNALLER = "pg_signal_backend"


@dataclass(frozen=True)
class Holder:
    """A transaction, open or prepared. What the login may not see is None."""

    transaction: str
    pid: int | None
    prepared_as: str | None
    relations: list[str]
    """If empty, it holds the advisory lock of another installation."""
    role: str | None
    application: str | None
    open_s: float | None
    query: str | None
    is_autovacuum: bool
    ended_by: str | None
    """The role that may end it, if the current role may not: pg_signal_backend, or a superuser."""

    @property
    def is_older_than_lock_timeout(self) -> bool:
        return self.open_s is not None and self.open_s * 1000 >= LOCK_TIMEOUT_MS

    def narrowed(self, statement: str) -> Holder | None:
        """The same with only the relations that the statement names, if there are any. The installer's own
        tables do not count, because every step names them.
        """
        named = [
            name
            for name in self.relations
            if name not in INSTALLER_TABLES and re.search(rf"\b{re.escape(name)}\b", statement)
        ]
        return replace(self, relations=named) if named else None

    @property
    def locked_objects(self) -> str:
        more = len(self.relations) - NAMED_MAX
        named = (
            ", ".join(map(identifier, self.relations[:NAMED_MAX]))
            or "the advisory lock of another installation"
        )
        return f"{named} and {more} more" if more > 0 else named

    def __str__(self) -> str:
        details = {
            "role": self.role and identifier(self.role),
            "application": self.application and f"{self.application!r}",
            "open for": self.open_s and f"{self.open_s:.0f} s",
            "query:": self.query and repr(" ".join(self.query.split())[:QUERY_MAX_CHARS]),
        }
        about = [f"{name} {value}" for name, value in details.items() if value]
        if self.is_autovacuum:
            about.insert(0, "autovacuum")
        elif self.pid is not None and not self.query:
            about.append("its query is not visible to this role")
        who = f"pid {self.pid}" if self.pid else f"prepared transaction {literal(self.prepared_as or '')}"
        return f"{who} ({', '.join(about)})"

    @property
    def statement_to_end_it(self) -> str:
        if self.pid is None:
            return f"ROLLBACK PREPARED {literal(self.prepared_as or '')};"
        return f"SELECT pg_terminate_backend({self.pid});"


def schema_locked(schema: str, found: Sequence[Holder], tried: str, role: str) -> SchemaLocked:
    """The error for a call that could not get its locks."""
    message = f"could not lock what is in schema {identifier(schema)} ({tried})"
    if not found:
        return SchemaLocked(
            f"{message}: the transaction that held a lock has ended since",
            "try again; pg_locks shows all locks",
        )
    named = "; ".join(f"{holder} holds {holder.locked_objects}" for holder in found[:NAMED_MAX])
    more = f"; and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else ""
    return SchemaLocked(
        f"{message}: {named}{more}", f"nothing was changed: {_how_to_end(found[:NAMED_MAX], role)}"
    )


def _how_to_end(found: Sequence[Holder], role: str) -> str:
    statements = " ".join(holder.statement_to_end_it for holder in found)
    needed = {holder.ended_by for holder in found} - {None}
    if not needed:
        return f"end the transaction and try again, for example with {statements}"
    me = identifier(role)
    who = f"have a superuser run: {statements}"
    if needed == {SIGNALLER}:
        who += f" or: GRANT {SIGNALLER} TO {me};"
    return f"wait until the transaction has ended, and try again. Role {me} may not end it: {who}"


def holders(cursor: Cursor[tuple[Any, ...]], schema: str) -> list[Holder]:
    """All other transactions with a lock on a relation in the schema, or on installing there."""
    query = f"""
SELECT l.virtualtransaction, l.pid, p.gid,
    pg_catalog.array_remove(pg_catalog.array_agg(DISTINCT CAST(c.relname AS TEXT)), NULL),
    COALESCE(a.usename, p.owner), NULLIF(a.application_name, ''),
    CAST(EXTRACT(EPOCH FROM pg_catalog.clock_timestamp() - COALESCE(a.xact_start, p.prepared)) AS FLOAT8),
    CASE WHEN a.xact_start IS NOT NULL THEN a.query END,
    l.pid IS NOT NULL AND a.usesysid IS NULL, -- not a login
    CASE
        WHEN me.rolsuper OR COALESCE(a.usename, p.owner) = current_user THEN NULL
        WHEN l.pid IS NULL OR u.oid IS NULL OR u.rolsuper THEN 'a superuser'
        WHEN pg_catalog.pg_has_role(u.oid, 'USAGE') THEN NULL
        WHEN pg_catalog.pg_has_role('{SIGNALLER}', 'USAGE') THEN NULL
        ELSE '{SIGNALLER}'
    END
FROM pg_catalog.pg_locks l
LEFT JOIN pg_catalog.pg_class c ON l.locktype = 'relation' AND c.oid = l.relation
LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_catalog.pg_locks x -- a prepared transaction has no pid, but holds its own id
  ON l.pid IS NULL AND x.pid IS NULL AND x.locktype = 'transactionid' AND x.granted
 AND x.virtualtransaction = l.virtualtransaction
LEFT JOIN pg_catalog.pg_prepared_xacts p ON p.transaction = x.transactionid
LEFT JOIN pg_catalog.pg_roles u ON u.oid = a.usesysid
CROSS JOIN (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = current_user) me
WHERE l.granted
  AND l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()
  AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database())
  AND (
      c.relkind IN ('r', 'p', 'v')
      AND c.relnamespace = (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname = {literal(schema)})
      OR l.locktype = 'advisory' AND l.objsubid = 1
      AND (CAST(l.classid AS BIGINT) << 32) | CAST(l.objid AS BIGINT) = {lock_key(schema)}
  )
GROUP BY l.virtualtransaction, l.pid, p.gid, a.usename, p.owner, a.application_name, a.xact_start,
    p.prepared, a.query, a.usesysid, u.oid, u.rolsuper, me.rolsuper
ORDER BY COALESCE(a.xact_start, p.prepared), l.pid"""
    rows = cursor.execute(query.encode(cursor.connection.info.encoding), prepare=False).fetchall()
    return [Holder(*row) for row in rows]
