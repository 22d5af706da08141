"""worker: runs the tasks of an app."""

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
THREADS_MAX_S = 1.0
LEVELS = ("debug", "info", "warning", "error")

Target = Annotated[
    str,
    typer.Argument(
        metavar="MODULE[:APP]", help="Where the app is: a module, and its name there.", show_default=False
    ),
]
Concurrency = Annotated[int, typer.Option(min=1, help="How many messages to work on at a time.")]
Lease = Annotated[
    float | None,
    typer.Option(
        min=0.001,
        help="Seconds after which others take over from a worker that died. Else the queue's own setting.",
        show_default=False,
    ),
]
Prefetch = Annotated[
    float, typer.Option(min=0, help="Seconds' worth of work to have ready beyond what runs.")
]
ShutdownTimeout = Annotated[
    float, typer.Option(min=0, help="Seconds that what runs has to end, once the worker is told to.")
]
Name = Annotated[
    str | None,
    typer.Option(help="What this consumer is called. Else its host and process.", show_default=False),
]
HealthFile = Annotated[
    Path | None,
    typer.Option(
        help="A file to rewrite every two seconds with how the worker is, as JSON.", show_default=False
    ),
]
UntilEmpty = Annotated[
    bool, typer.Option("--until-empty", help="End when nothing may be served now and nothing runs.")
]
LogLevel = Annotated[str, typer.Option(help=f"What to log: {', '.join(LEVELS)}.")]


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
    """Run the tasks of an app until SIGTERM or Ctrl-C, which let what runs end; a second one does not.

    The database, and the schema, are those of the app's queue.

    Example: lonnymq worker shop.tasks:app --concurrency 20
    """
    from lonnymq.worker.worker import Worker

    if log_level.lower() not in LEVELS:
        raise typer.BadParameter(f"{log_level!r} is none of {', '.join(LEVELS)}")
    logging.basicConfig(level=log_level.upper(), format=LOG_FORMAT, stream=sys.stderr)
    running = Worker(
        load(target),
        concurrency=concurrency,
        lease=lease,
        prefetch=prefetch,
        shutdown_timeout=shutdown_timeout,
        name=name,
        health_file=health_file,
    )
    code = running.run(until_empty=until_empty)
    _leave_if_stuck(code)
    raise typer.Exit(code)


def _leave_if_stuck(code: int) -> None:
    """A thread that a handler started may hang, and Python would wait for it at its end. Others end soon."""
    last = time.monotonic() + THREADS_MAX_S
    others = [
        each for each in threading.enumerate() if not each.daemon and each is not threading.main_thread()
    ]
    for thread in others:
        thread.join(max(0, last - time.monotonic()))
    if any(thread.is_alive() for thread in others):
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def load(target: str) -> App[Any]:
    """The app that an import path names; from the current folder too, as `python -m` would."""
    from lonnymq.worker.app import App

    module_name, _, attribute = target.partition(":")
    if "" in module_name.split("."):
        raise BadTarget(f"{target!r} names no app", "write it as shop.tasks:app")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise _broken(module_name, error) from error  # it is there, and what it imports is not
        raise BadTarget(
            f"there is no module {module_name!r}",
            "name one that Python finds from this folder, as shop.tasks:app",
        ) from None
    except Exception as error:
        if isinstance(error, LonnyMQError) or exit_code(error) != FAILURE:
            raise  # that says enough
        raise _broken(module_name, error) from error
    found: Any = module
    for part in (attribute or "app").split("."):
        found = getattr(found, part, None)
    if not isinstance(found, App):
        apps = [name for name, value in vars(module).items() if isinstance(value, App)]
        known = (
            f"{module_name}:{apps[0]} is one"
            if apps
            else f"make one there: {attribute or 'app'} = App(queue)"
        )
        raise BadTarget(f"{module_name}:{attribute or 'app'} is no App", known)
    return found


def _broken(module_name: str, error: Exception) -> BrokenModule:
    of_others = ("<", *(sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")))
    _, *frames = traceback.extract_tb(error.__traceback__)  # but for our own, which imports it
    places = [
        f"line {frame.lineno} of {frame.filename}"
        for frame in frames
        if not frame.filename.startswith(of_others)
    ]
    return BrokenModule(
        f"{module_name} cannot be imported: {type(error).__name__}: {sentence(error)}",
        f"{f'see {places[-1]}; ' if places else ''}--debug shows the traceback",
    )
