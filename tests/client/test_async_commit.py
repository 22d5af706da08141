"""Dequeues commit asynchronously, unless a limit or the history depends on them; all other calls wait.

`synchronous_commit` counts as it is at the moment of the commit. A deferred trigger runs at that moment and
records the setting. One test also checks in the WAL that the setting has its effect.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psycopg
import pytest

from lonnymq import Queue
from lonnymq.errors import InvalidLimit
from lonnymq.install import install
from tests.database import SETTINGS
from tests.faults import clusters
from tests.queues import KINDS, OWN_POOL, opened_queue

COMMITS = """
CREATE TABLE public.commits (what TEXT, mode TEXT);
CREATE FUNCTION public.commits_note () RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.commits
    VALUES (TG_OP || ' ' || TG_TABLE_NAME, current_setting('synchronous_commit'));
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER commits AFTER INSERT OR DELETE ON lonnymq.message
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.commits_note();
CREATE CONSTRAINT TRIGGER commits AFTER INSERT ON lonnymq.lease
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.commits_note();
"""
CREATE, DEQUEUE, COMPLETE = "INSERT message", "INSERT lease", "DELETE message"
MODE = "SHOW synchronous_commit"


class Commits:
    """The setting with which each change to messages was committed, since the last call of `read`."""

    def __init__(self, conn: psycopg.Connection) -> None:
        self._conn = conn
        conn.execute(COMMITS.encode())

    def read(self) -> list[tuple[str, str]]:
        rows = self._conn.execute("DELETE FROM public.commits RETURNING what, mode").fetchall()
        return [(what, mode) for what, mode in rows]


@pytest.fixture
def commits(conn: psycopg.Connection) -> Commits:
    return Commits(conn)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [1, 10])
def test_only_the_dequeue_is_asynchronous(dsn: str, commits: Commits, kind: str, limit: int) -> None:
    with opened_queue(kind, dsn) as opened:
        opened.queue.enqueue("x")
        [delivery] = opened.queue.dequeue(limit)
        assert opened.queue.complete(delivery) == "completed"
        assert commits.read() == [(CREATE, "on"), (DEQUEUE, "off"), (COMPLETE, "on")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [1, 10])
def test_synchronous_if_requested(dsn: str, commits: Commits, kind: str, limit: int) -> None:
    with opened_queue(kind, dsn, async_commit=False) as opened:
        opened.queue.enqueue("x")
        assert len(opened.queue.dequeue(limit)) == 1
        assert commits.read() == [(CREATE, "on"), (DEQUEUE, "on")]


def limit_channel(queue: Queue) -> None:
    queue.channel("default").set(max_concurrency=5)


def pace_channel(queue: Queue) -> None:
    queue.channel("default").set(rate="1000/s")


def limit_queue(queue: Queue) -> None:
    queue.set(max_concurrency=5)


def keep_history(queue: Queue) -> None:
    queue.set(history=True)


@pytest.mark.parametrize("kind", OWN_POOL)
@pytest.mark.parametrize("limit", [1, 10])
@pytest.mark.parametrize("configure", [limit_channel, pace_channel, limit_queue, keep_history])
def test_synchronous_where_a_limit_or_the_history_depends_on_it(
    dsn: str, commits: Commits, kind: str, limit: int, configure: Callable[[Queue], None]
) -> None:
    with opened_queue(kind, dsn) as opened:
        configure(opened.queue)
        opened.queue.enqueue("x")
        assert len(opened.queue.dequeue(limit)) == 1
        assert commits.read() == [(CREATE, "on"), (DEQUEUE, "on")]
        assert opened.fetch_value(MODE) == "on"


@pytest.mark.parametrize("limit", [1, 10])
def test_a_limit_on_another_channel_does_not_matter(dsn: str, commits: Commits, limit: int) -> None:
    with Queue(dsn) as queue:
        queue.channel("limited").set(max_concurrency=5, rate="1/s")
        queue.enqueue("x", channel="free")
        assert len(queue.dequeue(limit)) == 1
        assert commits.read() == [(CREATE, "on"), (DEQUEUE, "off")]


@pytest.mark.parametrize("kind", KINDS)
def test_the_setting_of_the_session_is_restored(dsn: str, commits: Commits, kind: str) -> None:
    with opened_queue(kind, dsn, size=1) as opened:
        session = opened.fetch_value("SELECT pg_backend_pid()")
        assert opened.fetch_value(MODE) == "on"
        opened.queue.enqueue_many(["x", "y", "z"])
        assert opened.queue.dequeue(), "one"
        assert opened.fetch_value(MODE) == "on"
        assert opened.queue.dequeue(2), "some"
        assert opened.fetch_value(MODE) == "on"
        assert not opened.queue.dequeue(), "none"
        assert opened.fetch_value(MODE) == "on"
        for _ in range(10):  # more often than a driver needs to prepare the statement
            with pytest.raises(InvalidLimit):
                opened.queue.dequeue(0)
            assert opened.fetch_value(MODE) == "on"
        opened.queue.enqueue("x")
        assert opened.queue.dequeue(), "after errors"
        assert opened.fetch_value(MODE) == "on"
        assert opened.fetch_value("SELECT pg_backend_pid()") == session, "all calls used the same session"
        assert {mode for what, mode in commits.read() if what == DEQUEUE} == {"off"}


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class Lsns(NamedTuple):
    flushed: int
    inserted: int


@pytest.fixture
def idle_server() -> Iterator[tuple[str, psycopg.Connection]]:
    """The address of a server on which nothing else commits, and a connection to it."""
    settings = SETTINGS | {"autovacuum": "off", "wal_writer_delay": "10s", "max_wal_senders": "0"}
    with (
        clusters.cluster(settings=settings | {"wal_level": "minimal"}) as server,
        psycopg.connect(server.dsn(), autocommit=True) as conn,
    ):
        install(conn)
        yield server.dsn(), conn


@pytest.mark.slow
@pytest.mark.parametrize("kind", OWN_POOL)
def test_which_calls_flush_the_wal(idle_server: tuple[str, psycopg.Connection], kind: str) -> None:
    """The WAL writer is stopped and dispatches are blocked, so that only the calls flush WAL."""
    dsn, conn = idle_server

    def is_flushed_by(call: Callable[[], object]) -> bool:
        before = lsns()
        call()
        after = lsns()
        assert after.flushed == before.flushed or after.flushed > before.inserted
        return after.flushed > before.flushed

    def lsns() -> Lsns:
        query = "SELECT pg_current_wal_flush_lsn() - '0/0', pg_current_wal_insert_lsn() - '0/0'"
        return Lsns(*conn.execute(query).fetchall()[0])

    [(writer,)] = conn.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'")
    with (
        opened_queue(kind, dsn) as async_client,
        opened_queue(kind, dsn, async_commit=False) as durable_client,
        psycopg.connect(dsn) as dispatcher,
        stopped(writer),
    ):
        assert is_flushed_by(lambda: async_client.queue.enqueue_many(["x"] * 20))
        conn.execute("SELECT lonnymq.dispatch()")
        dispatcher.execute("SELECT FROM lonnymq.dispatch_lock FOR UPDATE")
        for _ in range(3):
            assert not is_flushed_by(lambda: async_client.queue.dequeue(2))
            assert not is_flushed_by(async_client.queue.dequeue)
            assert is_flushed_by(durable_client.queue.dequeue)
            assert is_flushed_by(lambda: durable_client.queue.dequeue(2))
        [delivery] = async_client.queue.dequeue()
        assert is_flushed_by(lambda: async_client.queue.complete(delivery))
        assert is_flushed_by(lambda: async_client.queue.enqueue("y"))
