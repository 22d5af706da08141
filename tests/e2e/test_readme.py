"""README.md names commands that exist and shows numbers that were measured. tests/examples runs its code."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
ENGINE = (CHECKOUT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
WORKERS = (CHECKOUT / "docs" / "benchmarks-worker.md").read_text(encoding="utf-8")
NUMBER = r"\d[\d,]*"

# A row of the README's table, and where the benchmarks have its numbers: page, section, row, columns.
ROWS = {
    "create, 10 channels, 100 per call": (ENGINE, "Creating", "10 channels, 100 a call", (0, 1)),
    "create, 10 channels, 1 per call": (ENGINE, "Creating", "10 channels, 1 a call", (0, 1)),
    "produce and consume, 1,000 channels, 50 per dequeue": (
        ENGINE,
        "Producers and consumers side by side",
        "1,000 channels, 50 a dequeue, durable dequeue",
        (0, 1),
    ),
    "drain a backlog, 1,000 channels, 50 per dequeue": (
        ENGINE,
        "Draining a backlog of 100,000",
        "1,000 channels, 50 a dequeue, durable dequeue",
        (0, 1),
    ),
    "produce and consume while a backup holds a snapshot": (
        ENGINE,
        "While a snapshot is held open",
        "10 channels, 50 a dequeue, async dequeue",
        (1, 3),
    ),
    "Python tasks, async, one worker process": (
        WORKERS,
        "Running",
        "async tasks, many at a time, 1 process",
        (0, 1, 2),
    ),
}


def section(page: str, heading: str) -> str:
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def table_rows(text: str) -> dict[str, list[str]]:
    """The cells of each row, by the first cell."""
    found = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1:] for cells in found}


def rates(cells: list[str]) -> list[int]:
    """The numbers with a spread (1,234 ±5%), in the order of their columns."""
    matches = [re.search(rf"({NUMBER}) ±", cell) for cell in cells]
    return [int(match[1].replace(",", "")) for match in matches if match]


def test_its_commands_exist() -> None:
    names = set(re.findall(r"\./run ([a-z]+)", README))
    assert names >= {"demo", "test"}
    done = subprocess.run(
        [CHECKOUT / "run", "--help"], capture_output=True, text=True, check=False, env=os.environ
    )
    for name in names:
        assert f"\n  {name} " in done.stdout


@pytest.mark.parametrize("name", ROWS)
def test_its_rates_are_measured(name: str) -> None:
    page, heading, row, columns = ROWS[name]
    measured = rates(table_rows(section(page, heading))[row])
    shown = [
        int(number.replace(",", "")) for number in re.findall(NUMBER, " ".join(table_rows(README)[name]))
    ]
    assert shown == [measured[column] for column in columns]


def test_every_row_of_its_table_is_checked() -> None:
    assert set(table_rows(section(README, "How fast"))) - {"LonnyMQ"} <= ROWS.keys()


def test_it_says_in_how_many_rows_pgmq_is_faster() -> None:
    compared = [
        rates(cells)[:2]
        for heading in ("Creating", "Producers and consumers side by side", "Draining a backlog of 100,000")
        for cells in table_rows(section(ENGINE, heading)).values()
        if rates(cells)
    ]
    [held] = [
        cells
        for cells in table_rows(section(ENGINE, "While a snapshot is held open")).values()
        if rates(cells)
    ]
    compared.append([rates(held)[1], rates(held)[3]])
    faster = sum(theirs > ours for ours, theirs in compared)
    assert f"pgmq has the higher rate in {faster} of {len(compared)} rows" in " ".join(README.split())


def test_its_picture_shows_what_was_measured() -> None:
    picture = (CHECKOUT / "docs" / "images" / "fairness.svg").read_text(encoding="utf-8")
    waits = table_rows(section(ENGINE, "Fairness"))
    fifo, _ = waits["plain FIFO"]
    ours, worst = waits["lonnymq"]
    assert f"others wait for {ours} messages, not {fifo}" in picture
    assert f"(worst: {worst})" in picture
    assert f"others wait for {ours} messages instead of {fifo}" in README
