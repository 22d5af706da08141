"""Messages of tasks that a worker does not have."""

import asyncio
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lonnymq import App, Delivery, Queue
from lonnymq.worker import registry, unknown_tasks
from lonnymq.worker.unknown_tasks import UnknownTask, UnknownTasks
from tests.worker import shop
from tests.worker.processes import Processes, until
from tests.worker.serving import drain, serving
from tests.worker.serving import until as until_async


@pytest.fixture
def processes(dsn: str, tmp_path: Path) -> Iterator[Processes]:
    with Processes(dsn, tmp_path) as made:
        yield made


def logged(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def test_they_are_released_at_no_cost_and_logged(
    queue: Queue, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task()
    def known() -> None: ...

    for _ in range(3):
        queue.enqueue({}, headers={"task": "newer"})
    queue.enqueue("raw")
    known.enqueue()
    with caplog.at_level(logging.WARNING, "lonnymq.worker"):
        raised = drain(app)
    assert sum(isinstance(error, UnknownTask) for error in raised) == 4
    assert raised.count(None) == 1
    assert [each.attempts for each in queue.messages()] == [0] * 4
    with_task, without = logged(caplog, logging.WARNING)
    assert with_task.startswith("rejected ")
    assert with_task.endswith(" of the task 'newer': this worker has no handler for it; its tasks: known")
    assert without == "rejected 1 message without a task: this worker has no handler for it; its tasks: known"


@pytest.mark.slow
def test_a_pile_of_unknown_messages_does_not_keep_known_ones_waiting(queue: Queue, app: App) -> None:
    done: list[int] = []

    @app.task()
    async def known(n: int) -> None:
        done.append(n)

    queue.enqueue_many(queue_message("newer", n) for n in range(1000))
    queue.enqueue_many(known.message(n) for n in range(10))

    async def main() -> None:
        async with serving(app, concurrency=4):
            await until_async(lambda: len(done) == 10)

    asyncio.run(main())
    assert sorted(done) == list(range(10))
    finished = queue.history()
    assert [each.attempts for each in finished] == [1] * 10
    waited = max(each.finished_at - each.created_at for each in finished)
    assert waited < 10_000, "one pass over the others"
    assert queue.stats().waiting == 1000


def queue_message(task: str, n: int) -> Any:
    from lonnymq import NewMessage

    return NewMessage({"n": n}, headers={"task": task})


def test_they_die_after_the_timeout(queue: Queue, app: App, caplog: pytest.LogCaptureFixture) -> None:
    @app.task()
    def known() -> None: ...

    queue.enqueue({}, headers={"task": "newer"})

    reported: list[BaseException | None] = []

    async def main() -> None:
        options = {"unknown_task_timeout": 1, "on_result": lambda _, error: reported.append(error)}
        async with serving(app, **options):
            await until_async(queue.dead.list)

    asyncio.run(main())
    assert [type(error) for error in reported] == [UnknownTask], "once, however often it was released"
    [dead] = queue.dead.list()
    assert (dead.attempts, dead.error) == (1, "no worker knew the task 'newer' for 1 s")
    [finished] = queue.history()
    assert finished.finished_at - finished.created_at >= 1000
    assert len(logged(caplog, logging.WARNING)) == 1, "however often it was released"


def test_with_a_timeout_of_zero_they_die_at_once(queue: Queue, app: App) -> None:
    app.task()(shop.do_nothing.function)
    queue.enqueue({}, headers={"task": "newer"})
    queue.enqueue("raw")
    drain(app, unknown_task_timeout=0)
    assert sorted(dead.error or "" for dead in queue.dead.list()) == [
        "no worker handled messages without a task",
        "no worker knew the task 'newer'",
    ]


def test_a_timeout_that_is_longer_than_any_delay(queue: Queue, app: App) -> None:
    app.task()(shop.do_nothing.function)
    created = queue.enqueue({}, headers={"task": "newer"})
    drain(app, unknown_task_timeout=1e300)
    assert not queue.dead.list()
    assert queue.status(created.id).status == "scheduled"  # not leased until its lease ends


def test_a_task_that_no_worker_knows_is_an_error_in_the_log_and_in_the_statistics(
    queue: Queue, app: App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "PERIOD_S", 0.05)
    old, new = app, App(queue)
    old.task()(shop.do_nothing.function)
    new.task(name="newer")(shop.do_nothing.function)

    async def main() -> None:
        async with serving(old, name="old"):
            queue.enqueue({}, headers={"task": "newer"})
            await until_async(lambda: queue.stats().unknown_tasks == ["newer"])
            await until_async(lambda: logged(caplog, logging.ERROR))
            [found] = queue.unknown_tasks()
            assert (found.messages, found.workers, found.is_known) == (1, 1, False)
            async with serving(new, name="new"):
                await until_async(lambda: queue.stats().unknown_tasks == [])
                await until_async(lambda: (queue.stats().waiting, queue.stats().leased) == (0, 0))
            assert [worker.unknown_tasks for worker in queue.workers()] == [["newer"]]

    asyncio.run(main())
    [alarm] = logged(caplog, logging.ERROR)
    assert alarm == (
        "no running worker has a handler for messages of the task 'newer':"
        " they become dead letters if that lasts for 24 h"
    )


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(unknown_tasks, "MESSAGES_MAX", 5)
    met = UnknownTasks([], None)
    for n in range(200):
        met.meet(delivery(n, f"task {n}"))
        now[0] += 1
    tasks, messages, ages = met.recent()
    assert len(tasks) == len(messages) == len(ages) == unknown_tasks.TASKS_MAX
    assert (tasks[0], messages[0], ages[0]) == ("task 199", 1, 1000)
    assert [met.meet(delivery(n, "x"))[2] for n in (199, 0, 199)] == [False, True, False]
    now[0] += unknown_tasks.FORGET_S - 1
    assert met.recent()[0] == ["x"]
    now[0] += 1
    assert met.recent() == ([], [], [])


@pytest.mark.parametrize(
    ("header", "task"),
    [("newer", "newer"), (7, "7"), (None, ""), (["a"], '["a"]'), ("ü" * 300, "ü" * 127)],
)
def test_whatever_is_in_the_header(header: Any, task: str) -> None:
    message = delivery(1, header)
    assert unknown_tasks.task_of(message) == task
    assert "has no handler here" in str(UnknownTask.of(message))


def delivery(id_: int, task: Any) -> Delivery:
    from uuid import uuid4

    return Delivery(id_, "a", b"", {"task": task}, None, 1, uuid4(), 0)


@pytest.mark.slow
def test_a_rolling_deployment(queue: Queue, conn: psycopg.Connection, processes: Processes) -> None:
    """Two workers are old, and two new ones have another task: each call of it is done soon, and once."""
    older = processes.start_many(2, "older")
    processes.start_many(2)
    for order in range(20):
        queue.enqueue_many([shop.ship.message(order), shop.do_nothing.message()])
    until(lambda: len(queue.history()) == 40, "all to be done", 25)
    assert sorted(processes.ledger.runs("end")) == list(range(20))
    calls = [each for each in queue.history() if (each.headers or {}).get("task") == "ship"]
    assert [(call.outcome, call.attempts) for call in calls] == [("completed", 1)] * 20
    waited = sorted(call.finished_at - call.created_at for call in calls)
    print(f"median {waited[10]} ms, at most {waited[-1]} ms")
    assert waited[-1] < 15_000
    for worker in older:
        assert worker.log.count("messages for the task 'ship'") + worker.log.count(
            "message for the task 'ship'"
        ) in {0, 1}, worker.log
        assert worker.stop() == 0
