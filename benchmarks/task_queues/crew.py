"""Worker processes of one task queue, and the tally of what they do."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.task_queues.child import Child
from benchmarks.task_queues.order import Work
from benchmarks.task_queues.tally import Tally
from benchmarks.task_queues.task_queue import Kind, Mode

LOOK_SECONDS = 0.002
LONGEST_RUN_SECONDS = 300


class TasksLeft(Exception):
    """Not all of the tasks were run, or some were more than once."""


@dataclass(frozen=True)
class Crew:
    workers: Sequence[Child]
    tally: Tally
    tally_path: Path

    def begin(self) -> None:
        for worker in self.workers:
            worker.begin()

    def wait_until_run(self, tasks: int) -> None:
        deadline = time.monotonic() + LONGEST_RUN_SECONDS
        while (done := self.tally.count()) < tasks:
            for worker in self.workers:
                worker.check_runs()
            if time.monotonic() > deadline:
                raise TasksLeft(f"{done} of {tasks} tasks were run in {LONGEST_RUN_SECONDS} s")
            time.sleep(LOOK_SECONDS)

    def cpu_seconds(self) -> float:
        return sum(worker.cpu_seconds() for worker in self.workers)


@contextmanager
def crew(queue: str, dsn: str, kind: Kind, mode: Mode, processes: int) -> Iterator[Crew]:
    """They are ready, and wait to be told to begin."""
    with tempfile.TemporaryDirectory(prefix="lonnymq-tally-") as folder, ExitStack() as children:
        path = Path(folder) / "tally"
        tally = Tally.make(path, processes)
        children.callback(tally.close)
        workers = [
            children.enter_context(Child(Work(queue, dsn, kind, mode, path, slot)))
            for slot in range(processes)
        ]
        for worker in workers:
            worker.wait_until_ready()
        yield Crew(workers, tally, path)
