"""Connections that break: while idle, during a call, or after the call was done but before its answer."""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast

import asyncpg
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import create_engine
from sqlalchemy.exc import PendingRollbackError
from sqlalchemy.ext.asyncio import create_async_engine

from lonnymq import AsyncQueue, Delivery, Enqueued, NewMessage, Queue
from lonnymq.client.produce import Chunk
from lonnymq.errors import ConnectionDropped, DatabaseUnreachable, OutcomeUnknown
from tests.conformance.drivers import url
from tests.database import Connect
from tests.queues import KINDS, OWN_POOL, Blocking, Run, loop, opened_queue

pytestmark = pytest.mark.cases(4)

TIMEOUT_S = 10.0
GATE = 815
HOST = "127.0.0.1"
BIND_COMPLETE, COMMAND_COMPLETE, READY_FOR_QUERY = b"2", b"C", b"Z"
PARSE, BIND = b"P", b"B"
ENCRYPTION = (80877103).to_bytes(4), (80877104).to_bytes(4)  # SSLRequest, GSSENCRequest
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
REPEATABLE = 300  # a unique_for that outlasts the repeats of a call
WINDOWS_THAT_MAY_BE_OVER: list[dict[str, Any]] = [{}, {"unique_while": "running"}, {"unique_for": 299}]


def until(is_true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_true():
        assert time.monotonic() < deadline, f"timed out waiting for: {what}"
        time.sleep(0.005)


def count(conn: psycopg.Connection) -> int:
    [(number,)] = conn.execute("SELECT COUNT(*) FROM message").fetchall()
    return int(number)


def waiting(conn: psycopg.Connection, statement: str = "") -> list[int]:
    """The sessions that wait for a lock in this statement."""
    rows = conn.execute(
        "SELECT pid FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE %s",
        (f"%{statement}%",),
    )
    return [pid for (pid,) in rows]


def terminate(conn: psycopg.Connection, pid: int) -> None:
    """Terminate the session and wait until it is gone."""
    assert conn.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,)).fetchone() == (True,)


@contextmanager
def messages_are_locked(connect: Connect) -> Iterator[None]:
    with connect(autocommit=False) as holder:
        holder.execute("LOCK TABLE message IN ACCESS EXCLUSIVE MODE")
        yield
        holder.rollback()


@contextmanager
def key_is_taken(connect: Connect, key: str) -> Iterator[None]:
    """Hold the dedupe key in an open transaction, which is rolled back at the end."""
    with connect(autocommit=False) as holder:
        holder.execute("SELECT message_create('default', 'x', p_dedupe_key => %s)", (key,))
        yield
        holder.rollback()


def terminate_during(
    statement: str, call: Callable[[], Any], conn: psycopg.Connection, lock: Any, times: int = 1
) -> Any:
    """The outcome of a call whose session is terminated while this statement waits for the lock."""
    with ThreadPoolExecutor(1) as pool:
        with lock:
            running = pool.submit(call)
            for _ in range(times):
                until(lambda: running.done() or waiting(conn, statement), f"{statement} to wait")
                assert not running.done(), running.exception() or running.result()
                [pid] = waiting(conn, statement)
                terminate(conn, pid)
        return running.result(TIMEOUT_S)


@pytest.fixture
def leased(dsn: str, conn: psycopg.Connection) -> Delivery:
    with Queue(dsn) as queue:
        queue.enqueue("x")
        [delivery] = queue.dequeue(lease=600)
        return delivery


def sessions(conn: psycopg.Connection) -> list[int]:
    """The pids of all other client sessions."""
    rows = conn.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
        "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    return [pid for (pid,) in rows]


def terminate_all(conn: psycopg.Connection) -> int:
    found = sessions(conn)
    for pid in found:
        terminate(conn, pid)
    return len(found)


