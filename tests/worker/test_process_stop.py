"""Stopping a worker process: running handlers may finish, and messages of those that do not are released."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lonnymq import Queue
from tests.invariants import check
from tests.worker import shop
from tests.worker.processes import Processes, until

BRIEF, LONG = 20, 60
WAITING: dict[str, shop.AnyTask] = {"in a thread": shop.wait_in_thread, "in the loop": shop.wait_in_loop}
UNSTOPPABLE: dict[str, shop.AnyTask] = {
    "in a thread": shop.unstoppable_in_thread,
    "in the loop": shop.unstoppable_in_loop,
    "elsewhere": shop.leaves_thread_behind,
}


@pytest.fixture
def queue(dsn: str) -> Iterator[Queue]:
    with Queue(dsn) as made:
        made.set(history=True)
        yield made


@pytest.fixture
def processes(dsn: str, tmp_path: Path) -> Iterator[Processes]:
    with Processes(dsn, tmp_path) as made:
        yield made


def long(*values: object) -> Any:
    return pytest.param(*values, marks=pytest.mark.long)


def leased(conn: psycopg.Connection) -> int:
    return len(conn.execute("SELECT FROM leases").fetchall())


def waiting(conn: psycopg.Connection) -> list[tuple[bool, int, str | None]]:
    """For each message: whether it is leased, its attempts, and its error."""
    return conn.execute("SELECT status = 'leased', attempts, error FROM messages ORDER BY id").fetchall()


UNTOUCHED = (False, 0, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "number", "environment"),
    [
        ("in a thread", signal.SIGTERM, {}),
        long("in a thread", signal.SIGINT, {"SHOP_IS_ASYNC": "1"}),
        ("in the loop", signal.SIGINT, {"SHOP_IS_ASYNC": "1"}),
        long("in the loop", signal.SIGTERM, {}),
    ],
)
def test_running_handlers_finish_and_ready_messages_are_released(
    queue: Queue,
    conn: psycopg.Connection,
    processes: Processes,
    kind: str,
    number: signal.Signals,
    environment: dict[str, str],
) -> None:
    brief = [shop.ship.message(order) for order in range(BRIEF)]  # from these it learns to prefetch
    queue.enqueue_many(brief + [WAITING[kind].message(order) for order in range(LONG)])
    worker = processes.start(concurrency=2, environment=environment | {"SHOP_KEEPS_READY": "1"})
    until(
        lambda: len(processes.ledger.runs()) == BRIEF + 2 and leased(conn) > 10,
        "ready messages beside the two that run",
    )
    worker.send(number)
    until(lambda: leased(conn) == 2, "the ready messages to be released")
    assert waiting(conn).count(UNTOUCHED) == LONG - 2
    assert worker.is_alive
    processes.open_gates()
    assert worker.wait_for_exit() == 0
    assert waiting(conn) == [UNTOUCHED] * (LONG - 2)
    finished = conn.execute("SELECT outcome, attempts FROM finished").fetchall()
    assert finished == [("completed", 1)] * (BRIEF + 2)
    assert len(processes.ledger.runs()) == len(processes.ledger.runs("end")) == BRIEF + 2
    assert worker.health["status"] == "stopped"
    check(conn)


def test_an_idle_worker_stops_at_once(queue: Queue, conn: psycopg.Connection, processes: Processes) -> None:
    worker = processes.start().wait_until_serving()
    queue.enqueue_many([shop.ship.message(1), shop.pack.message(2)])
    until(lambda: not waiting(conn), "it to be idle again")
    begun = time.monotonic()
    assert worker.stop() == 0
    assert time.monotonic() - begun < 5


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "waits in a thread",
        "unstoppable in the loop",
        "unstoppable elsewhere",
        long("waits in the loop"),
        long("unstoppable in a thread"),
    ],
)
def test_handlers_that_do_not_finish_are_interrupted_and_their_messages_released(
    queue: Queue, conn: psycopg.Connection, processes: Processes, kind: str
) -> None:
    manner, _, place = kind.partition(" ")
    queue.enqueue_many(
        [(WAITING if manner == "waits" else UNSTOPPABLE)[place].message(order) for order in range(3)]
    )
    worker = processes.start(shutdown_timeout=0.5)
    until(lambda: len(processes.ledger.runs()) == 3, "all to run")
    worker.send(signal.SIGTERM)
    assert worker.wait_for_exit(15) == 0
    assert waiting(conn) == [UNTOUCHED] * 3
    if manner == "waits":
        stopped = "JobStopped" if place == "in a thread" else "CancelledError"
        assert sorted(processes.ledger.runs(stopped)) == [0, 1, 2]
    assert conn.execute("SELECT COUNT(*) FROM finished").fetchone() == (0,)
    check(conn)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("waits in the loop", signal.SIGTERM),
        ("waits in a thread", signal.SIGINT),
        ("unstoppable in a thread", signal.SIGTERM),
        long("waits in a thread", signal.SIGTERM),
        long("unstoppable in the loop", signal.SIGTERM),
        long("unstoppable elsewhere", signal.SIGTERM),
    ],
)
def test_a_second_signal_stops_it_at_once(
    queue: Queue, conn: psycopg.Connection, processes: Processes, kind: str, number: signal.Signals
) -> None:
    manner, _, place = kind.partition(" ")
    queue.enqueue_many(
        [(WAITING if manner == "waits" else UNSTOPPABLE)[place].message(order) for order in range(3)]
    )
    worker = processes.start(shutdown_timeout=600)
    until(lambda: len(processes.ledger.runs()) == 3, "all to run")
    worker.send(number)
    until(lambda: worker.health["status"] == "draining", "the first signal to take effect")
    assert worker.is_alive
    assert waiting(conn) == [(True, 1, None)] * 3
    worker.send(number)
    assert worker.wait_for_exit(10) == 130
    assert waiting(conn) == [UNTOUCHED] * 3
    check(conn)


@pytest.mark.slow
def test_the_health_file(queue: Queue, conn: psycopg.Connection, processes: Processes) -> None:
    worker = processes.start().wait_until_serving()
    until(worker.health_file.exists, "the file")
    first = worker.health
    assert (first["status"], first["name"], first["pid"]) == ("serving", worker.name, worker.pid)
    queue.enqueue_many([shop.wait_in_loop.message(1), shop.ship.message(2)])
    until(lambda: worker.health["running"] == 1, "the file to show what runs")
    assert worker.health["at"] > first["at"]
    processes.open_gates()
    until(lambda: worker.health["outcomes"] == {"completed": 2}, "the file to show the outcomes")
    assert worker.stop() == 0
    assert (worker.health["status"], worker.health["running"]) == ("stopped", 0)
