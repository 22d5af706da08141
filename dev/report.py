"""What ./run check and ./run test say at the end: a line for each step, pytest's closing line among them."""

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

    def outcome(self, exit_code: int, summary: str = "") -> None:
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
        """With CI=true nothing may be skipped."""
        self._steps.append(
            Step(
                name, failed=os.environ.get("CI") == "true", summary=f"SKIPPED, 1 pass of the tests; {remedy}"
            )
        )

    def finish(self) -> int:
        print()
        for step in self._steps:
            print(f"{'FAILED' if step.failed else 'ok':6}  {step.name:13}  {step.summary}")
        return 1 if any(step.failed for step in self._steps) else 0


def closing_line(results: Path) -> str:
    """The counts of pytest's closing line, from the results it has written down."""
    if not results.exists():
        return "no results"
    total = _totals(results)
    counts = {"failed": total["failures"], "errors": total["errors"], "skipped": total["skipped"]}
    counts = {"passed": total["tests"] - sum(counts.values()), **counts}
    said = ", ".join(f"{count:.0f} {what}" for what, count in counts.items() if count or what == "passed")
    return f"{said} in {total['time']:.1f} s"


def failures(results: Path) -> int:
    """How many tests failed or had an error."""
    if not results.exists():
        return 0
    total = _totals(results)
    return int(total["failures"] + total["errors"])


def _totals(results: Path) -> dict[str, float]:
    suites = list(ET.parse(results).getroot().iter("testsuite"))  # noqa: S314  written by our own pytest
    names = ("tests", "failures", "errors", "skipped", "time")
    return {name: sum(float(suite.get(name, 0)) for suite in suites) for name in names}
