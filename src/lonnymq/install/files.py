"""The SQL files an installation is made of: numbered steps for tables, one file a function.

`tables/NNNN_name.sql` is a step. It runs once in the life of a schema, in the order of its number, and never
changes once released. It must not refer to functions: those come after all steps.

`functions/*.sql` hold one CREATE OR REPLACE FUNCTION each, with SET search_path FROM CURRENT, and are applied
again at every install. CREATE OR REPLACE cannot change a function's output columns or the names of its
parameters, and with other parameters it makes a second function: such a change comes with a step that drops
the old one (IF EXISTS: in a new schema there is none). Within the schema the names of our functions are ours,
whatever their parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

_STEP_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_MAKES_RELATION = re.compile(
    r"\b(?:CREATE\s+(?:UNLOGGED\s+)?(?:TABLE|SEQUENCE|VIEW)|RENAME\s+TO)\s+(?:IF\s+NOT\s+EXISTS\s+)?([a-z0-9_]+)",
    re.IGNORECASE,
)
_MAKES_FUNCTION = re.compile(r"\s*CREATE\s+OR\s+REPLACE\s+FUNCTION\s+([a-z0-9_]+)\s*\(", re.IGNORECASE)
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
class SqlFiles:
    """All that an installation runs."""

    steps: tuple[Step, ...]
    functions: tuple[Function, ...]

    @property
    def last_step(self) -> int:
        return self.steps[-1].number if self.steps else 0


def read(directory: Traversable | None = None) -> SqlFiles:
    """The files of a directory, those of this package unless told otherwise."""
    root = directory or files("lonnymq") / "sql"
    steps = tuple(_step(file, text) for file, text in _texts(root / "tables"))
    if [step.number for step in steps] != list(range(1, len(steps) + 1)):
        raise ValueError("the steps are not numbered 0001, 0002, ... without a gap")
    return SqlFiles(steps, tuple(_function(file, text) for file, text in _texts(root / "functions")))


def _texts(folder: Traversable) -> Iterator[tuple[str, str]]:
    if not folder.is_dir():
        return
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            yield file.name, file.read_text(encoding="utf-8").strip()


def _step(file: str, text: str) -> Step:
    match = _STEP_NAME.fullmatch(file)
    if match is None:
        raise ValueError(f"{file}: a step is named like 0001_name.sql")
    return Step(int(match[1]), match[2], text)


def _function(file: str, text: str) -> Function:
    match = _MAKES_FUNCTION.match(_COMMENT.sub("", text))
    if match is None or not text.endswith(";"):
        raise ValueError(f"{file}: a function file holds one CREATE OR REPLACE FUNCTION name(...) ...;")
    if not file.removesuffix(".sql").endswith(match[1]):
        raise ValueError(f"{file}: the file is named after another function than {match[1]}")
    return Function(match[1], text[:-1].rstrip())
