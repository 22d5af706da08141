"""What a child process is told to do: a line of JSON on its standard input."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.task_queues.task_queue import Kind, Mode


@dataclass(frozen=True)
class Order:
    queue: str
    dsn: str

    def line(self) -> str:
        return json.dumps({"order": type(self).__name__} | asdict(self), default=str) + "\n"


@dataclass(frozen=True)
class Work(Order):
    """Run tasks until SIGTERM."""

    kind: Kind
    mode: Mode
    tally: Path
    slot: int


@dataclass(frozen=True)
class Produce(Order):
    """Enqueue tasks, and tell how many seconds that took."""

    tasks: int
    size: int
    """Of a call."""
    at_once: int
    """Calls under way."""


@dataclass(frozen=True)
class SendAlone(Order):
    """Enqueue one task after another, each once the last was run, and tell how long each took to be begun."""

    tasks: int
    tally: Path
    first_tasks: int = 3
    """Not counted: with them the worker connects and prepares its statements."""

    @property
    def all_tasks(self) -> int:
        return self.first_tasks + self.tasks


def parsed(line: str) -> Order:
    fields = json.loads(line)
    kind = {made.__name__: made for made in (Work, Produce, SendAlone)}[fields.pop("order")]
    if "tally" in fields:
        fields["tally"] = Path(fields["tally"])
    return kind(**fields)
