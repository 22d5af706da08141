"""What all connections of a process to one queue share: the client, and the topology.

kombu opens many connections, for example one per thread that publishes. Each borrows from one pool.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field

from lonnymq.client.queue import Queue
from lonnymq.commands import QueueSettings
from lonnymq.errors import SchemaMissing
from lonnymq.kombu.options import Options
from lonnymq.kombu.topology import Topology

CONNECTION_WAIT_S = 5.0  # an event loop stands still meanwhile


@dataclass(frozen=True)
class Key:
    dsn: str = field(repr=False)  # it may contain a password
    schema: str
    listen: bool | str = field(repr=False)
    pool_size: int


class Broker:
    def __init__(self, key: Key) -> None:
        self.key = key
        self.queue = Queue(
            key.dsn, key.schema, listen=key.listen, pool_size=key.pool_size, timeout=CONNECTION_WAIT_S
        )
        self.topology = Topology(self.queue)
        self.users = 0

    def prepare(self, *, install: bool) -> QueueSettings:
        """Connect, and create what does not exist yet. Raises DatabaseUnreachable or SchemaMissing."""
        try:
            settings = self.queue.settings()
        except SchemaMissing:
            if not install:
                raise
            self.queue.install()
            settings = self.queue.settings()
        try:
            self.topology.check()
        except SchemaMissing:
            if not install:
                raise
            self.topology.install(self.key.dsn)
            self.topology.check()
        return settings


_brokers: dict[Key, Broker] = {}
_lock = threading.Lock()


def acquire(dsn: str, options: Options) -> Broker:
    """The broker for this address; `release` it when the connection is closed."""
    key = Key(dsn, options.schema, options.listen, options.pool_size)
    with _lock:
        broker = _brokers.get(key)
        if broker is None:
            broker = _brokers[key] = Broker(key)
        broker.users += 1
        return broker


def release(broker: Broker) -> None:
    """Close the pool if this was the last connection that used it."""
    with _lock:
        broker.users -= 1
        if broker.users > 0:
            return
        if _brokers.get(broker.key) is broker:
            del _brokers[broker.key]
    broker.queue.close()


def _start_anew() -> None:
    """In a forked process: the connections are the parent's."""
    global _lock  # noqa: PLW0603 - a thread of the parent may have held it
    _lock = threading.Lock()
    _brokers.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
