"""worker: run the tasks of an app."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import sysconfig
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lonnymq.cli.failure import FAILURE, BadTarget, BrokenModule, exit_code, sentence
from lonnymq.errors import LonnyMQError

if TYPE_CHECKING:
    from lonnymq.worker.app import App

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
THREAD_TIMEOUT_S = 1.0
LEVELS = ("debug", "info", "warning", "error")

Target = Annotated[
    str,
    typer.Argument(
        metavar="MODULE[:APP]",
        help="The app to run: the module that defines it, and its name there (default: app).",
        show_default=False,
    ),
]
Concurrency = Annotated[int, typer.Option(min=1, help="How many messages to handle at the same time.")]
Lease = Annotated[
    float | None,
    typer.Option(
        min=0.001,
        help="Seconds until other workers take over the messages of a worker that died. A running worker"
        " extends its leases. Default: the queue's setting.",
        show_default=False,
    ),
]
Prefetch = Annotated[
    float, typer.Option(min=0, help="Fetch messages ahead: as many as are handled in this many seconds.")
]
ShutdownTimeout = Annotated[
    float,
    typer.Option(
        min=0, help="On shutdown: seconds to wait for running handlers before they are interrupted."
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        help="Name of this consumer, as others see it. Default: host name and process id.", show_default=False
    ),
]
HealthFile = Annotated[
    Path | None,
    typer.Option(
        help="Write the state of the worker to this file, as JSON, every two seconds.", show_default=False
    ),
]
UntilEmpty = Annotated[
    bool,
    typer.Option(
        "--until-empty",
        help="Exit once no message is due. Waits for due messages that a rate or concurrency limit"
        " holds back, but not for paused channels, nor for messages scheduled for later, such as retries"
        " with a backoff.",
    ),
]
LogLevel = Annotated[str, typer.Option(help=f"Log messages of this level and above: {', '.join(LEVELS)}.")]


def register(app: typer.Typer) -> None:
    app.command()(worker)


def worker(
    target: Target,
    *,
    concurrency: Concurrency = 10,
    lease: Lease = None,
    prefetch: Prefetch = 0.1,
    shutdown_timeout: ShutdownTimeout = 30,
    name: Name = None,
    health_file: HealthFile = None,
    until_empty: UntilEmpty = False,
    log_level: LogLevel = "info",
) -> None:
    """Run the tasks of an app until SIGTERM or Ctrl-C.

    The first signal stops taking messages and lets running handlers finish; the second one interrupts them.
    Their messages are released for other workers.

    The app's queue determines the database and the schema.

    Example: lonnymq worker shop.tasks:app --concurrency 20
    """
    from lonnymq.worker.worker import Worker

    if log_level.lower() not in LEVELS:
        raise typer.BadParameter(f"{log_level!r} is not one of {', '.join(LEVELS)}")
    logging.basicConfig(level=log_level.upper(), format=LOG_FORMAT, stream=sys.stderr)
    app_worker = Worker(
        load(target),
        concurrency=concurrency,
        lease=lease,
        prefetch=prefetch,
        shutdown_timeout=shutdown_timeout,
        name=name,
        health_file=health_file,
    )
    code = app_worker.run(until_empty=until_empty)
    _exit_if_stuck(code)
    raise typer.Exit(code)


def _exit_if_stuck(code: int) -> None:
    """Python waits for all threads when it exits. Do not wait for one that a handler started and that
    hangs.
    """
    deadline = time.monotonic() + THREAD_TIMEOUT_S
    others = [
        each for each in threading.enumerate() if not each.daemon and each is not threading.main_thread()
    ]
    for thread in others:
        thread.join(max(0, deadline - time.monotonic()))
    if any(thread.is_alive() for thread in others):
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def load(target: str) -> App[Any]:
    """Import the app. Like `python -m`, this also finds modules in the current directory."""
    from lonnymq.worker.app import App

    module_name, _, attribute = target.partition(":")
    if "" in module_name.split("."):
        raise BadTarget(f"{target!r} does not name an app", "write it as shop.tasks:app")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise _broken(module_name, error) from error  # the module exists; one that it imports does not
        raise BadTarget(
            f"no module named {module_name!r}",
            "give one that Python can import from this directory, such as shop.tasks:app",
        ) from None
    except Exception as error:
        if isinstance(error, LonnyMQError) or exit_code(error) != FAILURE:
            raise  # its message is clear enough
        raise _broken(module_name, error) from error
    found: Any = module
    for part in (attribute or "app").split("."):
        found = getattr(found, part, None)
    if not isinstance(found, App):
        apps = [name for name, value in vars(module).items() if isinstance(value, App)]
        hint = (
            f"did you mean {module_name}:{apps[0]}?"
            if apps
            else f"define one there: {attribute or 'app'} = App(queue)"
        )
        raise BadTarget(f"{module_name}:{attribute or 'app'} is not an App", hint)
    return found


def _broken(module_name: str, error: Exception) -> BrokenModule:
    library_paths = ("<", *(sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")))
    _, *frames = traceback.extract_tb(error.__traceback__)  # the first frame is the import above
    places = [
        f"line {frame.lineno} of {frame.filename}"
        for frame in frames
        if not frame.filename.startswith(library_paths)
    ]
    return BrokenModule(
        f"{module_name} cannot be imported: {type(error).__name__}: {sentence(error)}",
        f"{f'see {places[-1]}; ' if places else ''}--debug shows the traceback",
    )
