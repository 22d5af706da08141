"""Runs all blocks of a page, top to bottom, and checks that each prints what the page shows below it.

All Python blocks are one program, in which `await` is allowed outside functions; all SQL blocks are one psql
session; all sh blocks are one shell. The expected output is a ```text block directly below; a block of SQL or
sh may leave it out.

python -m tests.examples.page PAGE FOLDER [DSN] prints the output of each block, as JSON.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

import django
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

from lonnymq.cli import main
from lonnymq.embedded import binaries
from tests.examples import quick_lonnymq

CHECKOUT = Path(__file__).parents[2]
FENCED = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
END_MARK = "- - the end of a block - -"
STOP_TIMEOUT_S = 30.0
# Blocks that are not run, by their first characters, and why.
NOT_RUN = {
    "README.md": {
        "./run demo": "takes minutes: tests/e2e/test_demo.py runs the demo, and ./run test runs this test"
    },
    "cli.md": {
        "lonnymq top": "a live screen that does not stop by itself: tests/cli/test_top_drawing.py draws it",
        "PostgreSQL 18": "measurements of one machine: tests/cli/test_bench.py checks their form",
    },
    "dashboard.md": {
        "pip install": "does not stop by itself: tests/cli/test_web.py starts the dashboard",
        "export LONNYMQ_WEB_USER": "does not stop by itself: tests/cli/test_web.py starts it with a password",
        "from django": "needs a Django site: tests/web/django_site.py is one",
        "curl": "needs a dashboard that runs: tests/web/test_tenants.py sends such requests",
    },
    "deployment.md": {
        "lonnymq install --roles": "roles belong to the whole server: test_deployment_guide.py makes its own"
    },
    "from_procrastinate.md": {
        "from redis": "needs Redis, which nothing else here needs: tried by hand with RQ 2.12"
    },
    "monitoring.md": {
        "pip install": "does not stop by itself: tests/prometheus/test_worker.py starts such workers"
    },
    "operations.md": {
        "lonnymq dead retry --all --group": "only an example of a group: tests/cli/test_dead.py retries one",
        "CREATE ROLE": "roles belong to the whole server: test_operations_guide.py makes its own",
    },
    "suites.md": {"./run suites": "takes minutes: tests/e2e/test_suites.py runs a small suite"},
    "worker.md": {
        "lonnymq worker shop.tasks:app": "does not stop by itself: quickstart.md runs a worker",
        "worker      state": "shows workers of several machines",
    },
}
# Parts of the output that differ in every run: ages, durations, times, and the blanks that align them.
VARYING = [
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>"),
    (r'("\w+_(?:at|ms)"): [1-9]\d*', r"\1: <number>"),
    (r"\bnow\b|\d+ (?:ms|s)(?: ago)?\b", "<age>"),
    (r"in \d+ min", "in <age>"),
    (r"\d+ of \d+ in use|\d+ rows? to clean up", "<number>"),
    (r"\bstep \d+", "step <number>"),
    (r'File "[^"]*shop.py"', "File <shop.py>"),
    (r"PostgreSQL \d+\.\d+", "PostgreSQL <version>"),
    (r"<age>\s+<age>|<age>", "<age>"),
    (r"[ ]+", " "),
]


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    output: str | None
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    end = 0
    for fenced in FENCED.finditer(text):
        is_output = fenced["language"] == "text" and found and not text[end : fenced.start()].strip()
        if is_output and found[-1].language in RUNNERS and found[-1].output is None:
            above = found.pop()
            found.append(Block(above.language, above.code, fenced["code"], above.line))
        else:
            line = text.count("\n", 0, fenced.start()) + 1
            found.append(Block(fenced["language"], fenced["code"], None, line))
        end = fenced.end()
    return found


def check(page: Path, folder: Path, dsn: str | None = None, **variables: str) -> str:
    """Run the page's blocks and compare their output with the page. Returns what they write to stderr."""
    outputs, stderr = run_in_subprocess(page, folder, dsn, **variables)
    shown = runnable(page)
    assert shown, f"{page.name} has no block that can be run"
    for block, output in zip(shown, outputs, strict=True):
        if block.output is not None or block.language == "python":
            assert comparable(block, output) == comparable(block, block.output or ""), (
                f"{page.name}, line {block.line}, prints\n{output}"
            )
    return stderr


def runnable(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language in RUNNERS and not why_not_run(page, block)]


def why_not_run(page: Path, block: Block) -> str | None:
    reasons = NOT_RUN.get(page.name, {})
    return next((why for start, why in reasons.items() if block.code.startswith(start)), None)


def comparable(block: Block, text: str) -> str:
    """The text without the parts that differ in every run."""
    if block.language == "sh":
        for pattern, replacement in VARYING:
            text = re.sub(pattern, replacement, text)
    return text.strip("\n")


def run_in_subprocess(page: Path, folder: Path, dsn: str | None, **variables: str) -> tuple[list[str], str]:
    """The output of each block, and the stderr of all. In a subprocess, since Django can be set up only once
    per process.
    """
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as stderr,
        process_group(
            [
                sys.executable,
                "-W",
                "error",
                "-m",
                "tests.examples.page",
                page,
                folder,
                *([dsn] if dsn else []),
            ],
            cwd=CHECKOUT,
            env=environment(dsn) | variables,
            stdout=subprocess.PIPE,
            stderr=stderr,
        ) as process,
    ):
        stdout, _ = process.communicate()
        stderr.seek(0)
        errors = stderr.read()
    assert process.returncode == 0, errors
    return json.loads(stdout), errors


