"""Writes outcomes into docs/suites.md: one section per suite, between markers."""

import re
from collections import Counter
from pathlib import Path

from dev.suites.description import Suite
from dev.suites.outcomes import Case, Outcome

BEGIN, END = "<!-- begin suites -->", "<!-- end suites -->"
SECTION = re.compile(r"<!-- suite (\S+) -->\n(.*?)(?=<!-- suite |\Z)", re.DOTALL)


def write(page: Path, suites: list[Suite], outcomes: list[Outcome]) -> None:
    """Replace the sections of these suites, and keep those of others, and of suites that did not finish. An
    interrupt leaves the page as it was, or changes all of it.
    """
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    region, after = rest.split(END)
    sections = {match[1]: match[2].strip() for match in SECTION.finditer(region)}
    for suite in suites:
        of_suite = [outcome for outcome in outcomes if outcome.suite == suite.name]
        if of_suite and not any(outcome.error for outcome in of_suite):
            sections[suite.name] = section(suite, of_suite)
    region = "".join(f"<!-- suite {name} -->\n{text}\n\n" for name, text in sorted(sections.items()))
    new = page.with_name(f"{page.name}.new")
    new.write_text(f"{before}{BEGIN}\n{region}{END}{after}", encoding="utf-8")
    new.replace(page)


def section(suite: Suite, outcomes: list[Outcome]) -> str:
    lines = [
        f"### {suite.title}",
        "",
        f"The source package `{suite.source.package}` {suite.source.version}.",
        "",
        "| | passed | not applicable | skipped | failed |",
        "|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| Python {outcome.python} | {outcome.passed} | {len(outcome.not_applicable)} "
        f"| {len(outcome.skipped)} | {len(outcome.failed)} |"
        for outcome in outcomes
    ]
    lines += _reasons("Changed for these runs:", suite.changes)
    lines += _reasons("Not applicable:", [case.text for case in _all(outcomes, "not_applicable")])
    lines += _reasons("Skipped by the suite itself:", [case.text for case in _all(outcomes, "skipped")])
    lines += _reasons("Failed:", [f"`{case.test}`" for case in _all(outcomes, "failed")])
    return "\n".join(lines)


def _all(outcomes: list[Outcome], kind: str) -> list[Case]:
    """The cases of all versions of Python, each once."""
    cases: dict[str, Case] = {}
    for outcome in outcomes:
        cases |= {case.test: case for case in getattr(outcome, kind)}
    return list(cases.values())


def _reasons(heading: str, reasons: list[str]) -> list[str]:
    if not reasons:
        return []
    counted = Counter(reasons).items()
    return [
        "",
        heading,
        "",
        *(f"- {reason}" + (f" ({count} tests)" if count > 1 else "") for reason, count in counted),
    ]
