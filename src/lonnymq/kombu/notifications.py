"""The connection that wakes a sleeping consumer, and the pipe by which other threads wake it."""

from __future__ import annotations

import logging
import select
import socket
from contextlib import suppress

import psycopg
from psycopg import sql

from lonnymq.adapters.listener import FAILED, Listener

log = logging.getLogger("lonnymq.kombu")


class Notifications(Listener):
    """Listens on several channels of PostgreSQL, and can be part of an event loop."""

    def also(self, channel: str) -> bool:
        """Listen on another channel, too. Returns whether that was possible."""
        try:
            self._connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        except psycopg.Error as error:
            log.warning(FAILED, error)
            self.is_broken = True
        return not self.is_broken

    def fileno(self) -> int:
        return self._connection.fileno()

    def read(self) -> list[psycopg.Notify]:
        """The notifications that have arrived."""
        if self.is_broken:
            return []
        try:
            return list(self._connection.notifies(timeout=0))
        except psycopg.Error as error:
            log.warning(FAILED, error)
            self.is_broken = True
            return []


class Waker:
    """Wakes the thread that waits. Any thread may call `wake`."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.settimeout(0)
        self._writer.settimeout(0)

    def fileno(self) -> int:
        return self._reader.fileno()

    def wake(self) -> None:
        with suppress(OSError):  # it is full, which wakes as well, or closed
            self._writer.send(b"\0")

    def clear(self) -> None:
        with suppress(OSError):
            while self._reader.recv(4096):
                pass

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


def wait_for(files: list[int], seconds: float) -> None:
    """Wait until one of the files can be read, at most so long."""
    poller = select.poll()
    for file in files:
        poller.register(file, select.POLLIN)
    poller.poll(max(0, seconds) * 1000)
