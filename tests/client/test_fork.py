"""A queue in a process and in the children that it forks, which all use it at the same time."""

import asyncio
import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from sqlalchemy import Engine, NullPool, create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from lonnymq import AsyncQueue, Queue
from lonnymq.client.loop_safe_queue import LoopSafeQueue
from lonnymq.errors import LonnyMQError, NotFinished, UsedAfterFork
from tests.conformance.drivers import url
from tests.isolation.shared_database import until

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

CHILDREN = 3
ROUNDS = 10
PATIENCE_S = 30
CONTEXT = multiprocessing.get_context("fork")


class Child:
    """A forked process that runs a function; `result` returns what that returned, or raises its error."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._answer, end = CONTEXT.Pipe(duplex=False)
        self._process = CONTEXT.Process(target=self._run, args=(work, end))
        self._process.start()
        end.close()

    def result(self) -> Any:
        try:
            assert self._answer.poll(PATIENCE_S), "the child hangs"
            result = self._answer.recv()
        finally:
            self._process.kill()
            self._process.join()
            self._answer.close()
        if isinstance(result, BaseException):
            raise result
        return result

    @staticmethod
    def _run(work: Callable[[], Any], end: Any) -> None:
        try:
            end.send(work())
        except LonnyMQError as error:
            end.send(error)
        except BaseException as error:
            end.send(AssertionError(repr(error)))
            raise


def wait_for_a_result(queue: Queue, channel: str) -> None:
    """In a lane of its own, so that it dequeues its own message."""
    created = queue.enqueue("question", channel=channel, lane=channel, keep_result=60)
    assert created.id is not None
    with pytest.raises(NotFinished):
        queue.wait(created.id, timeout=0.01)
    [message] = queue.dequeue(lanes=[channel], wait=5)
    queue.complete(message, result="answer")
    assert queue.wait(created.id, timeout=5) == "answer"


def test_waiting_for_results(dsn: str) -> None:
    with Queue(dsn) as queue:
        wait_for_a_result(queue, "parent")
        children = [Child(lambda name=f"child {n}": wait_for_a_result(queue, name)) for n in range(CHILDREN)]  # type: ignore[misc]
        wait_for_a_result(queue, "parent")
        for child in children:
            child.result()
        wait_for_a_result(queue, "parent")


def use(queue: Queue, channel: str) -> int:
    """Make several calls, check the answers, and return the pid of the session."""
    for number in range(ROUNDS):
        created = queue.enqueue({"n": number}, channel=channel)
        assert created.id is not None
        shown = queue.get(created.id)
        assert shown is not None
        assert (shown.channel, shown.payload) == (channel, {"n": number})
    assert queue.dequeue(lanes=["empty"], wait=0.01) == []  # opens a listener
    return backend_pid(queue)


def backend_pid(queue: Queue) -> int:
    pool: Any = queue._opened()
    with pool.connection() as conn:
        pid: int = conn.execute("SELECT pg_backend_pid()").fetchone()[0]
    return pid


def count(queue: Queue) -> int:
    return sum(channel.waiting for channel in queue.channels())


def test_a_queue_with_its_own_pool(dsn: str) -> None:
    with Queue(dsn, pool_size=1) as queue:
        pid = use(queue, "parent")
        children = [Child(lambda name=f"child {n}": use(queue, name)) for n in range(CHILDREN)]  # type: ignore[misc]
        use(queue, "parent")
        pids = {child.result() for child in children}
        assert len(pids | {pid}) == CHILDREN + 1
        assert use(queue, "parent") == pid  # the children left its connection alone
        assert count(queue) == (CHILDREN + 3) * ROUNDS


def test_a_batch_that_the_parent_fills(dsn: str) -> None:
    """Its connection is the parent's. Another batch can be filled by all of them."""
    with Queue(dsn) as queue:
        batch_id = queue.open_batch("shared")
        with queue.batch("import") as batch:
            batch.enqueue("by the parent")
            with pytest.raises(UsedAfterFork, match="is filled in a transaction of the parent"):
                Child(lambda: batch.enqueue("by the child")).result()
            Child(lambda: queue.enqueue("by the child", batch_id=batch_id)).result()
            batch.enqueue("by the parent")
        assert [found.total for found in queue.batches()] == [2, 1]


