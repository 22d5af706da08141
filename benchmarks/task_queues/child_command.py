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
class Work(ChildCommand):
    """Run tasks until SIGTERM."""

    kind: Kind
    mode: Mode
    counter: Path
    slot: int


@dataclass(frozen=True)
class Produce(ChildCommand):
    """Enqueue tasks, and report how many seconds it took."""

    tasks: int
    size: int
    """Tasks per call."""
    concurrent_calls: int


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


def parse_command(line: str) -> ChildCommand:
    fields = json.loads(line)
    command = {each.__name__: each for each in (Work, Produce, SendAlone)}[fields.pop("command")]
    if "counter" in fields:
        fields["counter"] = Path(fields["counter"])
    return command(**fields)
