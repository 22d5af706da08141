"""status, result and wait: what became of a message, on every kind of queue."""

import copy
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from lonnymq import Queue
from lonnymq.errors import (
    InvalidArgument,
    InvalidTime,
    LonnyMQError,
    MessageCancelled,
    MessageDead,
    NotFinished,
    ResultUnknown,
)
from tests.database import Connect
from tests.queues import KINDS, OWN_POOL, queue_of

LONG_S = 60
LISTENERS = "FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'lonnymq listen'"


@pytest.fixture
def in_thread() -> Iterator[Callable[..., Future[Any]]]:
    """Runs a call in another thread."""
    with ThreadPoolExecutor(20) as pool:
        yield pool.submit


def until(conn: psycopg.Connection, condition: str) -> None:
    while conn.execute(f"SELECT {condition}").fetchone() != (True,):
        threading.Event().wait(0.005)


def until_asleep(conn: psycopg.Connection, count: int = 1) -> None:
    """Return once the waiter has looked for the second time, after it began to listen."""
    until(conn, f"(SELECT COUNT(*) {LISTENERS}) >= {count}")


def test_every_status(queue: Any) -> None:
    created = queue.enqueue("x", keep_result=60)
    assert queue.status(created.id).is_waiting
    later = queue.enqueue("x", delay=60)
    assert queue.status(later.id).status == "scheduled"
    [message] = queue.dequeue()
    assert queue.status(created.id).is_running
    with pytest.raises(NotFinished, match=f"message {created.id} is leased, and did not finish"):
        queue.result(created.id)
    assert queue.complete(message, result={"total": 7}) == "completed"
    found = queue.status(created.id)
    assert (found.status, found.is_finished, found.attempts) == ("completed", True, 1)
    assert queue.result(created.id) == {"total": 7}
    assert queue.wait(created.id) == {"total": 7}
    assert queue.status(999).status == "unknown"


def test_results_are_encoded_as_payloads_are(own_queue: Any) -> None:
    for value in (None, 0, "text", [1, {"a": None}], b"\x00bytes"):
        own_queue.enqueue("x", keep_result=60)
        [message] = own_queue.dequeue()
        own_queue.complete(message, result=value)
        assert own_queue.result(message.id) == value


def test_a_message_that_did_not_complete(own_queue: Any) -> None:
    dead = own_queue.enqueue("x", keep_result=60)
    [message] = own_queue.dequeue()
    own_queue.fail(message, "Traceback\n  more\nValueError: no")
    with pytest.raises(MessageDead, match=f"message {dead.id} is dead: ValueError: no") as caught:
        own_queue.wait(dead.id, timeout=1)
    assert (caught.value.message_id, caught.value.error) == (dead.id, "Traceback\n  more\nValueError: no")
    again = copy.copy(caught.value)  # as pickle would
    assert (str(again), again.error) == (str(caught.value), caught.value.error)
    cancelled = own_queue.enqueue("x", keep_result=60)
    own_queue.cancel(cancelled.id)
    with pytest.raises(MessageCancelled, match=f"message {cancelled.id} was cancelled"):
        own_queue.result(cancelled.id)
    own_queue.enqueue("x", keep_result=60)
    [message] = own_queue.dequeue()
    own_queue.discard(message, "no such customer")
    with pytest.raises(MessageCancelled, match="was cancelled: no such customer"):
        own_queue.result(message.id)


def test_a_result_that_is_not_kept(own_queue: Any) -> None:
    created = own_queue.enqueue("x")
    for call in (own_queue.result, own_queue.wait):
        with pytest.raises(ResultUnknown, match=f"the result of message {created.id} is not kept"):
            call(created.id)
    [message] = own_queue.dequeue()
    with pytest.raises(InvalidArgument, match=f"message {created.id} keeps no result"):
        own_queue.complete(message, result=1)
    own_queue.complete(message)
    with pytest.raises(ResultUnknown, match=f"there is no message {created.id}"):
        own_queue.wait(created.id)
    own_queue.enqueue("x")
    [message] = own_queue.dequeue()
    own_queue.complete(message, result=1, keep_result=60)
    assert own_queue.result(message.id) == 1


