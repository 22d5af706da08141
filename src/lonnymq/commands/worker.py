"""The worker processes: report, list, request that they pause or drain."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from lonnymq.commands.answers import ManyRecords, OneRecord, YesOrNo
from lonnymq.statement import BigInt, BigInts, Int, Text, Texts, Uuid, command


@dataclass(frozen=True, slots=True)
class WorkerReported:
    """`requested` is what an administrator wants the worker to be: `serving`, `paused` or `draining`.
    `unknown_to_all` are those of the unknown tasks that no live worker knows.
    """

    requested: str
    unknown_to_all: list[str]


@command
class WorkerReport(OneRecord[WorkerReported]):
    """Say that a worker is alive, what it serves and what it does. An empty name among the tasks stands for
    messages without a task.
    """

    function = "worker_report"
    record = WorkerReported
    is_harmless = True  # the next report says the same

    id: Uuid
    name: Text
    host: Text
    pid: Int
    version: Text
    uptime_ms: BigInt
    tasks: Texts
    concurrency: Int
    running: Int
    state: Text
    lanes: Texts | None = None
    unknown_tasks: Texts | None = None
    unknown_messages: BigInts | None = None
    unknown_ages_ms: BigInts | None = None


@command
class WorkerLeave(YesOrNo):
    """Say that a worker has stopped. Returns whether it was listed."""

    function = "worker_leave"
    is_harmless = True

    id: Uuid


@dataclass(frozen=True, slots=True)
class ListedWorker:
    """A worker process. `is_alive`: it has reported in the last 30 seconds.

    `state` is what it reported (`serving`, `paused` or `draining`), and `requested` what an administrator
    wants it to be. `lanes` is None if it serves all lanes. An empty name among the tasks stands for messages
    without a task. `unknown_tasks` are those that it has met recently and does not know.
    """

    id: UUID
    name: str
    host: str
    pid: int
    version: str
    started_at: int
    seen_at: int
    is_alive: bool
    state: str
    requested: str
    concurrency: int
    running: int
    lanes: list[str] | None
    tasks: list[str]
    unknown_tasks: list[str]


@command
class WorkerList(ManyRecords[ListedWorker]):
    """List the workers that have reported and not stopped."""

    function = "worker_list"
    is_harmless = True
    record = ListedWorker


@dataclass(frozen=True, slots=True)
class RequestedWorker:
    """A worker that was asked to pause, to serve again or to drain."""

    id: UUID
    name: str
    is_alive: bool


@command
class WorkerRequest(ManyRecords[RequestedWorker]):
    """Ask workers to be `paused`, `serving` or `draining`: those whose name or host is `name`, in which `*`
    stands for any characters.
    """

    function = "worker_request"
    record = RequestedWorker
    is_repeatable = True

    name: Text
    state: Text


@dataclass(frozen=True, slots=True)
class UnknownTaskSummary:
    """A task that live workers have met recently and do not know. `is_known`: another live worker knows it.

    `messages` were met since `since_at`, by so many `workers`; one that several have met counts several
    times. An empty `task` stands for messages without a task.
    """

    task: str
    messages: int
    since_at: int
    workers: int
    is_known: bool


@command
class UnknownTaskList(ManyRecords[UnknownTaskSummary]):
    """List the tasks that live workers have met recently and do not know."""

    function = "unknown_task_list"
    is_harmless = True
    record = UnknownTaskSummary
