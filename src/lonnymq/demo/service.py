"""Consumers that fold, dequeue, work and complete, and the record of what they did."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from lonnymq.demo.tenants import POISON

BATCH = 2
LEASE_MS = 30_000
WORK_S = 0.01


@dataclass(frozen=True)
class Row:
    """A row of message_dequeue: a message, or last, with `id` NULL, when to ask again."""

    id: int | None
    channel: str
    content: bytes
    headers: object
    state: bytes | None
    attempts: int
    token: UUID
    lease_end_at: int
    again_at: int | None


@dataclass
class Record:
    """What was served, in its order, and how many messages of a channel were held at once."""

    total: int
    order: list[str] = field(default_factory=list)
    dead: Counter[str] = field(default_factory=Counter)
    most_held: Counter[str] = field(default_factory=Counter)
    stop: Event = field(default_factory=Event)
    _held: Counter[str] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    @property
    def finished(self) -> bool:
        return len(self.order) >= self.total or self.stop.is_set()

    def took(self, channel: str) -> None:
        with self._lock:
            self._held[channel] += 1
            self.most_held[channel] = max(self.most_held[channel], self._held[channel])

    def lets_go(self, channel: str) -> None:
        """Said just before the call that ends a lease, so that no lease is counted after its end."""
        with self._lock:
            self._held[channel] -= 1

    def ended(self, channel: str, result: str) -> None:
        with self._lock:
            if result in {"completed", "dead"}:
                self.order.append(channel)
            if result == "dead":
                self.dead[channel] += 1


def consume(conn: Connection[Any], consumer: str, record: Record) -> None:
    """Serve until everything is served. The connection commits each call by itself."""
    while not record.finished:
        conn.execute("SELECT wake_fold()")
        with conn.cursor(row_factory=class_row(Row)) as cursor:
            query = "SELECT * FROM message_dequeue(%s, %s, %s)"
            rows = cursor.execute(query, [BATCH, LEASE_MS, consumer]).fetchall()
        messages = [row for row in rows if row.id is not None]
        for message in messages:
            record.took(message.channel)
        for message in messages:
            _serve(conn, message, record)
        if not messages:
            record.stop.wait(_seconds_until(rows[-1].again_at))


def _seconds_until(again_at: int | None) -> float:
    return max(0.0, (again_at or 0) / 1000 - time.time())


def _serve(conn: Connection[Any], message: Row, record: Record) -> None:
    time.sleep(WORK_S)
    record.lets_go(message.channel)
    if message.content == POISON:
        query, error = "SELECT message_defer(%s, %s, p_error => %s)", [POISON.decode()]
    else:
        query, error = "SELECT message_complete(%s, %s)", []
    row = conn.execute(query, [message.id, message.token, *error]).fetchone()
    record.ended(message.channel, row[0] if row else "")
