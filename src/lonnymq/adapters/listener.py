"""A connection for notifications: it stays open, and must not go through a pooler."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Self

import psycopg
from psycopg import sql

from lonnymq.adapters.psycopg_pool import SESSION_QUERY, is_behind_a_pooler

log = logging.getLogger("lonnymq")
POOLED = "cannot LISTEN through a pooler, so polling every second; give a direct address as listen="
FAILED = "could not connect to LISTEN, so polling every second: %s"


def _listen(channel: str) -> sql.Composed:
    return sql.SQL("LISTEN {}").format(sql.Identifier(channel))


class NoListening(Exception):
    """The address leads to a pooler, which does not pass on notifications."""


def _check_is_direct(
    connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], backend_pid: int
) -> None:
    if is_behind_a_pooler(connection, backend_pid):
        log.warning(POOLED)
        raise NoListening


def _leave_to_parent(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """In a forked process: keep psycopg from warning that nobody closed the connection."""
    connection._pool = None  # noqa: SLF001 - psycopg does not warn about connections of a pool


class Listener:
    """After its connection has broken, it only sleeps."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self.is_broken = False

    @classmethod
    def connect(cls, conninfo: str, channel: str) -> Self | None:
        """None if there is no connection for now; raises NoListening if the address leads to a pooler."""
        try:
            connection = psycopg.connect(
                conninfo, autocommit=True, fallback_application_name="lonnymq listen"
            )
        except psycopg.Error as error:
            log.warning(FAILED, error)
            return None
        try:
            for backend_pid, _ in connection.execute(SESSION_QUERY):
                _check_is_direct(connection, backend_pid)
            connection.execute(_listen(channel))
        except BaseException as error:
            connection.close()
            if not isinstance(error, psycopg.Error):
                raise
            log.warning(FAILED, error)
            return None
        return cls(connection)

    def wait(self, seconds: float) -> bool:
        """Wait for a notification, at most `seconds`; with 0, discard those that came. Returns whether one
        came.
        """
        is_notified = False
        if self.is_broken:
            time.sleep(seconds)
            return is_notified
        try:
            for _ in self._connection.notifies(timeout=seconds, stop_after=1 if seconds else None):
                is_notified = True
        except psycopg.Error as error:
            log.warning(FAILED, error)
            self.is_broken = True
        return is_notified

    def payloads(self, seconds: float) -> list[str] | None:
        """Wait for notifications, at most `seconds`. Returns their payloads; None if the connection broke."""
        try:
            return [found.payload for found in self._connection.notifies(timeout=seconds, stop_after=1)]
        except psycopg.Error as error:
            log.warning(FAILED, error)
            self.is_broken = True
            return None

    def close(self) -> None:
        self._connection.close()

    def leave_to_parent(self) -> None:
        _leave_to_parent(self._connection)


class AsyncListener:
    """After its connection has broken, it only sleeps."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection
        self.is_broken = False

    @classmethod
    async def connect(cls, conninfo: str, channel: str) -> Self | None:
        """None if there is no connection for now; raises NoListening if the address leads to a pooler."""
        try:
            connection = await psycopg.AsyncConnection.connect(
                conninfo, autocommit=True, fallback_application_name="lonnymq listen"
            )
        except psycopg.Error as error:
            log.warning(FAILED, error)
            return None
        try:
            async for backend_pid, _ in await connection.execute(SESSION_QUERY):
                _check_is_direct(connection, backend_pid)
            await connection.execute(_listen(channel))
        except BaseException as error:
            await connection.close()
            if not isinstance(error, psycopg.Error):
                raise
            log.warning(FAILED, error)
            return None
        return cls(connection)

    async def wait(self, seconds: float) -> bool:
        """Wait for a notification, at most `seconds`; with 0, discard those that came. Returns whether one
        came.
        """
        is_notified = False
        if self.is_broken:
            await asyncio.sleep(seconds)
            return is_notified
        try:
            async for _ in self._connection.notifies(timeout=seconds, stop_after=1 if seconds else None):
                is_notified = True
        except psycopg.Error as error:
            log.warning(FAILED, error)
            self.is_broken = True
        return is_notified

    async def payloads(self, seconds: float) -> list[str] | None:
        """Wait for notifications, at most `seconds`. Returns their payloads; None if the connection broke."""
        try:
            return [found.payload async for found in self._connection.notifies(timeout=seconds, stop_after=1)]
        except psycopg.Error as error:
            log.warning(FAILED, error)
            self.is_broken = True
            return None

    async def close(self) -> None:
        await self._connection.close()

    def close_now(self) -> None:
        """Close it without an event loop."""
        self._connection.pgconn.finish()

    def leave_to_parent(self) -> None:
        _leave_to_parent(self._connection)