def test_a_grandchild_and_a_queue_that_was_never_used_before(dsn: str) -> None:
    with Queue(dsn) as unused:

        def child() -> Any:
            return use(unused, "child"), Child(lambda: use(unused, "grandchild")).result()

        first, second = Child(child).result()
        assert first != second
        assert count(unused) == 2 * ROUNDS


def test_forks_while_other_threads_use_the_queue(dsn: str) -> None:
    """Locks that these threads hold, and calls that they wait for, do not exist in the child."""
    is_over = threading.Event()
    with Queue(dsn, pool_size=4) as queue:

        def keep_busy(channel: str) -> None:
            while not is_over.is_set():
                queue.enqueue(1, channel=channel)
                queue.dequeue(lanes=["empty"], wait=0.02)

        threads = [threading.Thread(target=keep_busy, args=(f"busy {n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        try:
            for number in range(10):
                Child(lambda name=f"child {number}": use(queue, name)).result()  # type: ignore[misc]
        finally:
            is_over.set()
            for thread in threads:
                thread.join()


async def use_async(queue: AsyncQueue, channel: str) -> int:
    for number in range(ROUNDS):
        created = await queue.enqueue({"n": number}, channel=channel)
        assert created.id is not None
        shown = await queue.get(created.id)
        assert shown is not None
        assert (shown.channel, shown.payload) == (channel, {"n": number})
    assert await queue.dequeue(lanes=["empty"], wait=0.01) == []
    pool: Any = await queue._opened()
    async with pool.connection() as conn:
        pid: int = (await (await conn.execute("SELECT pg_backend_pid()")).fetchone())[0]
    return pid


def test_an_async_queue_with_its_own_pool(dsn: str) -> None:
    async def parent() -> None:
        async with AsyncQueue(dsn, pool_size=1) as queue:
            pid = await use_async(queue, "parent")
            names = [f"child {n}" for n in range(CHILDREN)]
            children = [Child(lambda name=name: asyncio.run(use_async(queue, name))) for name in names]  # type: ignore[misc]
            await use_async(queue, "parent")
            pids = {await asyncio.to_thread(child.result) for child in children}
            assert len(pids | {pid}) == CHILDREN + 1
            assert await use_async(queue, "parent") == pid

    asyncio.run(parent())


def test_the_queue_of_the_pytest_plugin(dsn: str) -> None:
    queue = LoopSafeQueue(dsn, "lonnymq")
    pid = asyncio.run(use_async(queue, "parent"))
    assert Child(lambda: asyncio.run(use_async(queue, "child"))).result() != pid
    assert asyncio.run(use_async(queue, "parent")) == pid
    queue.close_now()


def test_siblings(dsn: str) -> None:
    with Queue(dsn) as queue:
        sibling = queue.as_async()
        pid = asyncio.run(use_async(sibling, "parent"))
        for given in (sibling, queue):
            child = Child(lambda given=given: asyncio.run(use_async(given.as_async(), "child")))  # type: ignore[misc]
            assert child.result() != pid
        assert asyncio.run(use_async(sibling, "parent")) == pid


def test_a_closed_queue_stays_closed(dsn: str) -> None:
    queue = Queue(dsn)
    queue.stats()
    queue.close()
    with pytest.raises(LonnyMQError, match="the queue is closed"):
        Child(queue.stats).result()


def test_a_pool_of_the_caller(dsn: str) -> None:
    with ConnectionPool(dsn, min_size=1, open=True) as pool, Queue(pool) as queue:
        queue.stats()
        for call in (queue.stats, lambda: queue.dequeue(wait=1), lambda: queue.enqueue_many([1])):
            with pytest.raises(UsedAfterFork, match="make the pool and the queue in the child process"):
                Child(call).result()
        assert queue.stats().waiting == 0

    unopened = ConnectionPool(dsn, open=False)
    unused = Queue(unopened)

    def open_and_use() -> Any:
        with unopened:
            return unused.stats().waiting

    assert Child(open_and_use).result() == 0


def test_asynchronous_pools_of_the_caller(dsn: str) -> None:
    async def parent() -> None:
        async with (
            AsyncConnectionPool(dsn, min_size=1, open=False) as pool,
            asyncpg.create_pool(dsn, min_size=1, max_size=1) as asyncpg_pool,
        ):
            for queue in (AsyncQueue(pool), AsyncQueue(asyncpg_pool)):
                await queue.stats()
                with pytest.raises(UsedAfterFork, match="make the pool and the queue in the child process"):
                    Child(lambda queue=queue: asyncio.run(queue.stats())).result()  # type: ignore[misc]
                assert (await queue.stats()).waiting == 0

    asyncio.run(parent())


@contextmanager
def engine_of(dsn: str, **options: Any) -> Iterator[Engine]:
    engine = create_engine(url(dsn, "psycopg"), **options)
    try:
        yield engine
    finally:
        engine.dispose()


def test_an_engine_of_the_caller(dsn: str) -> None:
    def session_pid(engine: Engine) -> int:
        with engine.connect() as conn:
            return int(conn.execute(text("SELECT pg_backend_pid()")).scalar_one())

    with engine_of(dsn) as engine:
        queue = Queue(engine)

        def disposed() -> int:
            engine.dispose(close=False)
            queue.enqueue(1)
            return session_pid(engine)

        assert Child(lambda: queue.enqueue(1).id).result() > 0  # it had no connection when it was forked
        queue.stats()
        pid = session_pid(engine)
        for _ in range(2):
            with pytest.raises(UsedAfterFork, match=r"engine.dispose\(close=False\) in the child process"):
                Child(queue.stats).result()
        assert Child(disposed).result() != pid
        assert queue.stats().waiting == 2
        assert session_pid(engine) == pid

    with engine_of(dsn, poolclass=NullPool) as engine:
        queue = Queue(engine)
        assert queue.stats().waiting == Child(lambda: queue.stats().waiting).result()


def test_an_async_engine_of_the_caller(dsn: str) -> None:
    async def parent() -> None:
        engine = create_async_engine(url(dsn, "psycopg"))
        queue = AsyncQueue(engine)
        await queue.stats()

        async def disposed() -> int | None:
            await engine.dispose(close=False)
            return (await queue.enqueue(1)).id

        with pytest.raises(UsedAfterFork, match="close=False"):
            Child(lambda: asyncio.run(queue.stats())).result()
        assert Child(lambda: asyncio.run(disposed())).result() > 0
        assert (await queue.stats()).waiting == 1
        await engine.dispose()

    asyncio.run(parent())


PREFORK = """
import os, sys
from contextlib import suppress
from lonnymq import App, Queue
from lonnymq.errors import NotFinished

queue = Queue(sys.argv[1], pool_size=2)
app = App(queue)

@app.task
def send(invoice: int) -> None: ...

with suppress(NotFinished):
    send.using(keep_result=60).enqueue(0).wait(timeout=0.01)
queue.dequeue(lanes=["empty"], wait=0.01)
children = []
for number in range(4):
    pid = os.fork()
    if pid == 0:
        with queue:
            for invoice in range(20):
                send.enqueue(invoice)
            assert queue.dequeue(lanes=["empty"], wait=0.01) == []
        sys.exit(0)  # runs finalizers, as a worker of gunicorn does
    children.append(pid)
for pid in children:
    _, status = os.waitpid(pid, 0)
    assert status == 0, status
send.enqueue(0)
assert queue.dequeue(lanes=["empty"], wait=0.01) == []
print(queue.channel("default").stats().waiting)
queue.close()
"""


def test_a_server_that_forks_its_workers(dsn: str, conn: psycopg.Connection) -> None:
    """Its own sessions survive the workers, and none is left behind."""
    options = ("-W", "error", "-W", "ignore:.*multi-threaded.*fork:DeprecationWarning")
    program = subprocess.run(
        [sys.executable, *options, "-c", PREFORK, dsn],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (program.stdout, program.stderr) == ("82\n", "")
    left = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'lonnymq%'"
    until(lambda: conn.execute(left).fetchone() == (0,), "the sessions to end")


def test_a_program_that_does_not_close_its_queue_prints_nothing_at_its_end(dsn: str) -> None:
    program = "import sys\nfrom lonnymq import Queue\nqueue = Queue(sys.argv[1])\nqueue.stats()"
    done = subprocess.run([sys.executable, "-c", program, dsn], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
