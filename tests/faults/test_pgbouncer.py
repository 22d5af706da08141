"""Through PgBouncer in transaction mode: each transaction of a client may get a different server session."""

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from lonnymq import AsyncQueue, Delivery, NewMessage, Queue
from lonnymq.adapters.listener import POOLED, AsyncListener, Listener
from lonnymq.client.produce import Chunk
from lonnymq.errors import InvalidLimit
from tests.faults.pgbouncer import SESSIONS, PgBouncer, pgbouncer
from tests.queues import OWN_POOL, opened_queue

pytestmark = pytest.mark.debian("pgbouncer")
TIMEOUT_S = 10.0
LONG_S = 3 * TIMEOUT_S
MORE = NewMessage("more", "more", delay=3600)


@pytest.fixture
def pooler(dsn: str) -> Iterator[PgBouncer]:
    with pgbouncer(dsn) as started:
        yield started


def until(is_true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_true():
        assert time.monotonic() < deadline, f"timed out waiting for: {what}"
        time.sleep(0.005)


def test_the_pooler_shares_sessions(pooler: PgBouncer) -> None:
    """One client meets the prepared statement of another. Otherwise the tests below would prove nothing."""
    with (
        psycopg.connect(pooler.dsn, autocommit=True, prepare_threshold=0) as one,
        psycopg.connect(pooler.dsn, autocommit=True, prepare_threshold=0) as other,
        psycopg.connect(pooler.dsn) as busy,
    ):
        busy.execute("SELECT 1")  # leaves only one session for the other two
        one.execute("SELECT %s", (1,))
        with pytest.raises(psycopg.errors.DuplicatePreparedStatement):
            other.execute("SELECT %s", (1,))
    assert len(pooler.server_pids()) == SESSIONS


@pytest.mark.parametrize("kind", OWN_POOL)
def test_producing_and_consuming(pooler: PgBouncer, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Chunk, "max_messages", 3)
    with opened_queue(kind, pooler.dsn, size=4) as opened:
        queue = opened.queue
        for number in range(8):
            assert queue.enqueue({"n": number}).result == "created"
            assert queue.enqueue("later", channel="later", delay=3600).result == "created"
            soon = datetime.now(UTC) + timedelta(hours=1)
            assert queue.enqueue("later", channel="later", run_at=soon).result == "created"
            assert queue.enqueue("urgent", channel="urgent", priority=5).result == "created"
            keyed = queue.enqueue("keyed", channel="keyed", dedupe_key=str(number))
            again = queue.enqueue("keyed", channel="keyed", dedupe_key=str(number))
            assert (again.result, again.id) == ("duplicate", keyed.id)
        assert queue.enqueue_many(range(10), channel="many").created == 10
        seen: list[int] = []
        loaded = queue.enqueue_many(
            (NewMessage(n, "chunks", delay=3600) for n in range(10)),
            commit_each_chunk=True,
            progress=lambda so_far: seen.append(so_far.created),
        )
        assert (loaded.created, seen) == (10, [3, 6, 9, 10])

        deliveries = [delivery for _ in range(10) for delivery in queue.dequeue(lease=60, consumer="me")]
        while taken := queue.dequeue(7):
            deliveries += taken
        assert Counter(delivery.channel for delivery in deliveries) == {
            "default": 8,
            "urgent": 8,
            "keyed": 8,
            "many": 10,
        }
        for delivery in deliveries[:10]:
            assert queue.extend(delivery, 120).result == "extended"
            assert queue.complete(delivery) == "completed"
        assert {one.result for one in queue.extend_many(deliveries[10:20], 120)} == {"extended"}
        assert {one.result for one in queue.complete_many(deliveries[10:20])} == {"completed"}
        for delivery in deliveries[20:]:
            assert queue.retry(delivery, delay=3600, error="not now", state=b"page 7") == "retried"
        message = queue.get(deliveries[20].id)
        assert message is not None
        assert message.state == b"page 7"


@pytest.mark.parametrize("kind", OWN_POOL)
def test_administration(pooler: PgBouncer, kind: str) -> None:
    with opened_queue(kind, pooler.dsn, size=4) as opened:
        queue = opened.queue
        assert queue.set(history=True, lease=60).history
        for _ in range(8):
            dead(queue)
            dead(queue)
            waiting = queue.enqueue("waits", channel="b", delay=3600).id
            assert waiting is not None
            assert queue.reschedule(waiting, delay=7200) == "rescheduled"
            assert [one.id for one in queue.messages(channel="b")] == [waiting]
            policy = queue.channel("b").set(max_concurrency=2, max_size=50)
            assert queue.channel("b").get() == policy
            assert queue.dequeue(1) == []  # it dispatches, which updates the statistics
            assert queue.channel("b").stats().scheduled == 1
            assert [channel.channel for channel in queue.channels(order="waiting")][:1] == ["b"]
            assert queue.stats().dead == 2
            assert queue.settings().history
            assert queue.cancel(waiting) == "cancelled"
            assert queue.channel("b").delete().result == "deleted"
            first, second = queue.dead.list(channel="doomed")
            assert [one.result for one in queue.dead.retry([first.id], delay=3600)] == ["retried"]
            assert [one.result for one in queue.dead.discard([second.id])] == ["discarded"]
            assert queue.cancel(first.id) == "cancelled"
            dead(queue)
            assert queue.dead.retry_all(channel="doomed").retried == 1
            [again] = queue.dequeue()
            assert queue.retry(again, error="again") == "dead"
            assert queue.dead.discard_all(error="aga%").discarded == 1
            finished = queue.history(limit=2)
            assert [one.outcome for one in finished] == ["dead", "dead"]
            assert {one.outcome for one in queue.history(channel="b")} == {"cancelled"}
            assert queue.maintain() >= 0


def dead(queue: Queue) -> None:
    assert queue.enqueue("x", channel="doomed", max_attempts=1).result == "created"
    [delivery] = queue.dequeue()
    assert queue.retry(delivery, error="no such customer") == "dead"


@pytest.mark.parametrize("kind", OWN_POOL)
def test_many_threads_on_few_sessions(pooler: PgBouncer, kind: str) -> None:
    """800 messages over 20 channels, each call far more often than drivers need to prepare it."""
    channels, total, threads = 20, 800, 8
    delivered: list[Delivery] = []
    with opened_queue(kind, pooler.dsn, size=threads) as opened, ThreadPoolExecutor(threads) as pool:

        def produce(thread: int) -> list[int | None]:
            numbers = range(thread, total, threads)
            return [opened.queue.enqueue(n, channel=f"tenant {n % channels}").id for n in numbers]

        def consume(thread: int) -> None:
            deadline = time.monotonic() + 6 * TIMEOUT_S
            while len(delivered) < total:
                assert time.monotonic() < deadline, f"only {len(delivered)} were delivered"
                for delivery in opened.queue.dequeue(1 + thread % 3, lease=600, consumer=str(thread)):
                    assert opened.queue.complete(delivery) == "completed"
                    delivered.append(delivery)

        created = [one for ids in pool.map(produce, range(threads)) for one in ids]
        list(pool.map(consume, range(threads)))
        assert not opened.queue.dequeue(100)
        assert Counter(one.id for one in delivered) == Counter(created)
        assert sorted(one.payload for one in delivered) == list(range(total))
        assert opened.fetch_value("SELECT COUNT(*) FROM lonnymq.message") == 0
        assert [session.prepared for session in pooler.sessions()] == [0] * SESSIONS


@pytest.mark.parametrize("kind", OWN_POOL)
def test_no_session_keeps_a_setting(pooler: PgBouncer, kind: str) -> None:
    with opened_queue(kind, pooler.dsn, size=4) as opened, ThreadPoolExecutor(4) as pool:
        opened.queue.enqueue_many(NewMessage(n, f"tenant {n % 10}") for n in range(100))
        taken = [one for some in pool.map(lambda _: opened.queue.dequeue(2), range(40)) for one in some]
        assert len(taken) > 10
        before = pooler.sessions()
        with pytest.raises(InvalidLimit):
            opened.queue.dequeue(0)
        after = pooler.sessions()
        assert [session.synchronous_commit for session in before + after] == ["on"] * 2 * SESSIONS


class LongSleeps:
    """Makes sleeps so long that only a notification can end them. `is_asleep` is set when one begins."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_asleep = threading.Event()
        wait, wait_async = Listener.wait, AsyncListener.wait

        def longer(listener: Listener, seconds: float) -> None:
            wait(listener, self._longer(seconds))

        async def longer_async(listener: AsyncListener, seconds: float) -> None:
            await wait_async(listener, self._longer(seconds))

        monkeypatch.setattr(Listener, "wait", longer)
        monkeypatch.setattr(AsyncListener, "wait", longer_async)

    def _longer(self, seconds: float) -> float:
        """Short sleeps stay short: during these, producers may not know yet that they must notify."""
        if seconds < 0.5:
            return seconds
        self.is_asleep.set()
        return LONG_S


@pytest.mark.parametrize("kind", OWN_POOL)
def test_waiting_through_the_pooler_is_polling(
    pooler: PgBouncer, kind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeps = LongSleeps(monkeypatch)
    with (
        caplog.at_level(logging.WARNING, "lonnymq"),
        opened_queue(kind, pooler.dsn, size=2) as opened,
        Queue(pooler.direct) as producer,
        ThreadPoolExecutor(1) as pool,
    ):
        waiting = pool.submit(opened.queue.dequeue, wait=LONG_S)
        until(lambda: POOLED in caplog.messages, "the warning that it polls")
        created = producer.enqueue("meanwhile")
        [delivery] = waiting.result(TIMEOUT_S)
        assert delivery.id == created.id
        assert not sleeps.is_asleep.is_set(), "it did not sleep until a notification"


@pytest.mark.parametrize("kind", OWN_POOL)
def test_waiting_through_the_pooler_leaves_no_listen_behind(pooler: PgBouncer, kind: str) -> None:
    with opened_queue(kind, pooler.dsn, size=2) as opened:
        for _ in range(2 * SESSIONS):
            assert not opened.queue.dequeue(wait=0.001)
        assert [session.listens_to for session in pooler.sessions()] == [[]] * SESSIONS


@pytest.mark.parametrize("kind", OWN_POOL)
def test_a_listener_that_bypasses_the_pooler_is_notified(
    pooler: PgBouncer, conn: psycopg.Connection, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeps = LongSleeps(monkeypatch)

    def listeners() -> set[int]:
        rows = conn.execute(
            "SELECT pid FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'lonnymq listen'"
        )
        return {pid for (pid,) in rows}

    with (
        opened_queue(kind, pooler.dsn, size=2, listen=pooler.direct) as opened,
        ThreadPoolExecutor(1) as pool,
    ):
        for _ in range(3):
            sleeps.is_asleep.clear()
            waiting = pool.submit(opened.queue.dequeue, wait=LONG_S)
            assert sleeps.is_asleep.wait(TIMEOUT_S)
            [listener] = listeners()
            assert listener not in pooler.server_pids()
            created = opened.queue.enqueue("meanwhile")
            [delivery] = waiting.result(TIMEOUT_S)
            assert delivery.id == created.id
        assert listeners() == {listener}, "the listener is kept for the next wait"
    until(lambda: not listeners(), "the listener to be closed")


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_in_the_callers_transaction(pooler: PgBouncer, conn: psycopg.Connection, ending: str) -> None:
    conn.execute("CREATE TABLE public.work (n INT)")
    with (
        Queue(pooler.dsn, pool_size=2) as queue,
        psycopg.connect(pooler.dsn, prepare_threshold=None) as callers_conn,
    ):
        for number in range(8):
            created = queue.enqueue(number).id
            [delivery] = queue.dequeue()
            callers_conn.execute("INSERT INTO public.work VALUES (%s)", (number,))
            assert queue.complete(delivery, conn=callers_conn) == "completed"
            following = queue.enqueue("next", channel="next", delay=3600, conn=callers_conn).id
            assert queue.enqueue_many([MORE, MORE], conn=callers_conn).created == 2
            assert callers_conn.info.transaction_status is psycopg.pq.TransactionStatus.INTRANS
            assert following is not None
            assert queue.get(following) is None, "others do not see it yet"
            assert queue.get(created or 0) is not None
            getattr(callers_conn, ending)()
            assert (queue.get(following) is not None) is (ending == "commit")
            assert (queue.get(created or 0) is None) is (ending == "commit")
        assert {session.synchronous_commit for session in pooler.sessions()} == {"on"}
    worked = 8 if ending == "commit" else 0
    assert counts(conn) == (worked, worked, 2 * worked)


def counts(conn: psycopg.Connection) -> tuple[Any, ...]:
    [row] = conn.execute(
        "SELECT (SELECT COUNT(*) FROM public.work), "
        "(SELECT COUNT(*) FROM message WHERE channel = 'next'), "
        "(SELECT COUNT(*) FROM message WHERE channel = 'more')"
    )
    return row


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_in_the_callers_async_transaction(pooler: PgBouncer, conn: psycopg.Connection, ending: str) -> None:
    conn.execute("CREATE TABLE public.work (n INT)")

    async def work() -> None:
        connecting = psycopg.AsyncConnection.connect(pooler.dsn, prepare_threshold=None)
        async with AsyncQueue(pooler.dsn, pool_size=2) as queue, await connecting as callers_conn:
            for number in range(8):
                await queue.enqueue(number)
                [delivery] = await queue.dequeue()
                await callers_conn.execute("INSERT INTO public.work VALUES (%s)", (number,))
                assert await queue.complete(delivery, conn=callers_conn) == "completed"
                await queue.enqueue("next", channel="next", delay=3600, conn=callers_conn)
                await queue.enqueue_many([MORE, MORE], conn=callers_conn)
                assert callers_conn.info.transaction_status is psycopg.pq.TransactionStatus.INTRANS
                await getattr(callers_conn, ending)()
                assert (await queue.get(delivery.id) is None) is (ending == "commit")

    asyncio.run(work())
    worked = 8 if ending == "commit" else 0
    assert counts(conn) == (worked, worked, 2 * worked)
