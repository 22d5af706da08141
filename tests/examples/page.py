"""Runs all blocks of a page, top to bottom, and checks that each prints what stands below it.

Python is one program, in which `await` may stand outside functions; SQL is one session of psql; sh is one
shell. What a block prints stands in a ```text block directly below it; only SQL and sh may leave it out.

python -m tests.examples.page PAGE FOLDER [DSN] prints, as JSON, what each block prints.
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

CHECKOUT = Path(__file__).parents[2]
FENCED = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
END = "- - the end of a block - -"
PATIENCE = 30.0
# Blocks that are not run, by how they begin, and why.
NOT_RUN = {
    "README.md": {
        "./run demo": "takes minutes: tests/e2e/test_demo.py runs the one, and the other is what runs this"
    },
    "cli.md": {
        "lonnymq top": "a live screen that goes on: tests/cli/test_top_drawing.py draws it",
        "PostgreSQL 18": "what one machine did in half a minute: tests/cli/test_bench.py looks at the form",
    },
    "operations.md": {
        "CREATE ROLE": "roles belong to the whole server: test_operations_guide.py makes its own"
    },
    "worker.md": {
        "lonnymq worker shop.tasks:app": "goes on until it is told to stop: quickstart.md runs one"
    },
}
# What is another time each time: ages, durations, moments, and the blanks that align them.
PASSING = [
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<moment>"),
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
    """What the page says on stderr, when all that it shows is true. What no language runs is left out."""
    printed, stderr = run_apart(page, folder, dsn, **variables)
    shown = runnable(page)
    assert shown, f"nothing of {page.name} is run"
    for block, output in zip(shown, printed, strict=True):
        if block.output is not None or block.language == "python":
            assert lasting(block, output) == lasting(block, block.output or ""), (
                f"{page.name}, line {block.line}, prints\n{output}"
            )
    return stderr


def runnable(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language in RUNNERS and not why_not_run(page, block)]


def why_not_run(page: Path, block: Block) -> str | None:
    reasons = NOT_RUN.get(page.name, {})
    return next((why for beginning, why in reasons.items() if block.code.startswith(beginning)), None)


def lasting(block: Block, text: str) -> str:
    if block.language == "sh":
        for pattern, instead in PASSING:
            text = re.sub(pattern, instead, text)
    return text.strip("\n")


def run_apart(page: Path, folder: Path, dsn: str | None, **variables: str) -> tuple[list[str], str]:
    """What each block prints, and what all of them say on stderr. In a process of its own: Django is set up
    once in each.
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
        said = stderr.read()
    assert process.returncode == 0, said
    return json.loads(stdout), said


@contextlib.contextmanager
def process_group(command: list[str | Path], **keywords: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that leaves nothing behind: what it started is told to end, and is given time for it."""
    with subprocess.Popen(command, text=True, start_new_session=True, **keywords) as process:
        try:
            yield process
        finally:
            deadline = time.monotonic() + PATIENCE
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
        code = compile(source, str(self.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
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
    """A process that reads commands, and says where the output of a block ends. It ends at an error."""

    command: list[str | Path]
    say_end: str

    def __init__(self, page: Path, dsn: str | None) -> None:
        self.page = page
        arguments = [self.given(argument, dsn) for argument in self.command]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @staticmethod
    def given(argument: str | Path, dsn: str | None) -> str | Path:
        return argument if argument != "DSN" else dsn or "this page has no database"

    def commands(self, block: Block) -> str:
        return block.code

    def run(self, block: Block) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{self.commands(block)}\n{self.say_end}\n")
            self.process.stdin.flush()
        output = ""
        for line in self.process.stdout:
            output += line
            if END in line:
                return output.partition(END)[0]
        sys.exit(f"{self.page.name}, line {block.line}: failed, after it printed\n{output}")

    def close(self) -> None:
        self.process.communicate()


class Psql(Interpreter):
    command = [binaries() / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "DSN"]  # noqa: RUF012
    say_end = f"\\echo '{END}'"


class Shell(Interpreter):
    command = ["bash", "-euo", "pipefail"]  # noqa: RUF012
    say_end = f"echo '{END}'"

    def commands(self, block: Block) -> str:
        """Read from a file, so that its commands do not read the blocks that follow."""
        with tempfile.NamedTemporaryFile("w", suffix=".sh", encoding="utf-8", delete=False) as file:
            file.write(block.code)
        return f". {file.name} < /dev/null; rm {file.name}"


class Commands:
    """Commands of ours, in this very process: each finds Spark started already, and leaves it to the next."""

    def __init__(self, page: Path, _dsn: str | None) -> None:
        from pyspark.sql import SparkSession

        self.page = page
        self.kept = mock.patch.object(SparkSession, "stop")
        self.kept.start()

    def run(self, block: Block) -> str:
        output = io.StringIO()
        for line in block.code.splitlines():
            sys.argv = shlex.split(line)
            with contextlib.redirect_stdout(output):
                code = self.code()
            if sys.argv[0] != "lonnymq" or code:
                sys.exit(f"{self.page.name}, line {block.line}: {line} failed")
        return output.getvalue()

    @staticmethod
    def code() -> object:
        try:
            main()
        except SystemExit as end:
            return end.code
        return 0

    def close(self) -> None:
        self.kept.stop()


RUNNERS: Mapping[str, type[Python | Psql | Shell]] = {"python": Python, "sql": Psql, "sh": Shell}
IN_THIS_PROCESS = ("spark.md",)


def run(page: Path, dsn: str | None) -> list[str]:
    runners: dict[str, Runner] = {}
    printed = []
    try:
        for block in runnable(page):
            if block.language not in runners:
                in_process = block.language == "sh" and page.name in IN_THIS_PROCESS
                runners[block.language] = (Commands if in_process else RUNNERS[block.language])(page, dsn)
            printed.append(runners[block.language].run(block))
    finally:
        for runner in runners.values():
            runner.close()
    return printed


if __name__ == "__main__":
    os.chdir(sys.argv[2])
    print(json.dumps(run(Path(sys.argv[1]), sys.argv[3] if len(sys.argv) > 3 else None)))
