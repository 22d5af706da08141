"""A worker that is told to end: what runs may end, what does not is handed back at no cost."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from lonnymq import Queue
from tests.invariants import check
from tests.worker import shop
from tests.worker.processes import Crew, until

BRIEF, LONG = 20, 60
WAITING: dict[str, shop.AnyTask] = {"in a thread": shop.wait_in_thread, "in the loop": shop.wait_in_loop}
DEAF: dict[str, shop.AnyTask] = {
    "in a thread": shop.deaf_in_thread,
    "in the loop": shop.deaf_in_loop,
    "elsewhere": shop.deaf_elsewhere,
}
KINDS = [*(f"waits {kind}" for kind in WAITING), *(f"deaf {kind}" for kind in DEAF)]


@pytest.fixture
def queue(dsn: str) -> Iterator[Queue]:
    with Queue(dsn) as made:
        made.set(history=True)
        yield made


@pytest.fixture
def crew(dsn: str, tmp_path: Path) -> Iterator[Crew]:
    with Crew(dsn, tmp_path) as made:
        yield made


def leased(conn: psycopg.Connection) -> int:
    return len(conn.execute("SELECT FROM leases").fetchall())


def waiting(conn: psycopg.Connection) -> list[tuple[bool, int, str | None]]:
    """What is left, as it should be: each of it (False, 0, None)."""
    return conn.execute("SELECT status = 'leased', attempts, error FROM messages ORDER BY id").fetchall()


UNTOUCHED = (False, 0, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "number", "environment"),
    [
        ("in a thread", signal.SIGTERM, {}),
        ("in a thread", signal.SIGINT, {"SHOP_IS_ASYNC": "1"}),
        ("in the loop", signal.SIGTERM, {"SHOP_IS_ASYNC": "1"}),
        ("in the loop", signal.SIGINT, {}),
    ],
)
def test_what_runs_ends_and_what_is_ready_goes_back(
    queue: Queue,
    conn: psycopg.Connection,
    crew: Crew,
    kind: str,
    number: signal.Signals,
    environment: dict[str, str],
) -> None:
    brief = [shop.ship.message(order) for order in range(BRIEF)]  # from these it learns to fetch ahead
    queue.enqueue_many(brief + [WAITING[kind].message(order) for order in range(LONG)])
    worker = crew.start(concurrency=2, environment=environment | {"SHOP_IS_PATIENT": "1"})
    until(
        lambda: len(crew.ledger.runs()) == BRIEF + 2 and leased(conn) > 10,
        "some to be ready beside the two that run",
    )
    worker.send(number)
    until(lambda: leased(conn) == 2, "what is ready to be handed back")
    assert waiting(conn).count(UNTOUCHED) == LONG - 2
    assert worker.is_alive
    crew.open_gates()
    assert worker.end() == 0
    assert waiting(conn) == [UNTOUCHED] * (LONG - 2)
    finished = conn.execute("SELECT outcome, attempts FROM finished").fetchall()
    assert finished == [("completed", 1)] * (BRIEF + 2)
    assert len(crew.ledger.runs()) == len(crew.ledger.runs("end")) == BRIEF + 2
    assert worker.health["status"] == "ended"
    check(conn)


def test_an_idle_worker_ends_at_once(queue: Queue, conn: psycopg.Connection, crew: Crew) -> None:
    worker = crew.start().serves()
    queue.enqueue_many([shop.ship.message(1), shop.pack.message(2)])
    until(lambda: not waiting(conn), "it to be asleep again")
    begun = time.monotonic()
    assert worker.stop() == 0
    assert time.monotonic() - begun < 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_end_is_interrupted_and_handed_back(
    queue: Queue, conn: psycopg.Connection, crew: Crew, kind: str
) -> None:
    manner, _, place = kind.partition(" ")
    queue.enqueue_many([(WAITING if manner == "waits" else DEAF)[place].message(order) for order in range(3)])
    worker = crew.start(shutdown_timeout=0.5)
    until(lambda: len(crew.ledger.runs()) == 3, "all to run")
    worker.send(signal.SIGTERM)
    assert worker.end(15) == 0
    assert waiting(conn) == [UNTOUCHED] * 3
    if manner == "waits":
        stopped = "JobStopped" if place == "in a thread" else "CancelledError"
        assert sorted(crew.ledger.runs(stopped)) == [0, 1, 2]
    assert conn.execute("SELECT COUNT(*) FROM finished").fetchone() == (0,)
    check(conn)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "number"), [*((kind, signal.SIGTERM) for kind in KINDS), ("waits in a thread", signal.SIGINT)]
)
def test_told_twice_it_does_not_wait(
    queue: Queue, conn: psycopg.Connection, crew: Crew, kind: str, number: signal.Signals
) -> None:
    manner, _, place = kind.partition(" ")
    queue.enqueue_many([(WAITING if manner == "waits" else DEAF)[place].message(order) for order in range(3)])
    worker = crew.start(shutdown_timeout=600)
    until(lambda: len(crew.ledger.runs()) == 3, "all to run")
    worker.send(number)
    until(lambda: worker.health["status"] == "draining", "the first to be heard")
    assert worker.is_alive
    assert waiting(conn) == [(True, 1, None)] * 3
    worker.send(number)
    assert worker.end(10) == 130
    assert waiting(conn) == [UNTOUCHED] * 3
    check(conn)


def test_a_task_that_is_not_known_waits_for_a_worker_that_knows_it(
    queue: Queue, conn: psycopg.Connection, crew: Crew
) -> None:
    queue.enqueue_many([shop.ship.message(7), shop.nod.message()])
    older = crew.start("older").serves()
    until(lambda: conn.execute("SELECT FROM finished").fetchall(), "what it knows to be done")
    until(lambda: waiting(conn) == [UNTOUCHED], "the other to be put back")
    [(id_, status)] = conn.execute("SELECT id, status FROM messages").fetchall()
    assert status == "scheduled"
    assert "1 messages of the task 'ship' are put back" in older.said
    assert "nothing here handles them" in older.said
    assert " ERROR lonnymq.worker: " in older.said
    assert older.stop() == 0

    crew.start().serves()
    assert conn.execute("SELECT message_reschedule(%s)", (id_,)).fetchone() == ("rescheduled",)
    until(lambda: not waiting(conn), "the newer one to do it")
    assert crew.ledger.runs("end") == [7]
    assert conn.execute("SELECT outcome, attempts FROM finished WHERE id = %s", (id_,)).fetchall() == [
        ("completed", 1)
    ]


def test_the_health_file(queue: Queue, conn: psycopg.Connection, crew: Crew) -> None:
    worker = crew.start().serves()
    until(worker.health_file.exists, "the file")
    first = worker.health
    assert (first["status"], first["name"], first["pid"]) == ("serving", worker.name, worker.pid)
    queue.enqueue_many([shop.wait_in_loop.message(1), shop.ship.message(2)])
    until(lambda: worker.health["running"] == 1, "it to tell what runs")
    assert worker.health["at"] > first["at"]
    crew.open_gates()
    until(lambda: worker.health["outcomes"] == {"completed": 2}, "it to tell what came of it")
    assert worker.stop() == 0
    assert (worker.health["status"], worker.health["running"]) == ("ended", 0)
