"""Reads what a suite reported, and compares it with the tests that do not apply to us."""

import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

from dev.suites.description import NotApplicable


@dataclass(frozen=True)
class Case:
    """One test, with what the suite says about it if it did not pass."""

    test: str
    text: str


@dataclass
class Outcome:
    suite: str
    version: str
    python: str
    passed: int = 0
    not_applicable: list[Case] = field(default_factory=list)  # the text is our reason
    skipped: list[Case] = field(default_factory=list)  # by the suite itself; the text is its reason
    failed: list[Case] = field(default_factory=list)
    wrong_entries: list[str] = field(default_factory=list)  # of not_applicable
    error: str = ""  # the suite did not run to its end

    @property
    def is_good(self) -> bool:
        return not self.failed and not self.wrong_entries and not self.error


def read_results(results: Path, outcome: Outcome, entries: list[NotApplicable], *, is_complete: bool) -> None:
    """Sort the tests of a JUnit file into the outcome. A selection cannot show that an entry is unused."""
    unused = set(entries)
    for test, elements in _tests(results).items():
        entry = next((entry for entry in entries if entry.matches(test)), None)
        unused.discard(entry) if entry else None
        problem = _first(elements, "failure", "error")
        skip = _first(elements, "skipped")
        if entry and (problem is not None or skip is not None):
            outcome.not_applicable.append(Case(test, entry.reason))
        elif entry:
            outcome.wrong_entries.append(
                f"{test} passes, but not_applicable names it: {entry.pattern!r}. Narrow or remove the entry"
            )
        elif problem is not None:
            outcome.failed.append(Case(test, _first_line(problem)))
        elif skip is not None:
            outcome.skipped.append(Case(test, _first_line(skip)))
        else:
            outcome.passed += 1
    if is_complete:
        outcome.wrong_entries += [
            f"no test matches {entry.pattern!r} of not_applicable. Remove the entry"
            for entry in entries
            if entry in unused
        ]


def _tests(results: Path) -> dict[str, list[ET.Element]]:
    """The elements of each test. It has several if its teardown failed, or if it has subtests."""
    tests: dict[str, list[ET.Element]] = {}
    for element in ET.parse(results).getroot().iter("testcase"):  # noqa: S314  written by a suite we pinned
        test = "::".join(filter(None, (element.get("classname"), element.get("name"))))
        tests.setdefault(test, []).append(element)
    return tests


def _first(elements: list[ET.Element], *kinds: str) -> ET.Element | None:
    return next((found for element in elements for kind in kinds for found in element.findall(kind)), None)


def _first_line(element: ET.Element) -> str:
    text = element.get("message") or element.text or element.get("type") or ""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
