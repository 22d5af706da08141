"""Runs one suite with one Python on a fresh database."""

import os
import re
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import psycopg
from psycopg import sql

from dev.environment import CHECKOUT
from dev.progress import Steps
from dev.suites.description import Suite
from dev.suites.outcomes import Outcome, read_results
from lonnymq.embedded import Server
from lonnymq.install import install

PLUGINS = CHECKOUT / "suites" / "plugins"
LAST_LINES = 30
NOT_PASSED_ON = re.compile(
    r"(LONNYMQ|PG|DJANGO|PYTEST|CELERY)[A-Z_]*$"
)  # they would change what a suite does

stopping = threading.Event()  # set by Ctrl-C: suites do not get it, since each has its own process group


def run_suite(
    suite: Suite,
    source: Path,
    python: Path,
    server: Server,
    folder: Path,
    outcome: Outcome,
    *,
    steps: Steps,
    is_short: bool,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    results, log = folder / "results.xml", folder / "output.txt"
    results.unlink(missing_ok=True)
    values = {
        "python": str(python),
        "results": str(results),
        "source": str(source),
        "suite": str(suite.folder),
    }
    selection = suite.short if is_short else suite.tests
    command = [_filled(argument, values) for argument in [*suite.command, *selection]]
    environment = {
        **{name: value for name, value in os.environ.items() if not NOT_PASSED_ON.match(name)},
        "PYTHONPATH": os.pathsep.join(map(str, (suite.folder, PLUGINS, CHECKOUT / "src"))),
        "PATH": f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "LONNYMQ_SUITE_DSN": _fresh_database(server, f"suite_{suite.name}"),
        "LONNYMQ_SUITE_LEFT_OUT": "\n".join(entry.pattern for entry in suite.not_applicable if not entry.run),
        **{name: _filled(value, values) for name, value in suite.environment.items()},
    }
    code = _run(command, source, environment, log, suite.timeout_s, steps)
    if results.exists():
        read_results(results, outcome, suite.not_applicable, is_complete=not is_short and code is not None)
    is_explained = outcome.failed or outcome.not_applicable
    if code is None:
        outcome.error = f"did not finish within {suite.timeout_s} s. {_end_of(log)}"
    elif code not in (0, 1) or (code == 1 and not is_explained):
        outcome.error = f"the command ended with {code}. {_end_of(log)}"
    elif not (outcome.passed or is_explained):
        outcome.error = f"no test ran. {_end_of(log)}"


def _filled(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


def _run(
    command: list[str], source: Path, environment: dict[str, str], log: Path, timeout_s: float, steps: Steps
) -> int | None:
    """The exit code, or None after the timeout or Ctrl-C. Processes that a suite leaves behind are killed."""
    with (
        log.open("w") as output,
        subprocess.Popen(
            command,
            cwd=source,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        ) as process,
    ):
        deadline = time.monotonic() + timeout_s
        try:
            while time.monotonic() < deadline and not stopping.is_set():
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(1)
                steps.update(_lines(log, 1)[-1])
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _fresh_database(server: Server, name: str) -> str:
    """The address of a new database with our schema installed."""
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    with psycopg.connect(server.dsn(name), autocommit=True) as connection:
        install(connection)
    return server.dsn(name)


def _end_of(log: Path) -> str:
    return "Its last lines:\n" + "\n".join(f"    {line}" for line in _lines(log, LAST_LINES))


def _lines(log: Path, count: int) -> list[str]:
    return log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:] or ["no output yet"]
