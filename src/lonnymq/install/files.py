"""Reads the SQL files of an installation: numbered steps for tables, one file per function and per view.

`tables/NNNN_name.sql` is a step. Steps run in the order of their numbers, each once per schema, and never
change after a release. They must not refer to functions, which are created after all steps.

`functions/**/*.sql` hold one CREATE OR REPLACE FUNCTION each, and run at every install. CREATE OR REPLACE
cannot change a function's output columns or the names of its parameters, and with other parameters it creates
a second function. Such a change needs a step that drops the old function, with IF EXISTS because a new schema
does not have it. All functions of these names in the schema belong to LonnyMQ, whatever their parameters.

`views/*.sql` hold one CREATE OR REPLACE VIEW each, and run after the functions, at every install, in the
order of their file names. To remove a view or change its columns, drop it in a step, with IF EXISTS.

`settings.sql` is one statement that runs last, at every install. It sets how the functions' queries are
planned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

_STEP_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_CREATES_RELATION = re.compile(
    r"\b(?:CREATE\s+(?:OR\s+REPLACE\s+)?(?:UNLOGGED\s+)?(?:TABLE|TYPE|SEQUENCE|VIEW)|RENAME\s+TO)"
    r"\s+(?:IF\s+NOT\s+EXISTS\s+)?([a-z0-9_]+)",
    re.IGNORECASE,
)
_CREATES_FUNCTION = re.compile(r"\s*CREATE\s+OR\s+REPLACE\s+FUNCTION\s+([a-z0-9_]+)\s*\(", re.IGNORECASE)
_CREATES_VIEW = re.compile(
    r"\s*CREATE\s+OR\s+REPLACE\s+VIEW\s+([a-z0-9_]+)\s+WITH\s*\(\s*security_barrier\s*\)\s*AS\b",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"--[^\n]*")


@dataclass(frozen=True)
class Step:
    """One numbered change of the tables, and the relations that it creates."""

    number: int
    name: str
    text: str

    @property
    def relations(self) -> list[str]:
        return sorted(set(_CREATES_RELATION.findall(_COMMENT.sub("", self.text))))


@dataclass(frozen=True)
class Function:
    """One function, with the text of its file."""

    name: str
    text: str


@dataclass(frozen=True)
class View:
    """One view, with the text of its file."""

    name: str
    text: str

    def renamed(self, name: str) -> str:
        """The text that creates the same view under another name."""
        match = _CREATES_VIEW.match(_COMMENT.sub(lambda comment: " " * len(comment[0]), self.text))
        if match is None:
            raise ValueError(f"{self.name} is not created by CREATE OR REPLACE VIEW")
        return self.text[: match.start(1)] + name + self.text[match.end(1) :]


@dataclass(frozen=True)
class SqlFiles:
    """All SQL files of an installation."""

    steps: tuple[Step, ...]
    functions: tuple[Function, ...]
    views: tuple[View, ...] = ()
    settings: str | None = None

    @property
    def last_step(self) -> int:
        """`Installed.step` after the installation."""
        return self.steps[-1].number if self.steps else 0


def read(directory: Traversable | None = None) -> SqlFiles:
    """Read the files of a directory, by default those of this package."""
    root = directory or files("lonnymq") / "sql"
    steps = tuple(_step(file, text) for file, text in _texts(root / "tables"))
    if [step.number for step in steps] != list(range(1, len(steps) + 1)):
        raise ValueError("the steps must be numbered 0001, 0002, ... without a gap")
    functions = tuple(_function(file, text) for file, text in _texts(root / "functions"))
    views = tuple(_view(file, text) for file, text in _texts(root / "views"))
    return SqlFiles(steps, functions, views, _settings(root / "settings.sql"))


def _texts(folder: Traversable) -> Iterator[tuple[str, str]]:
    if not folder.is_dir():
        return
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.is_dir():
            yield from _texts(file)
        elif file.name.endswith(".sql"):
            yield file.name, file.read_text(encoding="utf-8").strip()


def _step(file: str, text: str) -> Step:
    match = _STEP_NAME.fullmatch(file)
    if match is None:
        raise ValueError(f"{file}: the name of a step must look like 0001_name.sql")
    return Step(int(match[1]), match[2], text)


def _function(file: str, text: str) -> Function:
    return Function(*_named(file, text, _CREATES_FUNCTION, "CREATE OR REPLACE FUNCTION name(...) ...;"))


def _view(file: str, text: str) -> View:
    head = "CREATE OR REPLACE VIEW name WITH (security_barrier) AS ...;"
    return View(*_named(file, text, _CREATES_VIEW, head))


def _settings(file: Traversable) -> str | None:
    return file.read_text(encoding="utf-8").strip().removesuffix(";") if file.is_file() else None


def _named(file: str, text: str, pattern: re.Pattern[str], expected: str) -> tuple[str, str]:
    match = pattern.match(_COMMENT.sub("", text))
    if match is None or not text.endswith(";"):
        raise ValueError(f"{file}: the file must contain one {expected}")
    if not file.removesuffix(".sql").endswith(match[1]):
        raise ValueError(f"{file}: the file must be named after {match[1]}")
    return match[1], text[:-1].rstrip()
