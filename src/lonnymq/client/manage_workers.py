"""The calls for worker processes."""

from __future__ import annotations

from lonnymq.client.calls import Request, ask
from lonnymq.commands import (
    ListedWorker,
    RequestedWorker,
    UnknownTaskList,
    UnknownTaskSummary,
    WorkerList,
    WorkerRequest,
)


def workers(*, conn: object | None = None) -> Request[list[ListedWorker]]:
    """The worker processes, by name: what each serves, how much it runs, and when it reported last."""
    return ask(WorkerList(), conn)


def unknown_tasks(*, conn: object | None = None) -> Request[list[UnknownTaskSummary]]:
    """The tasks that live workers have met recently and do not know."""
    return ask(UnknownTaskList(), conn)


def pause_worker(name: str, *, conn: object | None = None) -> Request[list[RequestedWorker]]:
    """Ask workers to pause: they finish what runs, and lease no more messages until they are resumed.

    These are the workers whose name or host is `name`, in which `*` stands for any characters. Returns those
    that were asked. Each learns of it with its next report, within about five seconds.

        queue.pause_worker("mail-*")
    """
    return ask(WorkerRequest(name, "paused"), conn)


def resume_worker(name: str, *, conn: object | None = None) -> Request[list[RequestedWorker]]:
    """Ask paused workers to serve again. See pause_worker."""
    return ask(WorkerRequest(name, "serving"), conn)


def drain_worker(name: str, *, conn: object | None = None) -> Request[list[RequestedWorker]]:
    """Ask workers to finish what runs and then to stop, as SIGTERM does. See pause_worker."""
    return ask(WorkerRequest(name, "draining"), conn)
