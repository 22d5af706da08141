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
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lonnymq.cli.failure import FAILURE, BadTarget, BadValue, BrokenModule, exit_code, sentence
from lonnymq.errors import InvalidArgument, LonnyMQError

if TYPE_CHECKING:
    from lonnymq.worker.app import App

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
Lanes = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", help="Serve only these lanes, separated by commas. Default: all.", show_default=False
    ),
]
ChannelShare = Annotated[
    float | None,
    typer.Option(
        min=0.001,
        max=1,
        help="At most this share of the concurrency for messages of one channel, such as 0.5; at least one"
        " message. Default: no limit.",
        show_default=False,
    ),
]
Include = Annotated[
    str | None,
    typer.Option(
        metavar="MODULES",
        help="Also import these modules, separated by commas, which define tasks of the app; shop.tasks.* for"
        " all modules of a package.",
        show_default=False,
    ),
]
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
        help="Write the state of the worker to this file, as JSON, every two seconds.",
        dir_okay=False,
        show_default=False,
    ),
]
UnknownTaskTimeout = Annotated[
    float,
    typer.Option(
        min=0,
        help="Messages of a task that no worker knows become dead letters after this many seconds.",
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
MetricsPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65_535,
        help="Serve metrics for Prometheus at this port. With --processes, each process has its own: this"
        " one, the next one, and so on. 0: a free one, which the log names. Default: no metrics.",
        show_default=False,
    ),
]
MetricsHost = Annotated[str, typer.Option(help="Serve metrics at this address; 0.0.0.0: at every address.")]
MetricsChannels = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES|N",
        help="Metrics of their own for these channels, separated by commas, or for the N loudest ones."
        " Default: none.",
        show_default=False,
    ),
]
QueueMetrics = Annotated[
    bool,
    typer.Option(
        help="Export the numbers of the whole queue, too. With --processes, only the first process does."
    ),
]
ProcessCount = Annotated[
    int,
    typer.Option(
        "--processes",
        min=1,
        help="Start this many processes, each with its own --concurrency. One that ends unexpectedly is"
        " started again.",
    ),
]
Reload = Annotated[
    bool,
    typer.Option("--reload", help="For development: restart when a Python file of the app changes."),
]
LogLevel = Annotated[
    str | None,
    typer.Option(
        help=f"Log messages of this level and above: {', '.join(LEVELS)}. Default: info.", show_default=False
    ),
]
LogFormat = Annotated[
    str | None,
    typer.Option(
        help="Log as text, or as JSON: one object per line. Default: text. An app that configures logging"
        " itself is left alone.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    app.command()(worker)


def worker(
    target: Target,
    *,
    include: Include = None,
    concurrency: Concurrency = 10,
    lanes: Lanes = None,
    channel_share: ChannelShare = None,
    lease: Lease = None,
    prefetch: Prefetch = 0.1,
    shutdown_timeout: ShutdownTimeout = 25,
    name: Name = None,
    health_file: HealthFile = None,
    unknown_task_timeout: UnknownTaskTimeout = 86_400,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_channels: MetricsChannels = None,
    queue_metrics: QueueMetrics = True,
    until_empty: UntilEmpty = False,
    processes: ProcessCount = 1,
    reload: Reload = False,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
) -> None:
    """Run the tasks of an app until SIGTERM or Ctrl-C.

    The first signal stops taking messages and lets running handlers finish; the second one interrupts them.
    Their messages are released for other workers.

    The app's queue determines the database and the schema.

    Example: lonnymq worker shop.tasks:app --concurrency 20 --lanes mail,reports
    """
    from lonnymq.cli.log_format import FORMATS, configure_logging
    from lonnymq.worker.processes import child_number
    from lonnymq.worker.worker import Worker

    _check_choice("--log-level", log_level, LEVELS)
    _check_choice("--log-format", log_format, FORMATS)
    number = child_number()
    if number is None and (processes > 1 or reload):
        configure_logging(log_level, log_format)
        raise typer.Exit(_run_processes(target, processes, reload=reload))
    if number is not None and processes > 1:
        name = name and f"{name}-{number}"
        health_file = health_file and health_file.with_stem(f"{health_file.stem}-{number}")
        metrics_port = metrics_port and metrics_port + number - 1
        queue_metrics = queue_metrics and number == 1
    app = load(target, _names("--include", include) or ())
    configure_logging(log_level, log_format)
    try:
        app_worker = Worker(
            app,
            concurrency=concurrency,
            lanes=_names("--lanes", lanes),
            channel_share=channel_share,
            lease=lease,
            prefetch=prefetch,
            shutdown_timeout=shutdown_timeout,
            name=name,
            health_file=health_file,
            unknown_task_timeout=unknown_task_timeout,
            metrics_port=metrics_port,
            metrics_host=metrics_host,
            metrics_channels=_channels(metrics_channels),
            queue_metrics=queue_metrics,
        )
    except InvalidArgument as error:
        raise BadValue(error.message, error.hint) from error
    code = app_worker.run(until_empty=until_empty)
    _exit_if_stuck(code)
    raise typer.Exit(code)


def _run_processes(target: str, count: int, *, reload: bool) -> int:
    from lonnymq.worker.processes import WorkerProcesses, same_command
    from lonnymq.worker.reload import SourceFiles

    _find_modules_here()
    files = SourceFiles.of_app(_module_name(target)) if reload else None
    return WorkerProcesses(same_command(), count, files).run()


def _check_choice(option: str, given: str | None, choices: tuple[str, ...]) -> None:
    if given is not None and given.lower() not in choices:
        raise typer.BadParameter(f"{given!r} is not one of {', '.join(choices)}", param_hint=f"'{option}'")


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


def _names(option: str, given: str | None) -> list[str] | None:
    """The names in an option, which are separated by commas; None if it is not given."""
    if given is None:
        return None
    names = [name.strip() for name in given.split(",")]
    if "" in names:
        raise BadValue(f"{option}: {given!r} has an empty name", "separate the names by single commas")
    return names


def _channels(given: str | None) -> int | list[str] | None:
    """What --metrics-channels says: how many channels, or which."""
    return int(given) if given is not None and given.isdecimal() else _names("--metrics-channels", given)


def load(target: str, include: Sequence[str] = ()) -> App:
    """Import the app, and the modules that define its tasks. Like `python -m`, this also finds modules in the
    current directory.
    """
    from lonnymq.worker.app import App

    module_name, attribute = _module_name(target), target.partition(":")[2]
    _find_modules_here()
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
    _load_tasks(found, include)
    return found


def _load_tasks(app: App, include: Sequence[str]) -> None:
    try:
        app.include(*include)
        app.load_tasks()
    except InvalidArgument as error:
        raise BadTarget(
            error.message, "name the modules that define the tasks, such as --include shop.tasks"
        ) from error
    except Exception as error:
        if isinstance(error, LonnyMQError) or exit_code(error) != FAILURE:
            raise
        raise _broken("a module that the app includes", error) from error


def _module_name(target: str) -> str:
    name = target.partition(":")[0]
    if "" in name.split("."):
        raise BadTarget(f"{target!r} does not name an app", "write it as shop.tasks:app")
    return name


def _find_modules_here() -> None:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def _broken(module_name: str, error: Exception) -> BrokenModule:
    library_paths = (
        "<",
        str(Path(__file__).parents[1]),  # this package, which may be elsewhere in a checkout
        *(sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")),
    )
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