@contextlib.contextmanager
def process_group(command: list[str | Path], **keywords: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a process, and afterwards stop all processes that it started: with SIGTERM, then with SIGKILL."""
    with subprocess.Popen(command, text=True, start_new_session=True, **keywords) as process:
        try:
            yield process
        finally:
            deadline = time.monotonic() + STOP_TIMEOUT_S
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
                while time.monotonic() < deadline:
                    process.poll()
                    os.killpg(process.pid, 0)
                    time.sleep(0.05)
                os.killpg(process.pid, signal.SIGKILL)


def environment(dsn: str | None) -> dict[str, str]:
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PG", "LONNYMQ_", "DATABASE_URL", "VIRTUAL_ENV"))
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), str(binaries()), os.environ["PATH"]])
    always = {"NO_COLOR": "1", "PATH": path, "PYTHONWARNINGS": "error"}
    return clean | always | ({} if dsn is None else {"LONNYMQ_DSN": dsn})


class Runner(Protocol):
    def run(self, block: Block) -> str: ...

    def close(self) -> None: ...


class Python:
    def __init__(self, page: Path, dsn: str | None) -> None:
        self.page = page
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.loop = asyncio.Runner()
        if dsn is not None:
            self.names["dsn"] = dsn
            configure_django(dsn)

    def run(self, block: Block) -> str:
        source = "\n" * block.line + block.code
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(source, str(self.page), "exec", flags, dont_inherit=True)  # as in a file of its own
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            awaited = eval(code, self.names)  # noqa: S307
            if inspect.iscoroutine(awaited):
                self.loop.run(awaited)
        return output.getvalue()

    def close(self) -> None:
        self.loop.close()


def configure_django(dsn: str) -> None:
    found = conninfo_to_dict(dsn)
    names = {"HOST": "host", "PORT": "port", "NAME": "dbname", "USER": "user", "PASSWORD": "password"}
    database = {setting: str(found.get(name, "")) for setting, name in names.items()}
    settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", **database}})
    django.setup()


class Interpreter:
    """A process that reads commands and prints a mark after each block. It exits at the first error."""

    command: list[str | Path]
    print_mark: str

    def __init__(self, page: Path, dsn: str | None) -> None:
        self.page = page
        arguments = [self.with_dsn(argument, dsn) for argument in self.command]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @staticmethod
    def with_dsn(argument: str | Path, dsn: str | None) -> str | Path:
        return argument if argument != "DSN" else dsn or "this page has no database"

    def commands(self, block: Block) -> str:
        return block.code

    def run(self, block: Block) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{self.commands(block)}\n{self.print_mark}\n")
            self.process.stdin.flush()
        output = ""
        for line in self.process.stdout:
            output += line
            if END_MARK in line:
                return output.partition(END_MARK)[0]
        sys.exit(f"{self.page.name}, line {block.line}: failed, after it printed\n{output}")

    def close(self) -> None:
        self.process.communicate()


class Psql(Interpreter):
    command = [binaries() / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "DSN"]  # noqa: RUF012
    print_mark = f"\\echo '{END_MARK}'"


class Shell(Interpreter):
    command = ["bash", "-euo", "pipefail"]  # noqa: RUF012
    print_mark = f"echo '{END_MARK}'"

    def commands(self, block: Block) -> str:
        """Sourced from a file, so that the commands cannot read the following blocks as their input."""
        with tempfile.NamedTemporaryFile("w", suffix=".sh", encoding="utf-8", delete=False) as file:
            file.write(block.code)
        return f". {file.name} < /dev/null; rm {file.name}"


class LonnymqCommands:
    """Runs lonnymq commands in this process, so that all of them share one Spark session."""

    def __init__(self, page: Path, _dsn: str | None) -> None:
        from pyspark.sql import SparkSession

        self.page = page
        self.keep_session = mock.patch.object(SparkSession, "stop")
        self.keep_session.start()

    def run(self, block: Block) -> str:
        output = io.StringIO()
        for line in block.code.splitlines():
            sys.argv = shlex.split(line)
            with contextlib.redirect_stdout(output):
                code = self.exit_code()
            if sys.argv[0] != "lonnymq" or code:
                sys.exit(f"{self.page.name}, line {block.line}: {line} failed")
        return output.getvalue()

    @staticmethod
    def exit_code() -> object:
        try:
            main()
        except SystemExit as exit_:
            return exit_.code
        return 0

    def close(self) -> None:
        self.keep_session.stop()


RUNNERS: Mapping[str, type[Python | Psql | Shell]] = {"python": Python, "sql": Psql, "sh": Shell}
IN_THIS_PROCESS = ("spark.md",)
MANY_COMMANDS = ("cli.md",)


def run(page: Path, dsn: str | None) -> list[str]:
    runners: dict[str, Runner] = {}
    outputs = []
    try:
        for block in runnable(page):
            if block.language not in runners:
                in_process = block.language == "sh" and page.name in IN_THIS_PROCESS
                runners[block.language] = (LonnymqCommands if in_process else RUNNERS[block.language])(
                    page, dsn
                )
            outputs.append(runners[block.language].run(block))
    finally:
        for runner in runners.values():
            runner.close()
    return outputs


if __name__ == "__main__":
    os.chdir(sys.argv[2])
    with contextlib.ExitStack() as stack:
        if Path(sys.argv[1]).name in MANY_COMMANDS:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="lonnymq-page-"))
            stack.enter_context(quick_lonnymq.on_path(Path(scratch)))
        print(json.dumps(run(Path(sys.argv[1]), sys.argv[3] if len(sys.argv) > 3 else None)))