@EVERY_KIND
def test_an_idle_connection_is_replaced(dsn: str, conn: psycopg.Connection, kind: str) -> None:
    """The call runs once, and its outcome is known."""
    size = 3
    with opened_queue(kind, dsn, size=size) as opened, ThreadPoolExecutor(size) as pool:
        conn.execute("SELECT pg_advisory_lock(%s)", (GATE,))
        queries = [
            pool.submit(opened.fetch_value, f"SELECT pg_advisory_xact_lock_shared({GATE})::TEXT")
            for _ in range(size)
        ]
        until(lambda: len(waiting(conn)) == size, "a connection for each")
        conn.execute("SELECT pg_advisory_unlock(%s)", (GATE,))
        for query in queries:
            query.result(TIMEOUT_S)
        assert terminate_all(conn) == size
        assert opened.queue.enqueue("x").result == "created"
        assert count(conn) == 1
        assert terminate_all(conn) >= 1
        [delivery] = opened.queue.dequeue()
        assert terminate_all(conn) >= 1
        assert opened.queue.complete(delivery) == "completed"
        assert terminate_all(conn) >= 1
        assert opened.queue.enqueue_many(["x", "y"]).created == 2
        assert count(conn) == 2


@EVERY_KIND
def test_enqueue_without_a_key_has_an_unknown_outcome(
    dsn: str, connect: Connect, conn: psycopg.Connection, kind: str
) -> None:
    with opened_queue(kind, dsn) as opened:
        with pytest.raises(OutcomeUnknown):
            terminate_during(
                "message_create", lambda: opened.queue.enqueue("x"), conn, messages_are_locked(connect)
            )
        assert count(conn) == 0
        assert opened.queue.enqueue("x").result == "created", "the queue still works"


@EVERY_KIND
def test_enqueue_with_a_key_is_repeated(
    dsn: str, connect: Connect, conn: psycopg.Connection, kind: str
) -> None:
    with opened_queue(kind, dsn) as opened:
        created = terminate_during(
            "message_create",
            lambda: opened.queue.enqueue("x", dedupe_key="k", unique_for=REPEATABLE),
            conn,
            messages_are_locked(connect),
        )
        assert created.result == "created"
        assert count(conn) == 1


@EVERY_KIND
def test_complete_is_repeated(
    dsn: str, connect: Connect, conn: psycopg.Connection, kind: str, leased: Delivery
) -> None:
    with opened_queue(kind, dsn) as opened:
        result = terminate_during(
            "message_complete", lambda: opened.queue.complete(leased), conn, messages_are_locked(connect)
        )
        assert result == "completed"
        assert count(conn) == 0


@EVERY_KIND
def test_dequeue_is_repeated(dsn: str, connect: Connect, conn: psycopg.Connection, kind: str) -> None:
    conn.execute("SELECT message_create('default', 'x')")
    conn.execute("SELECT dispatch()")
    with opened_queue(kind, dsn) as opened:
        [delivery] = terminate_during(
            "message_dequeue", opened.queue.dequeue, conn, messages_are_locked(connect)
        )
        assert delivery.attempts == 1
        assert opened.queue.complete(delivery) == "completed"


@EVERY_KIND
def test_stats_are_repeated(dsn: str, connect: Connect, conn: psycopg.Connection, kind: str) -> None:
    conn.execute("SELECT message_create('default', 'x')")
    conn.execute("SELECT dispatch()")
    with opened_queue(kind, dsn) as opened:
        stats = terminate_during("queue_stats", opened.queue.stats, conn, messages_are_locked(connect))
        assert stats.waiting == 1


@pytest.mark.parametrize("kind", OWN_POOL)
def test_after_three_drops_in_a_row_the_database_is_unreachable(
    dsn: str, connect: Connect, conn: psycopg.Connection, kind: str
) -> None:
    with opened_queue(kind, dsn) as opened, pytest.raises(DatabaseUnreachable):
        terminate_during("queue_stats", opened.queue.stats, conn, messages_are_locked(connect), times=3)


@pytest.mark.parametrize("kind", OWN_POOL)
def test_after_three_drops_in_a_row_the_outcome_is_unknown(
    dsn: str, connect: Connect, conn: psycopg.Connection, kind: str, leased: Delivery
) -> None:
    with opened_queue(kind, dsn) as opened, pytest.raises(OutcomeUnknown):
        terminate_during(
            "message_complete",
            lambda: opened.queue.complete(leased),
            conn,
            messages_are_locked(connect),
            times=3,
        )


