"""The results of the field, in a file that is written after every run."""

import json
import statistics
from dataclasses import asdict, dataclass, field
from math import inf, isfinite
from pathlib import Path
from typing import Any, Self


class ResultsDiffer(Exception):
    """The file has results of other sizes."""


@dataclass(frozen=True)
class FieldRun:
    peer: str
    scenario: str
    turn: int
    values: dict[str, float]
    error: str | None


@dataclass
class FieldResults:
    path: Path | None
    sizes: dict[str, float]
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """Why a library is left out, by its name."""
    runs: list[FieldRun] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path | None, sizes: dict[str, float]) -> Self:
        if path is None or not path.exists():
            return cls(path, sizes)
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            _ = saved["sizes"], saved["versions"], saved["missing"], saved["runs"]
        except (ValueError, KeyError, TypeError):
            raise ResultsDiffer(f"{path} is not a file of results; name another file") from None
        if saved["sizes"] != sizes:
            raise ResultsDiffer(f"{path} has results of {saved['sizes']}, not of {sizes}; name another file")
        runs = [FieldRun(**run | {"values": finite_or_inf(run["values"])}) for run in saved["runs"]]
        return cls(path, sizes, saved["versions"], saved["missing"], runs)

    def has(self, peer: str, scenario: str, turn: int) -> bool:
        return any(
            (run.peer, run.scenario, run.turn) == (peer, scenario, turn) and not run.error
            for run in self.runs
        )

    def add(self, run: FieldRun) -> None:
        """A run that failed is replaced when it is repeated."""
        same = (run.peer, run.scenario, run.turn)
        self.runs = [each for each in self.runs if (each.peer, each.scenario, each.turn) != same]
        self.runs.append(run)
        self._save()

    def set_missing(self, peer: str, reason: str) -> None:
        self.missing[peer] = reason

    def values(self, peer: str, scenario: str, what: str) -> list[float]:
        return [
            run.values[what]
            for run in self.runs
            if (run.peer, run.scenario) == (peer, scenario) and not run.error and what in run.values
        ]

    def median(self, peer: str, scenario: str, what: str) -> float | None:
        values = self.values(peer, scenario, what)
        return statistics.median(values) if values else None

    def error(self, peer: str, scenario: str) -> str | None:
        return next(
            (run.error for run in self.runs if (run.peer, run.scenario) == (peer, scenario) and run.error),
            None,
        )

    def as_json(self) -> dict[str, Any]:
        """What never happened is null: JSON has no infinite numbers."""
        return {
            "sizes": self.sizes,
            "versions": self.versions,
            "missing": self.missing,
            "runs": [
                asdict(run) | {"values": {name: finite(value) for name, value in run.values.items()}}
                for run in self.runs
            ],
        }

    def _save(self) -> None:
        if self.path is not None:
            saved = self.path.with_suffix(".new")
            saved.write_text(json.dumps(self.as_json(), indent=1, allow_nan=False), encoding="utf-8")
            saved.replace(self.path)


def finite(value: float) -> float | None:
    return value if isfinite(value) else None


def finite_or_inf(values: dict[str, float | None]) -> dict[str, float]:
    return {name: inf if value is None else value for name, value in values.items()}
