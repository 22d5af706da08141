"""dequeue(wait=...): asleep until something comes, by notification where one can be had."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from lonnymq import Queue
from tests.database import Connect
from tests.queues import KINDS, OWN, queue_of

LONG = 60
LISTENERS = "FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'lonnymq listen'"


@pytest.fixture
def aside() -> Iterator[Callable[..., Future[Any]]]:
    """Calls in a thread of their own."""
    with ThreadPoolExecutor(4) as pool:
        yield pool.submit


def until(conn: psycopg.Connection, condition: str) -> None:
    while conn.execute(f"SELECT {condition}").fetchone() != (True,):
        threading.Event().wait(0.005)


def sleeps(conn: psycopg.Connection) -> None:
    """Return once a consumer has said that it is about to sleep."""
    until(conn, "EXISTS (SELECT FROM lonnymq.sleep WHERE is_asleep)")


@pytest.mark.parametrize("kind", OWN)
def test_a_notification_ends_the_sleep(
    dsn: str, connect: Connect, kind: str, aside: Callable[..., Future[Any]]
) -> None:
    """Of a consumer that would not look by itself: it is told that nothing is due for long."""
    conn = connect()
    with queue_of(kind, dsn) as consumer, Queue(dsn) as producer:
        waiting = aside(consumer.dequeue, 5, wait=LONG)
        sleeps(conn)
        producer.enqueue("at last", channel="acme")
        (message,) = waiting.result(timeout=LONG)
    assert message.payload == "at last"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("listen", [True, False])
def test_whatever_the_queue_runs_on(
    dsn: str, kind: str, aside: Callable[..., Future[Any]], *, listen: bool
) -> None:
    with queue_of(kind, dsn, listen=dsn if listen else False) as consumer, Queue(dsn) as producer:
        waiting = aside(consumer.dequeue, 5, wait=LONG)
        producer.enqueue("at last")
        assert [message.payload for message in waiting.result(timeout=LONG)] == ["at last"]


@pytest.mark.parametrize("kind", OWN)
def test_what_is_due_later_comes_when_it_is(dsn: str, conn: psycopg.Connection, kind: str) -> None:
    with queue_of(kind, dsn) as queue:
        queue.enqueue("soon", delay=0.3)
        (message,) = queue.dequeue(5, wait=LONG)
        found = queue.get(message.id)
    assert found.dequeued_at >= found.dequeue_at


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_comes_of_nothing(dsn: str, kind: str) -> None:
    with queue_of(kind, dsn) as queue:
        assert queue.dequeue(5, wait=0.05) == []


def test_a_listener_is_used_again_and_closed_with_the_queue(dsn: str, conn: psycopg.Connection) -> None:
    listening = f"SELECT COUNT(*) {LISTENERS}"
    with Queue(dsn) as queue:
        for _ in range(3):
            queue.dequeue(wait=0.01)
        assert conn.execute(listening).fetchone() == (1,)
    until(conn, f"({listening}) = 0")


def test_a_listener_whose_connection_broke_is_replaced(
    dsn: str, connect: Connect, caplog: pytest.LogCaptureFixture, aside: Callable[..., Future[Any]]
) -> None:
    conn = connect()
    with Queue(dsn) as consumer, Queue(dsn) as producer:
        waiting = aside(consumer.dequeue, wait=LONG)
        sleeps(conn)
        conn.execute(f"SELECT pg_terminate_backend(pid) {LISTENERS}")
        producer.enqueue("anyway")
        assert waiting.result(timeout=LONG)[0].payload == "anyway"
        assert "could not connect to LISTEN" in caplog.text
        waiting = aside(consumer.dequeue, wait=LONG)
        until(conn, f"EXISTS (SELECT {LISTENERS})")
        producer.enqueue("again")
        assert waiting.result(timeout=LONG)[0].payload == "again"


def test_many_threads_wait_on_one_queue(dsn: str, aside: Callable[..., Future[Any]]) -> None:
    with Queue(dsn) as queue:
        waiting = [aside(queue.dequeue, wait=LONG) for _ in range(4)]
        queue.enqueue_many(range(4), channel="acme")
        taken = [message.payload for future in waiting for message in future.result(timeout=LONG)]
    assert sorted(taken) == [0, 1, 2, 3]
