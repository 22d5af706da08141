"""Batches that workers serve: their counts and callbacks are exact, although workers are killed."""

import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from lonnymq import App, Discard, Fail, Job, Queue, Worker
from lonnymq.commands import BatchStatus, BatchSummary
from tests.invariants import check
from tests.worker import shop
from tests.worker.processes import Processes, until

BATCHES = 3
KINDS: tuple[shop.AnyTask, ...] = (shop.pack_or_fail, shop.pay, shop.ship)


@pytest.fixture
def processes(dsn: str, tmp_path: Path) -> Iterator[Processes]:
    with Processes(dsn, tmp_path) as made:
        yield made


def status(queue: Queue, batch_id: int) -> BatchStatus:
    found = queue.batch_status(batch_id)
    assert found is not None
    return found


def test_a_worker_runs_the_callbacks(queue: Queue, app: App, conn: psycopg.Connection) -> None:
    seen: list[tuple[str, BatchSummary | None]] = []

    @app.task
    def row(number: int) -> None:
        assert Job.current().batch is None, "it is not a callback"
        if number == 2:
            raise Fail("no such row")
        if number == 3:
            raise Discard("not needed")

    @app.task
    def tell(event: str) -> None:
        seen.append((event, Job.current().batch))

    with queue.batch("rows", on_complete=tell.message("over"), on_failure=tell.message("failed")) as batch:
        for number in range(4):
            row.using(batch=batch).enqueue(number)
    Worker(app, concurrency=1).run(until_empty=True)
    failed_id = status(queue, batch.id).failed_id
    (event, about), over = seen
    assert about is not None
    assert (event, about.total, about.dead, about.failed_id) == ("failed", 4, 1, failed_id)
    assert over == ("over", BatchSummary(batch.id, "rows", 4, 2, 1, 1, failed_id))
    check(conn)


def test_a_chain_of_batches(queue: Queue, app: App, conn: psycopg.Connection, dsn: str) -> None:
    """A callback that is repeated, because it raised, opens the next batch once."""
    ran: list[str] = []

    @app.task(backoff=0)
    def step(name: str) -> None:
        ran.append(name)

    @app.task(backoff=0)
    def next_step() -> None:
        job = Job.current()
        with psycopg.connect(dsn) as own:
            with queue.batch("second", conn=own) as batch:
                step.using(batch=batch).enqueue("second")
            if job.attempt == 1:
                raise OSError("the connection broke")
            job.complete(conn=own)

    with queue.batch("first", on_complete=next_step.message()) as batch:
        step.using(batch=batch).enqueue("first")
    Worker(app).run(until_empty=True)
    assert ran == ["first", "second"]
    found = queue.batches()
    assert [(each.name, each.status) for each in found] == [("second", "finished"), ("first", "finished")]
    check(conn)


def outcome(order: int) -> str:
    if KINDS[order // BATCHES % 3] is not shop.pack_or_fail:
        return "completed"
    return {3: "dead", 7: "cancelled"}.get(order % 10, "completed")


def total_finished(queue: Queue, ids: list[int], orders: int) -> int:
    """How many messages are finished. At any time the counts add up."""
    found = [status(queue, batch_id) for batch_id in ids]
    for each in found:
        counted = each.waiting + each.leased + each.completed + each.dead + each.cancelled
        assert counted == each.total == orders / BATCHES, each
    return sum(each.completed + each.dead + each.cancelled for each in found)


@pytest.mark.slow
@pytest.mark.parametrize(("orders", "kills"), [(1_200, 2), pytest.param(3_000, 4, marks=pytest.mark.long)])
def test_counts_and_callbacks_are_exact_although_workers_are_killed(
    queue: Queue, conn: psycopg.Connection, processes: Processes, orders: int, kills: int
) -> None:
    """Handlers complete in their own transactions, are completed by the worker, fail, and are discarded."""
    queue.set(max_attempts=100)
    conn.execute("CREATE TABLE public.payment (number INT, worker TEXT)")
    conn.execute("CREATE TABLE public.callback (event TEXT, about JSONB)")
    seed = random.randrange(10**9)
    chance = random.Random(seed)
    print(f"seed {seed}")
    ids = [
        queue.open_batch(
            f"batch {number}",
            on_complete=shop.batch_is_over.message("over"),
            on_failure=shop.batch_is_over.message("failed"),
        )
        for number in range(BATCHES)
    ]
    queue.enqueue_many(
        KINDS[order // BATCHES % 3]
        .using(channel=f"tenant {order % 7}", batch_id=ids[order % BATCHES])
        .message(order)
        for order in range(orders)
    )
    for batch_id in ids:
        queue.close_batch(batch_id)

    expected = {
        batch_id: Counter(map(outcome, range(number, orders, BATCHES))) for number, batch_id in enumerate(ids)
    }

    running = processes.start_many(3, lease=2)
    for moment in sorted(chance.sample(range(200, orders * 8 // 10), kills)):
        until(
            partial(lambda least: total_finished(queue, ids, orders) >= least, moment),
            f"{moment} to be finished",
            60,
        )
        running.pop(chance.randrange(len(running))).kill()
        running.append(processes.start(lease=2))
    until(lambda: conn.execute("SELECT COUNT(*) FROM message").fetchone() == (0,), "the rest", 90)
    for worker in running:
        assert worker.wait_until_serving().stop() == 0
    for batch_id in ids:
        found = status(queue, batch_id)
        assert found.status == "finished"
        assert (
            Counter(completed=found.completed, dead=found.dead, cancelled=found.cancelled)
            == expected[batch_id]
        )
    told = conn.execute("SELECT event, about FROM public.callback").fetchall()
    assert Counter((event, about["id"]) for event, about in told) == Counter(
        (event, batch_id) for event in ("over", "failed") for batch_id in ids
    )
    for event, about in told:
        if event == "over":
            counted = {name: about[name] for name in ("completed", "dead", "cancelled")}
            assert Counter(counted) == expected[about["id"]]
    check(conn)
