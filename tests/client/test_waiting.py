"""dequeue(wait=...) sleeps until a message arrives; a notification wakes it where it can listen."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from lonnymq import Queue
from tests.database import Connect
from tests.queues import KINDS, OWN_POOL, queue_of

LONG_S = 60
LISTENERS = "FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'lonnymq listen'"


@pytest.fixture
def in_thread() -> Iterator[Callable[..., Future[Any]]]:
    """Runs a call in another thread."""
    with ThreadPoolExecutor(4) as pool:
        yield pool.submit


def until(conn: psycopg.Connection, condition: str) -> None:
    while conn.execute(f"SELECT {condition}").fetchone() != (True,):
        threading.Event().wait(0.005)


def until_asleep(conn: psycopg.Connection) -> None:
    """Return once a consumer has recorded that it is about to sleep."""
    until(conn, "EXISTS (SELECT FROM lonnymq.sleep WHERE is_asleep)")


@pytest.mark.parametrize("kind", OWN_POOL)
def test_a_message_enqueued_during_the_sleep_is_delivered(
    dsn: str, connect: Connect, kind: str, in_thread: Callable[..., Future[Any]]
) -> None:
    conn = connect()
    with queue_of(kind, dsn) as consumer, Queue(dsn) as producer:
        waiting = in_thread(consumer.dequeue, 5, wait=LONG_S)
        until_asleep(conn)
        producer.enqueue("at last", channel="acme")
        (message,) = waiting.result(timeout=LONG_S)
    assert message.payload == "at last"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("listen", [True, False])
def test_every_kind_of_queue_waits(
    dsn: str, kind: str, in_thread: Callable[..., Future[Any]], *, listen: bool
) -> None:
    with queue_of(kind, dsn, listen=dsn if listen else False) as consumer, Queue(dsn) as producer:
        waiting = in_thread(consumer.dequeue, 5, wait=LONG_S)
        producer.enqueue("at last")
        assert [message.payload for message in waiting.result(timeout=LONG_S)] == ["at last"]


@pytest.mark.parametrize("kind", OWN_POOL)
def test_a_delayed_message_is_delivered_when_it_is_due(dsn: str, conn: psycopg.Connection, kind: str) -> None:
    with queue_of(kind, dsn) as queue:
        queue.enqueue("soon", delay=0.3)
        (message,) = queue.dequeue(5, wait=LONG_S)
        found = queue.get(message.id)
    assert found.dequeued_at >= found.dequeue_at


@pytest.mark.parametrize("kind", KINDS)
def test_the_wait_ends_without_a_message(dsn: str, kind: str) -> None:
    with queue_of(kind, dsn) as queue:
        assert queue.dequeue(5, wait=0.05) == []


def test_a_listener_is_reused_and_closed_with_the_queue(dsn: str, conn: psycopg.Connection) -> None:
    listening = f"SELECT COUNT(*) {LISTENERS}"
    with Queue(dsn) as queue:
        for _ in range(3):
            queue.dequeue(wait=0.01)
        assert conn.execute(listening).fetchone() == (1,)
    until(conn, f"({listening}) = 0")


def test_a_listener_whose_connection_broke_is_replaced(
    dsn: str, connect: Connect, caplog: pytest.LogCaptureFixture, in_thread: Callable[..., Future[Any]]
) -> None:
    conn = connect()
    with Queue(dsn) as consumer, Queue(dsn) as producer:
        waiting = in_thread(consumer.dequeue, wait=LONG_S)
        until_asleep(conn)
        conn.execute(f"SELECT pg_terminate_backend(pid) {LISTENERS}")
        producer.enqueue("anyway")
        assert waiting.result(timeout=LONG_S)[0].payload == "anyway"
        assert "could not connect to LISTEN" in caplog.text
        waiting = in_thread(consumer.dequeue, wait=LONG_S)
        until(conn, f"EXISTS (SELECT {LISTENERS})")
        producer.enqueue("again")
        assert waiting.result(timeout=LONG_S)[0].payload == "again"


def test_many_threads_wait_on_one_queue(dsn: str, in_thread: Callable[..., Future[Any]]) -> None:
    with Queue(dsn) as queue:
        waiting = [in_thread(queue.dequeue, wait=LONG_S) for _ in range(4)]
        queue.enqueue_many(range(4), channel="acme")
        taken = [message.payload for future in waiting for message in future.result(timeout=LONG_S)]
    assert sorted(taken) == [0, 1, 2, 3]
