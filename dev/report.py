"""The summary that ./run check and ./run test print at the end: one line per step, with pytest's counts."""

import os
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Step:
    name: str
    failed: bool = True
    summary: str = "did not finish"

    def set_outcome(self, exit_code: int, summary: str = "") -> None:
        self.failed = exit_code != 0
        self.summary = summary


@dataclass
class Report:
    _steps: list[Step] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        print(f"\n== {name}", flush=True)
        step = Step(name)
        self._steps.append(step)
        started = time.monotonic()
        yield step
        step.summary = step.summary or f"{time.monotonic() - started:.1f} s"

    def skip(self, name: str, remedy: str) -> None:
        """Report a step that did not run. With CI=true that is a failure."""
        self._steps.append(Step(name, failed=os.environ.get("CI") == "true", summary=f"SKIPPED; {remedy}"))

    def finish(self) -> int:
        print()
        for step in self._steps:
            print(f"{'FAILED' if step.failed else 'ok':6}  {step.name:13}  {step.summary}")
        return 1 if any(step.failed for step in self._steps) else 0


def closing_line(results: Path) -> str:
    """The counts of pytest's last line, read from its results file."""
    if not results.exists():
        return "no results"
    total = _totals(results)
    counts = {"failed": total["failures"], "errors": total["errors"], "skipped": total["skipped"]}
    counts = {"passed": total["tests"] - sum(counts.values()), **counts}
    shown = [f"{count:.0f} {kind}" for kind, count in counts.items() if count or kind == "passed"]
    return f"{', '.join(shown)} in {total['time']:.1f} s"


def failures(results: Path) -> int:
    """The number of tests that failed or had an error."""
    if not results.exists():
        return 0
    total = _totals(results)
    return int(total["failures"] + total["errors"])


def _totals(results: Path) -> dict[str, float]:
    suites = list(ET.parse(results).getroot().iter("testsuite"))  # noqa: S314  written by our own pytest
    names = ("tests", "failures", "errors", "skipped", "time")
    return {name: sum(float(suite.get(name, 0)) for suite in suites) for name in names}