def test_the_history_knows_how_a_message_ended(own_queue: Any) -> None:
    own_queue.set(history=True)
    own_queue.enqueue("x", channel="acme")
    [message] = own_queue.dequeue()
    own_queue.complete(message)
    found = own_queue.status(message.id)
    assert (found.status, found.channel, found.attempts) == ("completed", "acme", 1)
    with pytest.raises(ResultUnknown, match=f"the result of message {message.id} is not kept"):
        own_queue.result(message.id)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("listen", [True, False])
def test_every_kind_of_queue_waits(
    dsn: str, kind: str, in_thread: Callable[..., Future[Any]], *, listen: bool
) -> None:
    with queue_of(kind, dsn, listen=dsn if listen else False) as waiter, Queue(dsn) as worker:
        created = waiter.enqueue(20, keep_result=60)
        waiting = in_thread(waiter.wait, created.id, timeout=LONG_S)
        [message] = worker.dequeue()
        worker.complete(message, result=message.payload + 1)
        assert waiting.result(timeout=LONG_S) == 21


@pytest.mark.parametrize("kind", OWN_POOL)
def test_many_wait_on_one_connection(
    dsn: str, conn: psycopg.Connection, kind: str, in_thread: Callable[..., Future[Any]]
) -> None:
    with queue_of(kind, dsn) as waiter, Queue(dsn) as worker:
        ids = [waiter.enqueue(n, keep_result=60).id for n in range(20)]
        waiting = [in_thread(waiter.wait, id_, timeout=LONG_S) for id_ in ids]
        until_asleep(conn)
        for _ in range(4):
            for message in worker.dequeue(5):
                worker.complete(message, result=message.payload)
        assert [each.result(timeout=LONG_S) for each in waiting] == list(range(20))
        assert conn.execute(f"SELECT COUNT(*) {LISTENERS}").fetchone() == (1,)
    until(conn, f"(SELECT COUNT(*) {LISTENERS}) = 0")


@pytest.mark.parametrize("kind", OWN_POOL)
def test_a_wait_survives_the_loss_of_its_listener(
    dsn: str, conn: psycopg.Connection, kind: str, in_thread: Callable[..., Future[Any]]
) -> None:
    with queue_of(kind, dsn) as waiter, Queue(dsn, listen=False) as worker:
        created = waiter.enqueue("x", keep_result=60)
        waiting = in_thread(waiter.wait, created.id, timeout=LONG_S)
        until_asleep(conn)
        [(pid,)] = conn.execute(f"SELECT pid {LISTENERS}").fetchall()
        conn.execute("SELECT pg_terminate_backend(%s)", (pid,))
        until(conn, f"EXISTS (SELECT {LISTENERS} AND pid <> {pid})")
        [message] = worker.dequeue()
        worker.complete(message, result="done")
        assert waiting.result(timeout=LONG_S) == "done"


def test_the_time_is_over(own_queue: Any) -> None:
    created = own_queue.enqueue("x", keep_result=60)
    with pytest.raises(NotFinished, match=r"is due, and did not finish within 0\.05 s") as caught:
        own_queue.wait(created.id, timeout=0.05)
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value, LonnyMQError)
    with pytest.raises(NotFinished):
        own_queue.wait(created.id, timeout=0)


def test_what_is_refused(own_queue: Any) -> None:
    with pytest.raises(InvalidTime, match="keeping a result for -1000 ms is not possible"):
        own_queue.enqueue("x", keep_result=-1)
    with pytest.raises(InvalidArgument, match="'7' is not the id of a message"):
        own_queue.wait("7")
    with pytest.raises(InvalidArgument, match="None is not the id of a message"):
        own_queue.status(None)


def test_completing_in_the_callers_transaction(dsn: str, connect: Connect) -> None:
    conn = connect()
    with Queue(dsn) as queue:
        created = queue.enqueue("x", keep_result=60)
        [message] = queue.dequeue()
        with conn.transaction():
            queue.complete(message, result=1, conn=conn)
            assert queue.status(created.id).is_running
        assert queue.result(created.id) == 1
