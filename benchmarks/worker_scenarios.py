"""What is measured of workers: each a way to run one task queue once."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import ClassVar

import psycopg

from benchmarks.arena import Arena
from benchmarks.measure import Sample, measured
from benchmarks.task_queues.child import Child
from benchmarks.task_queues.crew import TasksLeft, crew
from benchmarks.task_queues.order import Produce, SendAlone
from benchmarks.task_queues.task_queue import Kind, Mode, TaskQueue

FILL_SIZE = 1000
LOOK_SECONDS = 0.002
LONGEST_FINISH_SECONDS = 30
PLAIN = ("lonnymq", "pgqueuer", "procrastinate")
VARIANTS = ("lonnymq, durable dequeue", "pgqueuer, balanced")


@dataclass(frozen=True)
class Load:
    """How much of each."""

    tasks: int
    lone: int

    def of(self, queue: TaskQueue, *, is_single: bool) -> int:
        """Fewer where they go singly, which takes so much longer."""
        return max(1, round(queue.share * (self.singly if is_single else self.tasks)))

    @property
    def singly(self) -> float:
        return self.tasks / 20


@dataclass(frozen=True)
class WorkerSample(Sample):
    worker_us: float
    """Microseconds of the worker's CPU a task."""


class WorkerScenario(ABC):
    group: ClassVar[str]

    @property
    @abstractmethod
    def title(self) -> str: ...

    @property
    def queues(self) -> tuple[str, ...]:
        return PLAIN

    @abstractmethod
    def run(self, arena: Arena, queue: TaskQueue, load: Load) -> Sample: ...


@dataclass(frozen=True)
class Drain(WorkerScenario):
    """Tasks that are there, and workers until all of them are done."""

    group = "drain"
    kind: Kind
    mode: Mode
    processes: int

    @property
    def title(self) -> str:
        at_once = "one at a time" if self.mode == "single" else "many at a time"
        return f"{self.kind} tasks, {at_once}, {of_processes(self.processes)}"

    @property
    def queues(self) -> tuple[str, ...]:
        return PLAIN + VARIANTS if self.kind == "async" and self.processes == 1 else PLAIN

    def run(self, arena: Arena, queue: TaskQueue, load: Load) -> Sample:
        tasks = load.of(queue, is_single=self.mode == "single")
        with arena.fresh(queue.name, queue.install) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
            queue.run(fill(queue, dsn, tasks))
            conn.execute("VACUUM ANALYZE")
            arena.checkpoint()
            with crew(queue.name, dsn, self.kind, self.mode, self.processes) as workers:
                idle = workers.cpu_seconds()

                def done() -> int:
                    workers.begin()
                    workers.wait_until_run(tasks)
                    wait_until_finished(conn, queue)
                    return tasks

                sample = measured(arena, done)
                used = workers.cpu_seconds() - idle
                if not workers.tally.has_each_once(tasks):
                    raise TasksLeft(f"{queue.name} ran some tasks twice and others not at all")
            check_finished(conn, queue, tasks)
        return WorkerSample(**asdict(sample), worker_us=used * 1e6 / tasks)


@dataclass(frozen=True)
class Enqueue(WorkerScenario):
    """A producer alone; every call is a transaction of its own, and durable."""

    group = "enqueue"
    size: int
    at_once: int

    @property
    def title(self) -> str:
        calls = "one call after another" if self.at_once == 1 else f"{self.at_once} calls at a time"
        return f"{self.size:,} a call, {calls}"

    def run(self, arena: Arena, queue: TaskQueue, load: Load) -> Sample:
        tasks = load.of(queue, is_single=self.size == 1)
        with arena.fresh(queue.name, queue.install) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
            arena.checkpoint()
            seconds = 0.0
            with Child(Produce(queue.name, dsn, tasks, self.size, self.at_once)) as producer:
                producer.wait_until_ready()

                def enqueued() -> int:
                    nonlocal seconds
                    producer.begin()
                    seconds = producer.answer()
                    return tasks

                sample = measured(arena, enqueued)
            there = count(conn, queue.unfinished)
            if there != tasks:
                raise TasksLeft(f"{queue.name} has {there} of {tasks} tasks that were enqueued")
        return replace(sample, rate=tasks / seconds)


@dataclass(frozen=True)
class Lone:
    """Workers that have nothing to do, and a task now and then."""

    group = "latency"
    processes: int
    queues = PLAIN

    @property
    def title(self) -> str:
        return f"a lone task, {of_processes(self.processes)}"

    def run(self, arena: Arena, queue: TaskQueue, load: Load) -> dict[str, list[float]]:
        """Milliseconds of each task until it is begun, by what they are counted from."""
        with arena.fresh(queue.name, queue.install) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
            arena.checkpoint()
            with crew(queue.name, dsn, "async", "default", self.processes) as workers:
                workers.begin()
                order = SendAlone(queue.name, dsn, load.lone, workers.tally_path)
                with Child(order) as producer:
                    producer.wait_until_ready()
                    producer.begin()
                    answer: dict[str, list[float]] = producer.answer()
                if not workers.tally.has_each_once(order.all_tasks):
                    raise TasksLeft(f"{queue.name} ran a lone task twice")
                wait_until_finished(conn, queue)
            check_finished(conn, queue, order.all_tasks)
        return answer


async def fill(queue: TaskQueue, dsn: str, tasks: int) -> None:
    async with queue.producer(dsn) as producer:
        for first in range(0, tasks, FILL_SIZE):
            await producer.many(range(first, min(first + FILL_SIZE, tasks)))


def wait_until_finished(conn: psycopg.Connection, queue: TaskQueue) -> None:
    """Tasks that were run are done once the database knows."""
    deadline = time.monotonic() + LONGEST_FINISH_SECONDS
    while conn.execute(f"SELECT EXISTS (SELECT {queue.unfinished})").fetchone() == (True,):
        if time.monotonic() > deadline:
            raise TasksLeft(f"{queue.name} ran {count(conn, queue.unfinished)} tasks and did not finish them")
        time.sleep(LOOK_SECONDS)


def check_finished(conn: psycopg.Connection, queue: TaskQueue, tasks: int) -> None:
    if count(conn, queue.unfinished):
        raise TasksLeft(f"{queue.name} has tasks again, after all were done")
    if queue.finished is not None and (kept := count(conn, queue.finished)) != tasks:
        raise TasksLeft(f"{queue.name} says that it did {kept} of {tasks} tasks")


def count(conn: psycopg.Connection, where: str) -> int:
    row = conn.execute(f"SELECT COUNT(*) {where}").fetchone()
    assert row is not None
    return int(row[0])


def of_processes(number: int) -> str:
    return "1 process" if number == 1 else f"{number} processes"


def all_scenarios() -> Iterator[WorkerScenario | Lone]:
    kinds: tuple[Kind, ...] = ("async", "sync")
    modes: tuple[Mode, ...] = ("single", "batches")
    yield from (Drain(kind, mode, processes) for mode, kind, processes in product(modes, kinds, (1, 2)))
    yield from (Enqueue(1, 1), Enqueue(1, 10), Enqueue(1000, 1))
    yield from (Lone(1), Lone(2))
