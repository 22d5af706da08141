"""The command for a child process: one line of JSON on its standard input."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.task_queues.task_queue import Kind, Mode


@dataclass(frozen=True)
class ChildCommand:
    queue: str
    dsn: str

    def line(self) -> str:
        return json.dumps({"command": type(self).__name__} | asdict(self), default=str) + "\n"


@dataclass(frozen=True)
class Install(ChildCommand):
    """Prepare an empty database for the queue, and report that."""


@dataclass(frozen=True)
class Work(ChildCommand):
    """Run tasks until SIGTERM."""

    kind: Kind
    mode: Mode
    counter: Path
    slot: int


@dataclass(frozen=True)
class WorkWithLog(ChildCommand):
    """Run tasks that take some seconds until SIGTERM, and record when each starts and ends."""

    kind: Kind
    mode: Mode
    log: Path
    seconds: float


@dataclass(frozen=True)
class Produce(ChildCommand):
    """Enqueue tasks, and report how many seconds it took."""

    tasks: int
    size: int
    """Tasks per call."""
    concurrent_calls: int


@dataclass(frozen=True)
class Send(ChildCommand):
    """Enqueue tasks until the time or the tasks are over; report how many, and the seconds.

    Tenants take turns. With a log, wait while more than `backlog` tasks have not started.
    """

    tenants: list[int]
    tasks: int
    seconds: float
    size: int
    """Tasks per call."""
    concurrent_calls: int
    log: Path | None = None
    backlog: int = 0


@dataclass(frozen=True)
class SendPaced(ChildCommand):
    """Enqueue one task per call at a steady rate, and report when each call returned, by its number."""

    tenants: list[int]
    tasks: int
    per_second: float


@dataclass(frozen=True)
class SendAlone(ChildCommand):
    """Enqueue one task at a time, each after the last has run, and report how long each took to start."""

    tasks: int
    counter: Path
    warm_up_tasks: int = 3
    """Not measured: during these the worker connects and prepares its statements."""

    @property
    def all_tasks(self) -> int:
        return self.warm_up_tasks + self.tasks


COMMANDS = (Install, Work, WorkWithLog, Produce, Send, SendPaced, SendAlone)
PATHS = {"counter", "log"}


def parse_command(line: str) -> ChildCommand:
    fields = json.loads(line)
    command = {each.__name__: each for each in COMMANDS}[fields.pop("command")]
    for name in PATHS & set(fields):
        if fields[name] is not None:
            fields[name] = Path(fields[name])
    return command(**fields)
