"""Dequeues do not wait for the disk when they commit, unless something exact depends on it; all else does.

What a commit will do is told by the setting at its very moment, whoever has changed it before: a deferred
trigger runs then, and writes it down. That the setting means what it says is seen in the WAL.
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
from tests.queues import KINDS, OWN, made

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
    """How what was done to messages since the last look was committed."""

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
    with made(kind, dsn) as it:
        it.queue.enqueue("x")
        [delivery] = it.queue.dequeue(limit)
        assert it.queue.complete(delivery) == "completed"
        assert commits.read() == [(CREATE, "on"), (DEQUEUE, "off"), (COMPLETE, "on")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [1, 10])
def test_synchronous_if_asked_for(dsn: str, commits: Commits, kind: str, limit: int) -> None:
    with made(kind, dsn, async_commit=False) as it:
        it.queue.enqueue("x")
        assert len(it.queue.dequeue(limit)) == 1
        assert commits.read() == [(CREATE, "on"), (DEQUEUE, "on")]


def limit_channel(queue: Queue) -> None:
    queue.channel("default").set(max_concurrency=5)


def pace_channel(queue: Queue) -> None:
    queue.channel("default").set(release_interval=0.001)


def limit_queue(queue: Queue) -> None:
    queue.set(max_concurrency=5)


def keep_history(queue: Queue) -> None:
    queue.set(history=True)


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.parametrize("limit", [1, 10])
@pytest.mark.parametrize("promise", [limit_channel, pace_channel, limit_queue, keep_history])
def test_synchronous_where_something_exact_depends_on_it(
    dsn: str, commits: Commits, kind: str, limit: int, promise: Callable[[Queue], None]
) -> None:
    with made(kind, dsn) as it:
        promise(it.queue)
        it.queue.enqueue("x")
        assert len(it.queue.dequeue(limit)) == 1
        assert commits.read() == [(CREATE, "on"), (DEQUEUE, "on")]
        assert it.ask(MODE) == "on"


@pytest.mark.parametrize("limit", [1, 10])
def test_a_limit_elsewhere_does_not_matter(dsn: str, commits: Commits, limit: int) -> None:
    with Queue(dsn) as queue:
        queue.channel("limited").set(max_concurrency=5, release_interval=1)
        queue.enqueue("x", channel="free")
        assert len(queue.dequeue(limit)) == 1
        assert commits.read() == [(CREATE, "on"), (DEQUEUE, "off")]


@pytest.mark.parametrize("kind", KINDS)
def test_the_session_is_left_as_it_was(dsn: str, commits: Commits, kind: str) -> None:
    with made(kind, dsn, size=1) as it:
        session = it.ask("SELECT pg_backend_pid()")
        assert it.ask(MODE) == "on"
        it.queue.enqueue_many(["x", "y", "z"])
        assert it.queue.dequeue(), "one"
        assert it.ask(MODE) == "on"
        assert it.queue.dequeue(2), "some"
        assert it.ask(MODE) == "on"
        assert not it.queue.dequeue(), "none"
        assert it.ask(MODE) == "on"
        for _ in range(10):  # beyond the number of times after which drivers prepare
            with pytest.raises(InvalidLimit):
                it.queue.dequeue(0)
            assert it.ask(MODE) == "on"
        it.queue.enqueue("x")
        assert it.queue.dequeue(), "after errors"
        assert it.ask(MODE) == "on"
        assert it.ask("SELECT pg_backend_pid()") == session, "it was one session all along"
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
def alone() -> Iterator[tuple[str, psycopg.Connection]]:
    """A server on which nobody else commits, and a look at it."""
    settings = SETTINGS | {"autovacuum": "off", "wal_writer_delay": "10s", "max_wal_senders": "0"}
    with (
        clusters.cluster(settings=settings | {"wal_level": "minimal"}) as server,
        psycopg.connect(server.dsn(), autocommit=True) as conn,
    ):
        install(conn)
        yield server.dsn(), conn


@pytest.mark.parametrize("kind", OWN)
def test_what_the_disk_has_seen(alone: tuple[str, psycopg.Connection], kind: str) -> None:
    """With the WAL writer stopped and dispatches held back, nobody but the calls has WAL written."""
    dsn, conn = alone

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
        made(kind, dsn) as lightly,
        made(kind, dsn, async_commit=False) as durably,
        psycopg.connect(dsn) as dispatcher,
        stopped(writer),
    ):
        assert is_flushed_by(lambda: lightly.queue.enqueue_many(["x"] * 20))
        conn.execute("SELECT lonnymq.dispatch()")
        dispatcher.execute("SELECT FROM lonnymq.dispatch_lock FOR UPDATE")
        for _ in range(3):
            assert not is_flushed_by(lambda: lightly.queue.dequeue(2))
            assert not is_flushed_by(lightly.queue.dequeue)
            assert is_flushed_by(durably.queue.dequeue)
            assert is_flushed_by(lambda: durably.queue.dequeue(2))
        [delivery] = lightly.queue.dequeue()
        assert is_flushed_by(lambda: lightly.queue.complete(delivery))
        assert is_flushed_by(lambda: lightly.queue.enqueue("y"))
