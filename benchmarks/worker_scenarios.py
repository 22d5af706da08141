"""The scenarios of the worker benchmark. Each can run one task queue once."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import ClassVar

import psycopg

from benchmarks.bench_server import BenchServer
from benchmarks.measure import Sample, measured
from benchmarks.task_queues.child import Child
from benchmarks.task_queues.child_command import Produce, SendAlone
from benchmarks.task_queues.task_queue import Kind, Mode, TaskQueue
from benchmarks.task_queues.worker_group import WrongTaskCount, start_workers

FILL_SIZE = 1000
POLL_SECONDS = 0.002
FINISH_TIMEOUT_SECONDS = 30
QUEUES = ("lonnymq", "pgqueuer", "procrastinate")
VARIANTS = ("lonnymq, durable dequeue", "lonnymq, kept results", "pgqueuer, balanced")


@dataclass(frozen=True)
class Load:
    """How many tasks to run."""

    tasks: int
    lone: int

    def tasks_for(self, queue: TaskQueue, *, is_single: bool) -> int:
        """Fewer tasks if they run one at a time, which takes much longer."""
        return max(1, round(queue.share * (self.single_tasks if is_single else self.tasks)))

    @property
    def single_tasks(self) -> float:
        return self.tasks / 20


@dataclass(frozen=True)
class WorkerSample(Sample):
    worker_us: float
    """Microseconds of the worker's CPU per task."""


class WorkerScenario(ABC):
    group: ClassVar[str]

    @property
    @abstractmethod
    def title(self) -> str: ...

    @property
    def queues(self) -> tuple[str, ...]:
        return QUEUES

    @abstractmethod
    def run(self, server: BenchServer, queue: TaskQueue, load: Load) -> Sample: ...


@dataclass(frozen=True)
class Drain(WorkerScenario):
    """Workers run tasks that were enqueued before, until all are finished."""

    group = "drain"
    kind: Kind
    mode: Mode
    processes: int

    @property
    def title(self) -> str:
        how_many = "one at a time" if self.mode == "single" else "many at a time"
        return f"{self.kind} tasks, {how_many}, {processes_text(self.processes)}"

    @property
    def queues(self) -> tuple[str, ...]:
        return QUEUES + VARIANTS if self.kind == "async" and self.processes == 1 else QUEUES

    def run(self, server: BenchServer, queue: TaskQueue, load: Load) -> Sample:
        tasks = load.tasks_for(queue, is_single=self.mode == "single")
        with server.fresh(queue.name, queue.install) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
            queue.run(fill(queue, dsn, tasks))
            conn.execute("VACUUM ANALYZE")
            server.checkpoint()
            with start_workers(queue.name, dsn, self.kind, self.mode, self.processes) as workers:
                idle = workers.cpu_seconds()

                def done() -> int:
                    workers.begin()
                    workers.wait_until_run(tasks)
                    wait_until_finished(conn, queue)
                    return tasks

                sample = measured(server, done)
                used = workers.cpu_seconds() - idle
                if not workers.counter.has_each_once(tasks):
                    raise WrongTaskCount(f"{queue.name} ran some tasks twice and others not at all")
            check_finished(conn, queue, tasks)
        return WorkerSample(**asdict(sample), worker_us=used * 1e6 / tasks)


@dataclass(frozen=True)
class Enqueue(WorkerScenario):
    """A producer only; every call is its own transaction, with a durable commit."""

    group = "enqueue"
    size: int
    concurrent_calls: int

    @property
    def title(self) -> str:
        calls = (
            "one call after another"
            if self.concurrent_calls == 1
            else f"{self.concurrent_calls} calls at a time"
        )
        return f"{self.size:,} per call, {calls}"

    def run(self, server: BenchServer, queue: TaskQueue, load: Load) -> Sample:
        tasks = load.tasks_for(queue, is_single=self.size == 1)
        with server.fresh(queue.name, queue.install) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
            server.checkpoint()
            seconds = 0.0
            with Child(Produce(queue.name, dsn, tasks, self.size, self.concurrent_calls)) as producer:
                producer.wait_until_ready()

                def enqueued() -> int:
                    nonlocal seconds
                    producer.begin()
                    seconds = producer.result()
                    return tasks

                sample = measured(server, enqueued)
            enqueued_count = count(conn, queue.unfinished)
            if enqueued_count != tasks:
                raise WrongTaskCount(f"{queue.name} has {enqueued_count} tasks, but {tasks} were enqueued")
        return replace(sample, rate=tasks / seconds)


@dataclass(frozen=True)
class Lone:
    """Idle workers get one task at a time."""

    group = "latency"
    processes: int
    queues = QUEUES

    @property
    def title(self) -> str:
        return f"a lone task, {processes_text(self.processes)}"

    def run(self, server: BenchServer, queue: TaskQueue, load: Load) -> dict[str, list[float]]:
        """Milliseconds until each task starts, by when the measurement starts."""
        with server.fresh(queue.name, queue.install) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
            server.checkpoint()
            with start_workers(queue.name, dsn, "async", "default", self.processes) as workers:
                workers.begin()
                command = SendAlone(queue.name, dsn, load.lone, workers.counter_path)
                with Child(command) as producer:
                    producer.wait_until_ready()
                    producer.begin()
                    times: dict[str, list[float]] = producer.result()
                if not workers.counter.has_each_once(command.all_tasks):
                    raise WrongTaskCount(f"{queue.name} ran a lone task twice")
                wait_until_finished(conn, queue)
            check_finished(conn, queue, command.all_tasks)
        return times


async def fill(queue: TaskQueue, dsn: str, tasks: int) -> None:
    async with queue.producer(dsn) as producer:
        for first in range(0, tasks, FILL_SIZE):
            await producer.many(range(first, min(first + FILL_SIZE, tasks)))


def wait_until_finished(conn: psycopg.Connection, queue: TaskQueue) -> None:
    """Wait until the database has recorded all tasks as finished."""
    deadline = time.monotonic() + FINISH_TIMEOUT_SECONDS
    while conn.execute(f"SELECT EXISTS (SELECT {queue.unfinished})").fetchone() == (True,):
        if time.monotonic() > deadline:
            raise WrongTaskCount(
                f"{queue.name} did not finish {count(conn, queue.unfinished)} tasks that it ran"
            )
        time.sleep(POLL_SECONDS)


def check_finished(conn: psycopg.Connection, queue: TaskQueue, tasks: int) -> None:
    if count(conn, queue.unfinished):
        raise WrongTaskCount(f"{queue.name} has unfinished tasks after all were finished")
    if queue.finished is not None and (kept := count(conn, queue.finished)) != tasks:
        raise WrongTaskCount(f"{queue.name} recorded {kept} of {tasks} tasks as finished")


def count(conn: psycopg.Connection, where: str) -> int:
    row = conn.execute(f"SELECT COUNT(*) {where}").fetchone()
    assert row is not None
    return int(row[0])


def processes_text(number: int) -> str:
    return "1 process" if number == 1 else f"{number} processes"


def all_scenarios() -> Iterator[WorkerScenario | Lone]:
    kinds: tuple[Kind, ...] = ("async", "sync")
    modes: tuple[Mode, ...] = ("single", "batches")
    yield from (Drain(kind, mode, processes) for mode, kind, processes in product(modes, kinds, (1, 2)))
    yield from (Enqueue(1, 1), Enqueue(1, 10), Enqueue(1000, 1))
    yield from (Lone(1), Lone(2))
