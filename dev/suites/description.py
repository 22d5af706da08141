"""Reads suites/<name>/suite.toml."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIELDS: dict[str, tuple[type, bool]] = {  # the type of each field, and whether it is required
    "title": (str, True),
    "source": (dict, True),
    "python": (list, True),
    "extras": (list, False),
    "requirements": (list, False),
    "environment": (dict, False),
    "command": (list, True),
    "tests": (list, True),
    "short": (list, False),
    "timeout_s": (int, False),
    "changes": (list, False),
    "not_applicable": (list, False),
}
SOURCE_FIELDS = {"package", "version", "sha256"}
EXCEPTION_FIELDS = {"test", "reason", "run"}
TIMEOUT_S = 900


class SuiteError(Exception):
    """A suite cannot be run. The text says why."""


@dataclass(frozen=True)
class Source:
    package: str
    version: str
    sha256: str

    @property
    def folder(self) -> str:
        return f"{self.package}-{self.version}"


@dataclass(frozen=True)
class NotApplicable:
    """Tests of something that our backend does not have. They run, and must fail, unless `run` is false."""

    pattern: str
    reason: str
    run: bool

    def matches(self, test: str) -> bool:
        """Only * is special: names of tests contain brackets."""
        return re.fullmatch(".*".join(map(re.escape, self.pattern.split("*"))), test, re.DOTALL) is not None


@dataclass(frozen=True)
class Suite:
    name: str
    folder: Path
    title: str
    source: Source
    pythons: list[str]
    extras: list[str]
    requirements: list[str]
    environment: dict[str, str]
    command: list[str]
    tests: list[str]
    short: list[str]
    timeout_s: int
    changes: list[str]
    """What its plugins change about the suite, in sentences for the page."""
    not_applicable: list[NotApplicable]


def read_suites(folder: Path, names: list[str]) -> list[Suite]:
    """All suites, or those with these names."""
    found = {path.parent.name: path for path in sorted(folder.glob("*/suite.toml"))}
    for name in names:
        if name not in found:
            raise SuiteError(f"no suite {name!r}. The suites are: {', '.join(found) or 'none'}")
    return [_read(path) for name, path in found.items() if not names or name in names]


def _read(path: Path) -> Suite:
    try:
        fields = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise SuiteError(f"{_shown(path)}: {error}") from error
    for name, (kind, is_required) in FIELDS.items():
        if is_required and name not in fields:
            raise SuiteError(f"{_shown(path)}: {name} is missing")
        if name in fields and not isinstance(fields[name], kind):
            raise SuiteError(f"{_shown(path)}: {name} is not a {kind.__name__}")
    _check_names(path, fields, set(FIELDS), "")
    _check_names(path, fields["source"], SOURCE_FIELDS, "source.")
    if SOURCE_FIELDS - set(fields["source"]):
        raise SuiteError(f"{_shown(path)}: source needs {', '.join(sorted(SOURCE_FIELDS))}")
    return Suite(
        name=path.parent.name,
        folder=path.parent,
        title=fields["title"],
        source=Source(**fields["source"]),
        pythons=fields["python"],
        extras=fields.get("extras", []),
        requirements=fields.get("requirements", []),
        environment=fields.get("environment", {}),
        command=fields["command"],
        tests=fields["tests"],
        short=fields.get("short", []),
        timeout_s=fields.get("timeout_s", TIMEOUT_S),
        changes=fields.get("changes", []),
        not_applicable=[_exception(path, entry) for entry in fields.get("not_applicable", [])],
    )


def _exception(path: Path, entry: dict[str, Any]) -> NotApplicable:
    _check_names(path, entry, EXCEPTION_FIELDS, "not_applicable.")
    if not entry.get("test") or not entry.get("reason"):
        raise SuiteError(f"{_shown(path)}: each not_applicable needs test and reason")
    return NotApplicable(entry["test"], entry["reason"], entry.get("run", True))


def _check_names(path: Path, fields: dict[str, Any], known: set[str], prefix: str) -> None:
    for name in fields:
        if name not in known:
            raise SuiteError(
                f"{_shown(path)}: no field {prefix}{name}. The fields are {', '.join(sorted(known))}"
            )


def _shown(path: Path) -> str:
    return f"suites/{path.parent.name}/{path.name}"
