"""Worker processes of one task queue, and a counter of the tasks they run."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.task_queues.child import Child
from benchmarks.task_queues.child_command import Work
from benchmarks.task_queues.task_counter import TaskCounter
from benchmarks.task_queues.task_queue import Kind, Mode

POLL_SECONDS = 0.002
RUN_TIMEOUT_SECONDS = 300


class WrongTaskCount(Exception):
    """Some tasks did not run, or ran more than once."""


@dataclass(frozen=True)
class WorkerGroup:
    workers: Sequence[Child]
    counter: TaskCounter
    counter_path: Path

    def begin(self) -> None:
        for worker in self.workers:
            worker.begin()

    def wait_until_run(self, tasks: int) -> None:
        deadline = time.monotonic() + RUN_TIMEOUT_SECONDS
        while (done := self.counter.count()) < tasks:
            for worker in self.workers:
                worker.check_is_running()
            if time.monotonic() > deadline:
                raise WrongTaskCount(f"only {done} of {tasks} tasks ran within {RUN_TIMEOUT_SECONDS} s")
            time.sleep(POLL_SECONDS)

    def cpu_seconds(self) -> float:
        return sum(worker.cpu_seconds() for worker in self.workers)


@contextmanager
def start_workers(queue: str, dsn: str, kind: Kind, mode: Mode, processes: int) -> Iterator[WorkerGroup]:
    """Start the workers. They are ready, and run tasks after `begin`."""
    with tempfile.TemporaryDirectory(prefix="lonnymq-counter-") as folder, ExitStack() as children:
        path = Path(folder) / "counter"
        counter = TaskCounter.make(path, processes)
        children.callback(counter.close)
        workers = [
            children.enter_context(Child(Work(queue, dsn, kind, mode, path, slot)))
            for slot in range(processes)
        ]
        for worker in workers:
            worker.wait_until_ready()
        yield WorkerGroup(workers, counter, path)