@pytest.fixture
def batch(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Three chunks; the second one waits for a key."""
    monkeypatch.setattr(Chunk, "max_messages", 2)
    return ["one", "two", "three", NewMessage("four", dedupe_key="k"), "five"]


@EVERY_KIND
def test_enqueue_many_in_one_transaction(
    dsn: str, connect: Connect, conn: psycopg.Connection, kind: str, batch: list[object]
) -> None:
    with opened_queue(kind, dsn) as opened:
        with pytest.raises(ConnectionDropped):
            terminate_during(
                "message_create_many",
                lambda: opened.queue.enqueue_many(batch),
                conn,
                key_is_taken(connect, "k"),
            )
        assert count(conn) == 0
        assert opened.queue.enqueue_many(batch).created == 5, "the queue still works"


@EVERY_KIND
def test_enqueue_many_with_commit_each_chunk(
    dsn: str, connect: Connect, conn: psycopg.Connection, kind: str, batch: list[object]
) -> None:
    seen: list[Enqueued] = []
    with opened_queue(kind, dsn) as opened:
        with pytest.raises(OutcomeUnknown):
            terminate_during(
                "message_create_many",
                lambda: opened.queue.enqueue_many(batch, commit_each_chunk=True, progress=seen.append),
                conn,
                key_is_taken(connect, "k"),
            )
        assert [so_far.created for so_far in seen] == [2]
        assert contents(conn) == ["one", "two"]


@EVERY_KIND
def test_a_chunk_in_which_all_messages_have_keys_is_repeated(
    dsn: str, connect: Connect, conn: psycopg.Connection, kind: str, batch: list[object]
) -> None:
    keyed = [NewMessage(letter, dedupe_key=letter, unique_for=REPEATABLE) for letter in "abk"]
    with opened_queue(kind, dsn) as opened:
        loaded = terminate_during(
            "message_create_many",
            lambda: opened.queue.enqueue_many(keyed, commit_each_chunk=True),
            conn,
            key_is_taken(connect, "k"),
        )
        assert loaded.created == 3
        assert contents(conn) == ["a", "b", "k"]


def contents(conn: psycopg.Connection) -> list[str]:
    rows = conn.execute("SELECT convert_from(content, 'UTF8')::JSONB #>> '{}' FROM message ORDER BY id")
    return [content for (content,) in rows]


class DroppingProxy:
    """A proxy between client and server, which drops the connection instead of passing on a chosen answer."""

    def __init__(self, direct: str, run: Run[None]) -> None:
        self.run = run
        self._direct = conninfo_to_dict(direct)
        self._statement: bytes | None = None
        self._then_refuse = self._is_refusing = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[Any]] = set()
        self.port = 0
        self.drops = 0

    def drop_after(self, statement: str, *, then_refuse: bool = False) -> None:
        """Drop once, when the call is done and committed; `then_refuse` refuses later connections."""
        self._statement = statement.encode()
        self._then_refuse = then_refuse

    @property
    def dsn(self) -> str:
        found = self._direct
        login = f"{found['user']}:{found.get('password', '')}"
        return f"postgresql://{login}@{HOST}:{self.port}/{found['dbname']}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Drop all connections and refuse new ones."""
        self._is_refusing = True
        while self._serving:
            for writer in self._writers:
                writer.close()
            await asyncio.wait(self._serving)

    async def stop(self) -> None:
        self._server.close()
        await self.refuse()

    async def _serve(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        self._writers.add(to_client)
        try:
            if not self._is_refusing:
                await self._connect(from_client, to_client)
        except (OSError, EOFError):
            pass  # the client or the server has closed its end
        finally:
            await _close(to_client)
            self._serving.remove(task)

    async def _connect(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(
            str(self._direct["host"]), int(str(self._direct["port"]))
        )
        self._writers.add(to_server)
        requested = asyncio.Event()
        try:
            await self._begin(from_client, to_client, to_server)
            directions = [
                asyncio.ensure_future(self._forward_requests(from_client, to_server, requested)),
                asyncio.ensure_future(self._forward_answers(from_server, to_client, requested)),
            ]
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
        finally:
            await _close(to_server)

    async def _begin(
        self,
        from_client: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        to_server: asyncio.StreamWriter,
    ) -> None:
        """Refuse encryption, then pass on the startup message, the only one without a type."""
        while True:
            head = await from_client.readexactly(8)
            if head[4:] not in ENCRYPTION:
                break
            to_client.write(b"N")
        to_server.write(head + await from_client.readexactly(int.from_bytes(head[:4]) - 8))

    async def _forward_requests(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, requested: asyncio.Event
    ) -> None:
        """Pass on whole messages. A driver may parse a statement, send others, and bind it later."""
        wanted: set[bytes] = set()
        while True:
            head = await source.readexactly(5)
            body = await source.readexactly(int.from_bytes(head[1:]) - 4)
            if head[:1] == PARSE:
                name, text, _ = body.split(b"\0", 2)
                wanted.discard(name)
                if self._statement is not None and self._statement in text:
                    wanted.add(name)
            if head[:1] == BIND and body.split(b"\0", 2)[1] in wanted:
                requested.set()
            target.write(head + body)
            await target.drain()

    async def _forward_answers(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, requested: asyncio.Event
    ) -> None:
        """Pass on whole messages. Keep back what may be the answer until that is certain."""
        pending, is_pending, is_done = b"", False, False
        while True:
            head = await source.readexactly(5)
            body = await source.readexactly(int.from_bytes(head[1:]) - 4)
            pending += head + body
            kind = head[:1]
            is_pending = requested.is_set() and (is_pending or kind in {BIND_COMPLETE, COMMAND_COMPLETE})
            is_done = requested.is_set() and (is_done or kind == COMMAND_COMPLETE)
            if is_pending and kind != READY_FOR_QUERY:
                continue
            if is_done and head[:1] + body == READY_FOR_QUERY + b"I":  # no open transaction: committed
                self._statement = None
                self._is_refusing = self._then_refuse
                self.drops += 1
                return
            target.write(pending)
            await target.drain()
            pending, is_pending = b"", False


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@pytest.fixture
def proxy(dsn: str) -> Iterator[DroppingProxy]:
    with loop() as run:
        proxy = DroppingProxy(dsn, run)
        run(proxy.start())
        try:
            yield proxy
        finally:
            run(proxy.stop())


@EVERY_KIND
def test_complete_was_done_but_not_answered(
    proxy: DroppingProxy, conn: psycopg.Connection, kind: str, leased: Delivery
) -> None:
    with opened_queue(kind, proxy.dsn) as opened:
        proxy.drop_after("message_complete")
        with pytest.raises(OutcomeUnknown):
            opened.queue.complete(leased)
        assert proxy.drops == 1
        assert count(conn) == 0


@EVERY_KIND
def test_enqueue_was_done_but_not_answered(proxy: DroppingProxy, conn: psycopg.Connection, kind: str) -> None:
    with opened_queue(kind, proxy.dsn) as opened:
        proxy.drop_after("message_create")
        with pytest.raises(OutcomeUnknown):
            opened.queue.enqueue("x")
        assert proxy.drops == 1
        assert contents(conn) == ["x"]


@EVERY_KIND
def test_enqueue_with_a_key_was_done_but_not_answered(
    proxy: DroppingProxy, conn: psycopg.Connection, kind: str
) -> None:
    with opened_queue(kind, proxy.dsn) as opened:
        proxy.drop_after("message_create")
        created = opened.queue.enqueue("x", dedupe_key="k", unique_for=REPEATABLE)
        assert proxy.drops == 1
        assert created.result == "duplicate"
        assert conn.execute("SELECT id FROM message").fetchall() == [(created.id,)]


@pytest.mark.cases(8)
@pytest.mark.parametrize("window", WINDOWS_THAT_MAY_BE_OVER)
@EVERY_KIND
def test_enqueue_with_a_key_that_may_be_free_again_has_an_unknown_outcome(
    proxy: DroppingProxy, conn: psycopg.Connection, kind: str, window: dict[str, Any]
) -> None:
    """The message may have started or finished meanwhile; a repeat would then create a second one."""
    with opened_queue(kind, proxy.dsn) as opened:
        proxy.drop_after("message_create")
        with pytest.raises(OutcomeUnknown, match="unique_for of 5 minutes or more"):
            opened.queue.enqueue("x", dedupe_key="k", **window)
        proxy.drop_after("message_create_many")
        messages = [
            NewMessage("y", dedupe_key="l", unique_for=REPEATABLE),
            NewMessage("z", dedupe_key="m", **window),
        ]
        with pytest.raises(OutcomeUnknown):
            opened.queue.enqueue_many(messages, commit_each_chunk=True)
        assert contents(conn) == ["x", "y", "z"]


@EVERY_KIND
def test_dequeue_was_done_but_not_answered(proxy: DroppingProxy, conn: psycopg.Connection, kind: str) -> None:
    conn.execute("SELECT message_create_many('{a,b}', '{x,y}')")
    conn.execute("SELECT dispatch()")
    with opened_queue(kind, proxy.dsn) as opened:
        proxy.drop_after("message_dequeue")
        [delivery] = opened.queue.dequeue(lease=600)
        assert proxy.drops == 1
        rows = conn.execute("SELECT channel FROM leases ORDER BY channel").fetchall()
        assert rows == [("a",), ("b",)], "the first lease has no holder and must run out"
        assert delivery.channel == "b"


@EVERY_KIND
def test_retry_was_done_but_not_answered(
    proxy: DroppingProxy, conn: psycopg.Connection, kind: str, leased: Delivery
) -> None:
    with opened_queue(kind, proxy.dsn) as opened:
        proxy.drop_after("message_retry")
        with pytest.raises(OutcomeUnknown):
            opened.queue.retry(leased, error="no")
        assert proxy.drops == 1
        assert conn.execute("SELECT attempts, (SELECT COUNT(*) FROM leases) FROM message").fetchall() == [
            (1, 0)
        ]


@EVERY_KIND
def test_enqueue_many_was_done_but_not_answered(
    proxy: DroppingProxy, conn: psycopg.Connection, kind: str, batch: list[object]
) -> None:
    """The commit succeeds, but its answer is lost."""
    with opened_queue(kind, proxy.dsn) as opened:
        proxy.drop_after("message_create_many")
        with pytest.raises(OutcomeUnknown):
            opened.queue.enqueue_many(batch)
        assert proxy.drops == 1
        assert contents(conn) == ["one", "two", "three", "four", "five"]


@EVERY_KIND
def test_a_chunk_was_created_but_not_answered(
    proxy: DroppingProxy, conn: psycopg.Connection, kind: str, batch: list[object]
) -> None:
    with opened_queue(kind, proxy.dsn) as opened:
        proxy.drop_after("message_create_many")
        with pytest.raises(OutcomeUnknown):
            opened.queue.enqueue_many(batch, commit_each_chunk=True)
        assert proxy.drops == 1
        assert contents(conn) == ["one", "two"]


@pytest.mark.parametrize("kind", OWN_POOL)
def test_the_outcome_stays_unknown_when_the_database_is_gone_afterwards(
    proxy: DroppingProxy, conn: psycopg.Connection, kind: str
) -> None:
    with opened_queue(kind, proxy.dsn, timeout=1) as opened:
        proxy.drop_after("message_create", then_refuse=True)
        with pytest.raises(OutcomeUnknown):
            opened.queue.enqueue("x", dedupe_key="k", unique_for=REPEATABLE)
        assert proxy.drops == 1
        assert contents(conn) == ["x"]


OpenCaller = Callable[[str], Any]


@contextmanager
def psycopg_caller(dsn: str) -> Iterator[tuple[Queue, Any]]:
    with Queue(dsn) as queue, psycopg.connect(dsn) as callers_conn:
        yield queue, callers_conn


@contextmanager
def sqlalchemy_caller(dsn: str) -> Iterator[tuple[Queue, Any]]:
    engine = create_engine(url(dsn, "psycopg"))
    try:
        with Queue(dsn) as queue, engine.connect() as callers_conn:
            yield queue, callers_conn
    finally:
        engine.dispose()


@contextmanager
def psycopg_async_caller(dsn: str) -> Iterator[tuple[Queue, Any]]:
    with loop() as run:
        queue, callers_conn = AsyncQueue(dsn), run(psycopg.AsyncConnection.connect(dsn))
        try:
            yield cast("Queue", Blocking(queue, run)), callers_conn
        finally:
            run(callers_conn.close())
            run(queue.close())


@contextmanager
def asyncpg_caller(dsn: str) -> Iterator[tuple[Queue, Any]]:
    with loop() as run:
        queue, callers_conn = AsyncQueue(dsn), run(asyncpg.connect(dsn))
        run(callers_conn.execute("BEGIN"))
        try:
            yield cast("Queue", Blocking(queue, run)), callers_conn
        finally:
            run(callers_conn.close())
            run(queue.close())


@contextmanager
def sqlalchemy_async_caller(dsn: str) -> Iterator[tuple[Queue, Any]]:
    with loop() as run:
        engine = create_async_engine(url(dsn, "asyncpg"))
        queue, callers_conn = AsyncQueue(dsn), run(engine.connect().start())
        try:
            yield cast("Queue", Blocking(queue, run)), callers_conn
        finally:
            run(callers_conn.close())
            run(engine.dispose())
            run(queue.close())


CALLERS = [psycopg_caller, psycopg_async_caller, asyncpg_caller, sqlalchemy_caller, sqlalchemy_async_caller]


@pytest.mark.parametrize("open_caller", CALLERS)
def test_on_the_callers_connection_nothing_is_repeated(
    dsn: str, connect: Connect, conn: psycopg.Connection, open_caller: OpenCaller
) -> None:
    """The call could be repeated, but the caller's earlier work in the transaction is lost too."""
    with open_caller(dsn) as (queue, callers_conn):
        queue.enqueue("before", conn=callers_conn)
        with pytest.raises(ConnectionDropped):
            terminate_during(
                "message_create",
                lambda: queue.enqueue("x", dedupe_key="k", conn=callers_conn),
                conn,
                key_is_taken(connect, "k"),
            )
        assert count(conn) == 0
        with pytest.raises((ConnectionDropped, PendingRollbackError)):
            queue.enqueue("after", dedupe_key="l", conn=callers_conn)
        assert count(conn) == 0


def nowhere() -> str:
    """An address with a password, where no server listens."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return f"postgresql://me:geheim4711@{HOST}:{probe.getsockname()[1]}/shop"


def all_texts(error: BaseException | None) -> str:
    return (
        ""
        if error is None
        else f"{error!s} {error!r} {all_texts(error.__cause__)} {all_texts(error.__context__)}"
    )


@pytest.mark.parametrize(
    "kind",
    [*OWN_POOL, "SQLAlchemy engine", "SQLAlchemy async engine, psycopg", "SQLAlchemy async engine, asyncpg"],
)
@pytest.mark.parametrize("call", ["enqueue", "keyed", "many", "dequeue", "wait", "stats"])
def test_unreachable(kind: str, call: str, caplog: pytest.LogCaptureFixture) -> None:
    options = {"timeout": 1} if kind in OWN_POOL else {}
    with (
        caplog.at_level(logging.DEBUG),
        opened_queue(kind, nowhere(), **options) as opened,
        ThreadPoolExecutor(1) as pool,
    ):
        calls: dict[str, Callable[[], Any]] = {
            "enqueue": lambda: opened.queue.enqueue("x"),
            "keyed": lambda: opened.queue.enqueue("x", dedupe_key="k"),
            "many": lambda: opened.queue.enqueue_many(["x", "y", "z"]),
            "dequeue": opened.queue.dequeue,
            "wait": lambda: opened.queue.dequeue(wait=1),
            "stats": opened.queue.stats,
        }
        with pytest.raises(DatabaseUnreachable) as caught:
            pool.submit(calls[call]).result(TIMEOUT_S)
        assert "geheim4711" not in all_texts(caught.value)
        assert "geheim4711" not in caplog.text


@pytest.mark.parametrize("kind", OWN_POOL)
def test_the_database_becomes_unreachable(proxy: DroppingProxy, conn: psycopg.Connection, kind: str) -> None:
    """A call waits for the queue's `timeout`, which is shorter here than by default."""
    with opened_queue(kind, proxy.dsn, timeout=1) as opened, ThreadPoolExecutor(1) as pool:
        opened.queue.enqueue("before")
        proxy.run(proxy.refuse())
        with pytest.raises(DatabaseUnreachable):
            pool.submit(opened.queue.enqueue, "x").result(TIMEOUT_S)
        assert contents(conn) == ["before"]
