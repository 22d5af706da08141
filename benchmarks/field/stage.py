"""What a scenario needs to run a queue once: a fresh store, producers, workers, and the log of the tasks."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psycopg

from benchmarks.task_queues import load_task_queue
from benchmarks.task_queues.child import Child
from benchmarks.task_queues.child_command import ChildCommand, Install, Send, WorkWithLog
from benchmarks.task_queues.task_log import TaskLogReader
from benchmarks.task_queues.task_queue import Mode, TaskQueue

POLL_SECONDS = 0.05
FILL_SIZE = 1000
NO_LIMIT_SECONDS = 3600


class Store(Protocol):
    """A server that has tasks."""

    def fresh(self, name: str, install: Callable[[str], object]) -> AbstractContextManager[str]: ...

    def checkpoint(self) -> None: ...

    def cpu_seconds(self) -> float: ...

    def server_version(self) -> str: ...


class NothingRan(Exception):
    """No task started in time."""


@dataclass(frozen=True)
class Stage:
    stores: Mapping[str, Store]
    pythons: Mapping[str, Path]
    """The Python of each environment."""

    @contextmanager
    def fresh(self, queue_name: str) -> Iterator["Run"]:
        queue = load_task_queue(queue_name)
        python = self.pythons[queue_name.partition(",")[0]]
        store = self.stores[queue.store]

        def install(dsn: str) -> None:
            with Child(Install(queue_name, dsn), python) as child:
                child.wait_until_ready()
                child.begin()
                child.result()

        with (
            store.fresh(f"field_{queue_name}".replace(",", ""), install) as dsn,
            tempfile.TemporaryDirectory(prefix="lonnymq-field-") as folder,
        ):
            path = Path(folder) / "log"
            log = TaskLogReader(path)
            try:
                yield Run(queue, queue_name, dsn, store, python, path, log)
            finally:
                log.close()


@dataclass(frozen=True)
class Run:
    queue: TaskQueue
    name: str
    dsn: str
    store: Store
    python: Path
    log_path: Path
    log: TaskLogReader

    def child(self, command: ChildCommand) -> Child:
        return Child(command, self.python)

    def call(self, command: ChildCommand) -> Any:  # noqa: ANN401 - JSON
        with self.child(command) as child:
            child.wait_until_ready()
            child.begin()
            return child.result()

    def fill(self, tenants: Sequence[int], tasks: int, seconds: float = NO_LIMIT_SECONDS) -> int:
        """Enqueue tasks before the workers start. Returns how many."""
        size = min(FILL_SIZE, tasks)
        sent: dict[str, int] = self.call(Send(self.name, self.dsn, list(tenants), tasks, seconds, size, 2))
        if self.queue.store == "postgresql":
            with psycopg.connect(self.dsn, autocommit=True) as conn:
                conn.execute("VACUUM ANALYZE")
        self.store.checkpoint()
        return sent["tasks"]

    @contextmanager
    def workers(self, mode: Mode, *, count: int = 1, seconds: float = 0) -> Iterator[list[Child]]:
        """Worker processes that are ready. They run tasks after `begin`."""
        command = WorkWithLog(self.name, self.dsn, "async", mode, self.log_path, seconds)
        with ExitStack() as children:
            workers = [children.enter_context(self.child(command)) for _ in range(count)]
            for worker in workers:
                worker.wait_until_ready()
            yield workers

    def wait_for_start(self, timeout: float = 30) -> None:
        if not self.wait_until(lambda: self.log.count() > 0, timeout):
            raise NothingRan(f"no task started within {timeout} s")

    def wait_until(self, is_done: Callable[[], bool], timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while not is_done():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True
