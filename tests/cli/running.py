"""Runs the command line: in this process, also on a terminal, or in a new one with pipes."""

import contextlib
import functools
import io
import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO
from unittest import mock

from typer.main import get_command

from lonnymq.cli import main

NOWHERE = "postgresql://someone:s3cret@127.0.0.1:1/db"

known_command = functools.cache(get_command)
"""Built once, because it is the same for all runs in this process."""


@dataclass(frozen=True)
class Done:
    code: int
    stdout: str
    stderr: str

    @property
    def records(self) -> list[dict[str, Any]]:
        """The objects that --json printed."""
        assert self.code in {0, 1}, self.stderr
        return [json.loads(line) for line in self.stdout.splitlines()]

    @property
    def record(self) -> dict[str, Any]:
        (found,) = self.records
        return found

    @property
    def said(self) -> str:
        """The text on stderr, on one line, without the frames that Typer draws."""
        return " ".join(self.stderr.replace("│", " ").split())


def environment(dsn: str | None, more: Mapping[str, str] | None = None) -> dict[str, str]:
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PG", "LONNYMQ_", "DATABASE_URL"))
    }
    address = {} if dsn is None else {"LONNYMQ_DSN": dsn}
    return clean | {"NO_COLOR": "1", "COLUMNS": "80"} | address | dict(more or {})


def run(
    *arguments: str, dsn: str | None = None, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> Done:
    stdout = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    stderr = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace", write_through=True)
    with mock.patch.dict(os.environ, environment(dsn, env), clear=True):
        code = _main(arguments, io.TextIOWrapper(io.BytesIO(stdin)), stdout, stderr)
    return Done(code, *(stream.buffer.getvalue().decode() for stream in (stdout, stderr)))


def start(
    *arguments: str, dsn: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """In a new process, with pipes."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "lonnymq", *arguments],
        input=stdin,
        env=environment(dsn, env),
        capture_output=True,
        check=False,
        timeout=60,
    )


def on_terminal(
    arguments: Sequence[str], dsn: str, answer: bytes = b"", columns: int = 80
) -> tuple[int, str]:
    """In this process, on a terminal that gets this answer. Returns the exit code and what is shown."""
    ours, theirs = pty.openpty()
    shown: list[bytes] = []
    reader = threading.Thread(target=lambda: shown.extend(iter(lambda: _read(ours), b"")))
    reader.start()
    if answer:
        os.write(ours, answer)
    with (
        os.fdopen(theirs, encoding="utf-8") as stdin,
        os.fdopen(os.dup(theirs), "w", encoding="utf-8") as stdout,
        mock.patch.dict(os.environ, environment(dsn, {"COLUMNS": str(columns), "TERM": "xterm"}), clear=True),
    ):
        code = _main(arguments, stdin, stdout, stdout)
    reader.join()
    os.close(ours)
    return code, b"".join(shown).decode()


def _main(arguments: Sequence[str], stdin: TextIO, stdout: TextIO, stderr: TextIO) -> int:
    code: Any = 0
    with (
        mock.patch("typer.main.get_command", known_command),
        mock.patch.object(sys, "argv", ["lonnymq", *arguments]),
        mock.patch.object(sys, "stdin", stdin),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
    return code or 0


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # on Linux: the other end is closed
        return b""
