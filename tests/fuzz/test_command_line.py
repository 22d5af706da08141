"""Every command of the command line with odd arguments: it works, or ends with an error of ours, soon.

An error also leaves every table as it was. The commands and their parameters are those that Typer knows, so a
new one is tried as well.
"""

from __future__ import annotations

import importlib
import sys
import time
import types
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from psycopg.conninfo import make_conninfo

from lonnymq import App, Queue
from lonnymq.cli.failure import SCHEMA, UNREACHABLE, exit_code, sentence
from lonnymq.errors import LonnyMQError
from lonnymq.install import uninstall
from tests.cli.running import NOWHERE, Done, run
from tests.cli.test_failures import LEAVES
from tests.fuzz.examples import try_many
from tests.fuzz.filled_queue import Conn, Tables, changed, fill
from tests.fuzz.odd_texts import DURATIONS, NUMBERS, RATES, TEXTS, TIMES

MOST_S = 60.0
"""No command hangs. A statement ends after 5 seconds, and so does the wait for a lock."""


class Stopped(LonnyMQError):
    """Raised in place of what does not end, or takes long."""


ENDLESS = {
    "lonnymq.worker.worker.Worker.run": "a worker runs until a signal",
    "lonnymq.worker.processes.WorkerProcesses.run": "so do its processes",
    "lonnymq.web.serve.serve": "the dashboard is served until a signal",
    "lonnymq.demo.temporary_server": "the demo starts a PostgreSQL server",
    "lonnymq.cli.bench_command._measure": "a benchmark writes for half a minute",
    "lonnymq.cli.top_command._show_live": "top shows the channels until q is pressed",
    "lonnymq.spark.session": "Spark takes seconds to start",
}
OF_THE_DISPATCHER = {
    *(
        "alarm",
        "backlog",
        "capacity",
        "departure",
        "line",
        "notice",
        "policy_change",
        "ready",
        "ready_locked",
        "recent_tag",
    ),
    *("scheduled", "slots", "tally", "tick"),
}
"""Some commands dispatch before they read, as every consumer does."""
APP = "an_app_for_fuzzing"


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise Stopped("it would go on from here")

    for place in ENDLESS:
        importlib.import_module(
            place.rpartition(".")[0].removesuffix(".Worker").removesuffix(".WorkerProcesses")
        )
        monkeypatch.setattr(place, stop)
    module = types.ModuleType(APP)
    module.app = App(Queue(NOWHERE))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, APP, module)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    monkeypatch.chdir(tmp_path)
    delays = b'{"payload": 1, "delay": 1e308}\n{"payload": 1, "unique_for": 1e300, "dedupe_key": "k"}\n'
    contents = {
        "empty": b"",
        "bytes": bytes(range(256)),
        "numbers": b"1\n2\n",
        "messages": b'{"payload": 1, "channel": "a"}\n\n{"payload": null, "delay": 1e400, "run_at": "x"}\n',
        "nul": b'{"payload": "\\u0000", "channel": "\\u0000"}\n',
        "surrogate": b'{"payload": "\\ud800", "channel": "\\ud800"}\n',
        "deep": b"[" * 100_000,
        "long": b"9" * 5_000,
        "times": b'{"payload": 1, "run_at": "0001-01-01T00:00+14:00"}\n',
        "delays": delays,
        "large": b'{"payload": 1, "priority": 99999999999999999999}\n{"payload": 1, "batch_id": 1e5}\n',
        "headers": b'{"payload": 1, "headers": {"a": "\\u0000"}, "task": ""}\n',
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return (
        *contents,
        "nowhere",
        "no/where",
        ".",
        "/",
        "/dev/null",
        "/dev/full",
        "-",
        "",
        "x" * 300,
        "\udcff",
    )


def texts(name: str, ids: list[int]) -> st.SearchStrategy[str]:
    """Anything that an argument of a process can be. Python shows bytes that are not UTF-8 as surrogates."""
    anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
    known = st.sampled_from(
        (*map(str, ids[:3]), "a", "b", f"{APP}:app", "k=v", "=", "a.weight=nan", "b.max_concurrency=1e9")
    )
    odd = st.sampled_from((*TEXTS, *NUMBERS, *TIMES, *DURATIONS, *RATES, "\udcff", "-", "--", "--yes"))
    return st.one_of(known, odd, anything)


def values(parameter: Any, files: tuple[str, ...], ids: list[int]) -> st.SearchStrategy[str]:
    """Values for an option or an argument: of its kind, or any."""
    numbers = (*NUMBERS, *map(str, ids[:4]), "2.5", "60")
    kind = parameter.type_descriptor.annotation
    of_kind: dict[type, tuple[str, ...]] = {int: numbers, float: numbers, Path: files, datetime: TIMES}
    is_choice = isinstance(kind, type) and issubclass(kind, Enum)
    fitting = tuple(map(str, kind)) if is_choice else of_kind.get(kind, ())
    anything = texts(parameter.name, ids)
    return st.one_of(st.sampled_from(fitting), st.sampled_from(fitting), anything) if fitting else anything


class CommandLine:
    """Runs commands, and collects what is wrong."""

    def __init__(self, conn: Conn, dsn: str, files: tuple[str, ...]) -> None:
        self.conn = conn
        self.ids = fill(conn).ids
        self.tables = Tables(conn)
        self.files = files
        self.before: dict[str, Any] | None = None
        self.dsn = make_conninfo(dsn, options="-c statement_timeout=5000 -c lock_timeout=5000")
        self.errors: set[str] = set()
        self.wrong: list[str] = []
        self.accepted = 0

    def arguments(self, name: tuple[str, ...], data: st.DataObject) -> list[str]:
        given: list[str] = []
        last: list[str] = []
        for parameter in LEAVES[name].params:
            if parameter.name in {"help", "dsn"} or (name == ("install",) and parameter.name == "roles"):
                continue  # roles belong to the server, which all tests share
            if parameter.param_type_name == "argument":
                most = 3 if parameter.nargs == -1 else 1
                least = 1 if parameter.required else 0
                made = st.lists(values(parameter, self.files, self.ids), min_size=least, max_size=most)
                last += data.draw(made)
            elif parameter.name == "schema":
                given += data.draw(self.schema(name))
            elif data.draw(st.integers(0, 2)) == 0 or parameter.name in {"yes", "once"}:
                if parameter.is_flag:
                    given.append(data.draw(st.sampled_from([*parameter.opts, *parameter.secondary_opts])))
                else:
                    given.append(f"{parameter.opts[0]}={data.draw(values(parameter, self.files, self.ids))}")
        return [*name, *given, *(["--"] if data.draw(st.booleans()) else []), *last]

    def example(self, name: tuple[str, ...], data: st.DataObject) -> None:
        stdin = data.draw(st.sampled_from([b"", b"1\n2\n", b"\xff\n", b'{"payload": 1, "channel": 7}\n']))
        self.call(self.arguments(name, data), stdin)

    @staticmethod
    def schema(name: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
        odd = st.sampled_from(TEXTS).map(lambda text: [f"--schema={text}"])
        if name == ("uninstall",):
            return odd  # never the schema that the other commands need
        return st.one_of(*[st.just([])] * 5, odd)

    def call(self, arguments: list[str], stdin: bytes) -> None:
        shown = " ".join(repr(argument[:300]) for argument in arguments)
        self.before = self.before or self.tables.digest()
        begin = time.monotonic()
        try:
            done = run(*arguments, "--debug", dsn=self.dsn, stdin=stdin)
        except LonnyMQError as error:
            self.errors.add(type(error).__name__)
            self.look_at(error, shown)
            is_refused = not isinstance(error, Stopped)
        except Exception as error:  # noqa: BLE001
            self.wrong.append(f"{type(error).__name__} {error!s:.300}: {shown}")
            is_refused = True
        else:
            is_refused = self.is_refused(done, shown)
        if time.monotonic() - begin > MOST_S:
            self.wrong.append(f"it took {time.monotonic() - begin:.0f} s: {shown}")
        if not is_refused:
            self.accepted += 1
            self.before = None
            return
        now = self.tables.digest()
        if different := set(changed(self.before, now)) - OF_THE_DISPATCHER:
            self.wrong.append(f"a refused command changed {different}: {shown}")
        self.before = now

    def look_at(self, error: LonnyMQError, shown: str) -> None:
        text, code = sentence(error), exit_code(error)
        if not text.strip() or "\n" in text or "Traceback" in text:
            self.wrong.append(f"{text!r} is not one line: {shown}")
        if code == UNREACHABLE or (code == SCHEMA and "--schema" not in shown):
            self.wrong.append(f"exit code {code}, {text}: {shown}")

    def is_refused(self, done: Done, shown: str) -> bool:
        codes = {0, 1, 2, SCHEMA} if "--schema" in shown else {0, 1, 2}
        if "Traceback" in done.stderr or done.code not in codes:
            self.wrong.append(f"exit code {done.code}, {done.stderr[-300:]}: {shown}")
        if done.code == 2 and "Usage: " not in done.stderr:
            self.wrong.append(f"no usage, {done.stderr[-300:]}: {shown}")
        if done.code == 1 and not (done.stdout + done.stderr).strip():
            self.wrong.append(f"nothing is said: {shown}")
        return done.code == 2


@pytest.fixture
def command_line(conn: Conn, dsn: str, files: tuple[str, ...], stopped: None) -> Iterator[CommandLine]:
    yield CommandLine(conn, dsn, files)
    query = """
        SELECT nspname FROM pg_namespace
        WHERE to_regclass(quote_ident(nspname) || '.installation') IS NOT NULL"""
    for (schema,) in conn.execute(query).fetchall():
        if schema != "lonnymq":
            uninstall(conn, schema)


@pytest.mark.parametrize(
    "examples", [3, pytest.param(300, marks=[pytest.mark.long, pytest.mark.timeout(7200)])]
)
def test_odd_arguments(command_line: CommandLine, examples: int) -> None:
    for name in LEAVES:
        try_many(examples, partial(command_line.example, name))
    assert not command_line.wrong, "\n".join(command_line.wrong[:40])
    assert {"BadValue", "Stopped", "NotThere", "InvalidSchemaName"} <= command_line.errors
    assert command_line.accepted > len(LEAVES) // 4
