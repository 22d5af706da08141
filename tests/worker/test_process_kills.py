"""Worker processes that are killed, or suspended for longer than their leases. Nothing is lost or counted
twice.
"""

import random
import signal
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from lonnymq import Queue
from tests.invariants import check
from tests.worker import shop
from tests.worker.processes import Processes, until

KILLS = 6


@pytest.fixture
def queue(dsn: str, conn: psycopg.Connection) -> Iterator[Queue]:
    conn.execute("CREATE TABLE public.payment (number INT, worker TEXT)")
    with Queue(dsn) as made:
        made.set(history=True, max_attempts=100)
        yield made


@pytest.fixture
def processes(dsn: str, tmp_path: Path) -> Iterator[Processes]:
    with Processes(dsn, tmp_path) as made:
        yield made


def value(conn: psycopg.Connection, query: str) -> int:
    [(found,)] = conn.execute(query.encode()).fetchall()
    return int(found)


def has_completed(conn: psycopg.Connection, least: int) -> bool:
    return completed(conn) >= least


def completed(conn: psycopg.Connection) -> int:
    return value(conn, "SELECT COUNT(*) FROM finished")


@pytest.mark.slow
@pytest.mark.parametrize("count", [1_500, pytest.param(10_000, marks=pytest.mark.long)])
def test_killed_in_the_middle_of_thousands(
    queue: Queue, conn: psycopg.Connection, processes: Processes, count: int
) -> None:
    """A third of the tasks pay in the transaction that completes them, a third run in the loop, a third in
    threads.
    """
    kills = KILLS if count >= 10_000 else KILLS // 3
    seed = random.randrange(10**9)
    chance = random.Random(seed)
    print(f"seed {seed}")
    kinds: tuple[shop.AnyTask, ...] = (shop.pay, shop.ship, shop.pack)
    made = queue.enqueue_many(
        kinds[order % 3].using(channel=f"tenant {order % 7}").message(order) for order in range(count)
    )
    assert made.created == count
    running = processes.start_many(3, lease=1)
    for moment in sorted(chance.sample(range(200, count * 2 // 3), kills)):
        until(partial(has_completed, conn, moment), f"{moment} to be completed", 60)
        victim = running.pop(chance.randrange(len(running)))
        victim.kill()
        running.append(processes.start(lease=1))
    assert completed(conn) < count, "all was done before the last worker was killed"
    until(lambda: value(conn, "SELECT COUNT(*) FROM message") == 0, "the rest", 60)
    for worker in running:
        assert worker.wait_until_serving().stop() == 0

    outcomes = conn.execute("SELECT outcome, COUNT(*), COUNT(DISTINCT id) FROM finished GROUP BY outcome")
    assert outcomes.fetchall() == [("completed", count, count)]
    assert value(conn, "SELECT COUNT(*) FROM dead") == 0
    assert set(processes.ledger.runs()) == set(range(count)), "each ran"
    paid = Counter(number for (number,) in conn.execute("SELECT number FROM public.payment"))
    assert paid == Counter(range(0, count, 3)), "each was paid once"
    taken_over = value(conn, "SELECT COUNT(*) FROM finished WHERE attempts > 1")
    ran_again = len(processes.ledger.runs()) - count
    print(f"{kills} killed: {taken_over} taken over, {ran_again} ran again")
    assert taken_over > 0, "no worker had a message when it was killed"
    check(conn)


WAITING: dict[str, shop.AnyTask] = {
    "in a thread": shop.wait_in_thread,
    "in the loop": shop.wait_in_loop,
    "pays": shop.wait_and_pay,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["in a thread", pytest.param("in the loop", marks=pytest.mark.long), "pays"])
def test_suspended_for_longer_than_its_lease(
    queue: Queue, conn: psycopg.Connection, processes: Processes, kind: str
) -> None:
    """Another worker takes over. The first resumes, finishes its work and is refused; the second's counts."""
    queue.enqueue_many([WAITING[kind].message(1)])
    first = processes.start(lease=1).wait_until_serving()
    until(lambda: processes.ledger.runs(worker=first.name), "the first to begin")
    first.send(signal.SIGSTOP)
    second = processes.start(lease=1).wait_until_serving()
    until(lambda: processes.ledger.runs(worker=second.name), "the second to take over")
    first.open_gate()
    first.send(signal.SIGCONT)
    until(
        lambda: processes.ledger.runs("end", first.name) or " lost its lease; " in first.log,
        "the first to notice",
    )
    assert first.stop() == 0, "it has nothing left to finish"
    [holder] = conn.execute("SELECT consumer, attempts FROM leases").fetchall()
    assert holder == (second.name, 2)
    assert completed(conn) == 0
    second.open_gate()
    until(lambda: completed(conn) == 1, "the second to complete it")
    assert second.stop() == 0
    history = conn.execute("SELECT outcome, consumer, attempts FROM finished").fetchall()
    assert history == [("completed", second.name, 2)]
    paid = conn.execute("SELECT worker FROM public.payment").fetchall()
    assert paid == ([(second.name,)] if kind == "pays" else [])
    check(conn)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["in a thread", "in the loop"])
def test_a_handler_that_lost_its_lease_is_stopped(
    queue: Queue, conn: psycopg.Connection, processes: Processes, kind: str
) -> None:
    """Otherwise it would go on for nothing."""
    queue.enqueue_many([WAITING[kind].message(1)])
    first = processes.start(lease=1).wait_until_serving()
    until(lambda: processes.ledger.runs(worker=first.name), "the first to begin")
    first.send(signal.SIGSTOP)
    second = processes.start(lease=1).wait_until_serving()
    until(lambda: processes.ledger.runs(worker=second.name), "the second to take over")
    first.send(signal.SIGCONT)
    until(lambda: len(processes.ledger.read()) == 3, "the first to be stopped")
    stopped = processes.ledger.read()[-1]
    assert (stopped.what, stopped.worker) == (
        "JobStopped" if kind == "in a thread" else "CancelledError",
        first.name,
    )
    processes.open_gates()
    until(lambda: completed(conn) == 1, "the second to complete it")
    assert first.stop() == second.stop() == 0
    assert conn.execute("SELECT outcome, consumer FROM finished").fetchall() == [("completed", second.name)]
    check(conn)


@pytest.mark.slow
def test_a_handler_may_take_longer_than_its_lease(
    queue: Queue, conn: psycopg.Connection, processes: Processes
) -> None:
    """A worker that is alive extends its leases, so that no other gets the message."""
    queue.enqueue_many([shop.ship.message(order, 3) for order in range(5)] + [shop.wait_in_thread.message(5)])
    workers = processes.start_many(2, lease=1)
    until(lambda: completed(conn) == 5, "those that take three times the lease")
    processes.open_gates()
    until(lambda: completed(conn) == 6, "the last")
    assert [worker.stop() for worker in workers] == [0, 0]
    assert sorted(processes.ledger.runs()) == list(range(6))
    assert conn.execute("SELECT DISTINCT outcome, attempts FROM finished").fetchall() == [("completed", 1)]
    check(conn)
