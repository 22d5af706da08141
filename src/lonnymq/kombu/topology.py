"""Queues, exchanges and bindings, kept in the database so that all processes agree; and the messages of
temporary queues.

A queue is a lane of the queue in PostgreSQL. A queue has few lanes and never forgets one, so the queues that
come and go with a process (kombu's `exclusive` and `auto_delete`: replies, remote control, events) are rows
of their own. Their messages are not leased: like the queue itself, they are gone when their consumer is.

It has a schema of its own, beside that of the queue: lonnymq.install.kombu_tables.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psycopg

from lonnymq.client.calls import ask
from lonnymq.client.queue import Queue
from lonnymq.errors import NotPermitted, RightsTooWide, SchemaMissing
from lonnymq.install.kombu_tables import UNTRUSTED_OWNER, create_kombu_tables, kombu_schema
from lonnymq.statement import Command, Row, Statement, command, identifier

Answer = TypeVar("Answer")

EXPIRES_MS = 60_000
"""A temporary queue is deleted if no consumer has touched it for this long, unless it says how long."""

TOUCH_S = 20
FRESH_S = 1.0
"""For how long what was read is taken as current where a new binding may have appeared."""


@dataclass(frozen=True)
class Binding:
    exchange: str
    routing_key: str
    type: str
    queue: str


@dataclass(frozen=True)
class Mail:
    """A message of a temporary queue."""

    queue: str
    content: bytes


@command
class _Sql(Command[Answer]):
    """A statement on the tables of the topology. All of them may be repeated, except those that say so."""

    text: str
    values: tuple[Any, ...]
    read: Callable[[Sequence[Row]], Answer]
    repeats: bool = True
    function = "lonnymq.kombu"

    def statement(self, schema: str) -> Statement:
        own = identifier(kombu_schema(schema))
        return Statement(self.text.replace("{schema}", own), self.values)

    def decode(self, rows: Sequence[Row]) -> Answer:
        return self.read(rows)

    def may_repeat(self) -> bool:
        return self.repeats


@dataclass
class _Cache:
    read_at: float = float("-inf")
    temporary: dict[str, bool] = field(default_factory=dict)
    """Every queue, and whether it is temporary."""
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    """By exchange."""


class Topology:
    """Threads may share one."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._cache = _Cache()
        self._lock = threading.Lock()
        self.notify_channel = kombu_schema(queue.schema)

    def check(self) -> None:
        """Raise SchemaMissing if the tables do not exist, NotPermitted if this role may not use them, and
        RightsTooWide if they belong to somebody else.
        """
        name = kombu_schema(self._queue.schema)
        schema = identifier(name)
        for owner, role in self._run(UNTRUSTED_OWNER, (name, self._queue.schema), list):
            raise RightsTooWide(
                f"{owner} owns schema {name}, or a table in it, and could act with the rights of {role}",
                "have an administrator drop that schema, or make the owner of the queue the owner of schema"
                f" {schema} and of its tables",
            )
        try:
            self._read()
        except SchemaMissing as error:
            raise SchemaMissing(
                error.message,
                f"connect once with install=True, as a role that may create schema {schema}",
            ) from error
        except NotPermitted as error:
            raise NotPermitted(
                error.message.partition(": ")[0],
                f"have an administrator run: GRANT USAGE ON SCHEMA {schema} TO the role; "
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO the role",
            ) from error

    def install(self, dsn: str) -> None:
        """Create the tables, if they do not exist yet. The lock is for processes that start together."""
        schema = kombu_schema(self._queue.schema)
        with psycopg.connect(dsn) as connection:
            try:
                connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [schema])
                connection.execute(create_kombu_tables(self._queue.schema).encode())
            except psycopg.errors.InsufficientPrivilege as error:
                raise NotPermitted(
                    f"cannot create the schema {schema}: {error.diag.message_primary}",
                    "let a role that may create schemas connect once, and grant this role the privileges "
                    f"on the schema {schema} and its tables",
                ) from error

    def declare(self, name: str, *, is_temporary: bool, expires_ms: int | None) -> None:
        """Create the queue, or say that it is still wanted."""
        expires_ms = max(EXPIRES_MS, expires_ms or 0)
        known = self._cache.temporary.get(name)
        if known is False and not is_temporary:
            return
        if is_temporary:
            self._delete_expired()
        # The name decides what the queue is once it exists: it is the same for everybody.
        kept: bool = self._run(
            "INSERT INTO {schema}.queue AS q (name, is_temporary, expires_ms)"
            " VALUES (CAST($1 AS TEXT), CAST($2 AS BOOLEAN), CAST($3 AS BIGINT))"
            " ON CONFLICT (name) DO UPDATE SET seen_at = clock_timestamp() RETURNING q.is_temporary",
            (name, is_temporary, expires_ms),
            lambda rows: bool(rows[0][0]),
        )
        self._cache.temporary[name] = kept

    def bind(self, binding: Binding) -> None:
        if binding in self._cache.bindings.get(binding.exchange, ()) and not self.is_temporary(binding.queue):
            return
        self._run(
            "INSERT INTO {schema}.binding (exchange, routing_key, queue, type)"
            " SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), q.name, CAST($3 AS TEXT) FROM {schema}.queue q"
            " WHERE q.name = CAST($4 AS TEXT) ON CONFLICT DO NOTHING RETURNING 1",
            (binding.exchange, binding.routing_key, binding.type, binding.queue),
            len,
        )
        with self._lock:
            known = self._cache.bindings.setdefault(binding.exchange, [])
            if binding not in known:
                known.append(binding)

    def unbind(self, queue: str, exchange: str, routing_key: str) -> None:
        self._run(
            "DELETE FROM {schema}.binding WHERE queue = CAST($1 AS TEXT) AND exchange = CAST($2 AS TEXT)"
            " AND routing_key = CAST($3 AS TEXT) RETURNING 1",
            (queue, exchange, routing_key),
            len,
        )
        self._read()

    def delete(self, queue: str) -> None:
        """Delete the queue, its bindings, and its messages if it is temporary."""
        self._run("DELETE FROM {schema}.queue WHERE name = CAST($1 AS TEXT) RETURNING 1", (queue,), len)
        self._read()

    def exists(self, queue: str) -> bool:
        if queue not in self._cache.temporary:
            self._read()
        return queue in self._cache.temporary

    def is_temporary(self, queue: str) -> bool:
        """False for a queue that nobody has declared: its messages must not be lost."""
        if queue not in self._cache.temporary:
            self._refresh()
        return self._cache.temporary.get(queue, False)

    def bindings(self, exchange: str) -> list[Binding]:
        """The bindings of an exchange. Another process may have made one a moment ago."""
        self._refresh()
        return list(self._cache.bindings.get(exchange, ()))

    def reread(self) -> None:
        """Something that should be there was not found."""
        self._read()

    def post(self, queues: Iterable[str], content: bytes, priority: int) -> None:
        """Put a copy into each of these temporary queues, and wake their consumers. A queue that another
        process deletes at the same time gets none: the lock waits for the delete.
        """
        self._run(
            "WITH wanted AS MATERIALIZED (SELECT q.name FROM {schema}.queue q"
            " WHERE q.name = ANY (CAST($3 AS TEXT[])) ORDER BY q.name FOR KEY SHARE),"
            " put AS (INSERT INTO {schema}.message (queue, priority, content)"
            " SELECT w.name, CAST($1 AS INT), CAST($2 AS BYTEA) FROM wanted w RETURNING queue)"
            " SELECT pg_notify(CAST($4 AS TEXT), p.queue) FROM put p",
            (priority, content, list(queues), self.notify_channel),
            len,
            repeats=False,
        )

    def take(self, queues: Iterable[str], limit: int) -> list[Mail]:
        """Take the oldest messages of these temporary queues."""
        return self._run(
            "WITH taken AS (DELETE FROM {schema}.message m WHERE m.id = ANY (ARRAY("
            " SELECT n.id FROM {schema}.message n WHERE n.queue = ANY (CAST($1 AS TEXT[]))"
            " ORDER BY n.priority DESC, n.id LIMIT CAST($2 AS INT) FOR UPDATE SKIP LOCKED)) RETURNING m.*)"
            " SELECT t.queue, t.content FROM taken t ORDER BY t.priority DESC, t.id",
            (list(queues), limit),
            lambda rows: [Mail(queue, bytes(content)) for queue, content in rows],
            repeats=False,
        )

    def count(self, queue: str) -> int:
        """How many messages a temporary queue has."""
        return self._run(
            "SELECT COUNT(*) FROM {schema}.message m WHERE m.queue = CAST($1 AS TEXT)",
            (queue,),
            lambda rows: int(rows[0][0]),
        )

    def purge(self, queue: str) -> int:
        """Delete the messages of a temporary queue."""
        return self._run(
            "DELETE FROM {schema}.message m WHERE m.queue = CAST($1 AS TEXT) RETURNING 1", (queue,), len
        )

    def _delete_expired(self) -> None:
        self._run(
            "DELETE FROM {schema}.queue q WHERE q.name = ANY (ARRAY("
            " SELECT e.name FROM {schema}.queue e WHERE e.is_temporary"
            " AND e.seen_at < clock_timestamp() - e.expires_ms * INTERVAL '1 millisecond'"
            " FOR UPDATE SKIP LOCKED)) RETURNING 1",
            (),
            len,
        )

    def _refresh(self) -> None:
        if time.monotonic() - self._cache.read_at > FRESH_S:
            self._read()

    def _read(self) -> None:
        read_at = time.monotonic()
        rows = self._run(
            "SELECT q.name, q.is_temporary, b.exchange, b.routing_key, b.type FROM {schema}.queue q"
            " LEFT JOIN {schema}.binding b ON b.queue = q.name"
            " WHERE NOT q.is_temporary"
            " OR q.seen_at > clock_timestamp() - q.expires_ms * INTERVAL '1 millisecond'",
            (),
            list,
        )
        found = _Cache(read_at)
        for name, is_temporary, exchange, routing_key, kind in rows:
            found.temporary[name] = is_temporary
            if exchange is not None:
                found.bindings.setdefault(exchange, []).append(Binding(exchange, routing_key, kind, name))
        with self._lock:
            self._cache = found

    def _run(
        self,
        text: str,
        values: tuple[Any, ...],
        read: Callable[[Sequence[Row]], Answer],
        *,
        repeats: bool = True,
    ) -> Answer:
        return self._queue.perform(ask(_Sql(text, values, read, repeats)))
