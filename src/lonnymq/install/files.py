"""The SQL files an installation is made of: numbered steps for tables, one file per function and per view.

`tables/NNNN_name.sql` is a step. It runs once in the life of a schema, in the order of its number, and never
changes once released. It must not refer to functions: those come after all steps.

`functions/**/*.sql` hold one CREATE OR REPLACE FUNCTION each, and are applied again at every install. CREATE
OR REPLACE cannot change a function's output columns or the names of its parameters, and with other parameters
it makes a second function: such a change comes with a step that drops the old one (IF EXISTS: in a new schema
there is none). Within the schema the names of our functions are ours, whatever their parameters.

`views/*.sql` hold one CREATE OR REPLACE VIEW each and are applied after the functions, at every install, in
the order of their file names. A view whose columns change or that goes away is dropped by a step, IF EXISTS.

`settings.sql` is one statement that runs last, at every install: how the functions' queries are planned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

_STEP_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_MAKES_RELATION = re.compile(
    r"\b(?:CREATE\s+(?:OR\s+REPLACE\s+)?(?:UNLOGGED\s+)?(?:TABLE|TYPE|SEQUENCE|VIEW)|RENAME\s+TO)"
    r"\s+(?:IF\s+NOT\s+EXISTS\s+)?([a-z0-9_]+)",
    re.IGNORECASE,
)
_MAKES_FUNCTION = re.compile(r"\s*CREATE\s+OR\s+REPLACE\s+FUNCTION\s+([a-z0-9_]+)\s*\(", re.IGNORECASE)
_MAKES_VIEW = re.compile(
    r"\s*CREATE\s+OR\s+REPLACE\s+VIEW\s+([a-z0-9_]+)\s+WITH\s*\(\s*security_barrier\s*\)\s*AS\b",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"--[^\n]*")


@dataclass(frozen=True)
class Step:
    """One numbered change to the tables, and the relations it makes."""

    number: int
    name: str
    text: str

    @property
    def relations(self) -> list[str]:
        return sorted(set(_MAKES_RELATION.findall(_COMMENT.sub("", self.text))))


@dataclass(frozen=True)
class Function:
    """One function, as its file holds it."""

    name: str
    text: str


@dataclass(frozen=True)
class View:
    """One view, as its file holds it."""

    name: str
    text: str

    def renamed(self, name: str) -> str:
        """The text for the same view under another name."""
        match = _MAKES_VIEW.match(_COMMENT.sub(lambda comment: " " * len(comment[0]), self.text))
        if match is None:
            raise ValueError(f"{self.name} is not made by CREATE OR REPLACE VIEW")
        return self.text[: match.start(1)] + name + self.text[match.end(1) :]


@dataclass(frozen=True)
class SqlFiles:
    """All that an installation runs."""

    steps: tuple[Step, ...]
    functions: tuple[Function, ...]
    views: tuple[View, ...] = ()
    settings: str | None = None

    @property
    def last_step(self) -> int:
        """What `Installed.step` is after it."""
        return self.steps[-1].number if self.steps else 0


def read(directory: Traversable | None = None) -> SqlFiles:
    """The files of a directory, those of this package unless told otherwise."""
    root = directory or files("lonnymq") / "sql"
    steps = tuple(_step(file, text) for file, text in _texts(root / "tables"))
    if [step.number for step in steps] != list(range(1, len(steps) + 1)):
        raise ValueError("the steps are not numbered 0001, 0002, ... without a gap")
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
        raise ValueError(f"{file}: a step is named like 0001_name.sql")
    return Step(int(match[1]), match[2], text)


def _function(file: str, text: str) -> Function:
    return Function(*_named(file, text, _MAKES_FUNCTION, "CREATE OR REPLACE FUNCTION name(...) ...;"))


def _view(file: str, text: str) -> View:
    head = "CREATE OR REPLACE VIEW name WITH (security_barrier) AS ...;"
    return View(*_named(file, text, _MAKES_VIEW, head))


def _settings(file: Traversable) -> str | None:
    return file.read_text(encoding="utf-8").strip().removesuffix(";") if file.is_file() else None


def _named(file: str, text: str, makes: re.Pattern[str], expected: str) -> tuple[str, str]:
    match = makes.match(_COMMENT.sub("", text))
    if match is None or not text.endswith(";"):
        raise ValueError(f"{file}: the file holds one {expected}")
    if not file.removesuffix(".sql").endswith(match[1]):
        raise ValueError(f"{file}: the file is named after something else than {match[1]}")
    return match[1], text[:-1].rstrip()
