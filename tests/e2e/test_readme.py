"""README.md names commands that exist and shows numbers that were measured. tests/examples runs its code."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
ENGINE = (CHECKOUT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
WORKERS = (CHECKOUT / "docs" / "benchmarks-worker.md").read_text(encoding="utf-8")
NUMBER = r"\d[\d,]*"
OURS, PGMQ = "lonnymq, messages/s", "pgmq, messages/s"
OURS_HELD, PGMQ_HELD = "lonnymq, snapshot held, messages/s", "pgmq, snapshot held, messages/s"

# Each row of the README's table, and the page and the columns of the benchmarks that have its numbers.
ROWS = {
    "create, 10 channels, 100 per call": (ENGINE, (OURS, PGMQ)),
    "create, 10 channels, 1 per call": (ENGINE, (OURS, PGMQ)),
    "produce and consume, 1,000 channels, 50 per dequeue": (ENGINE, (OURS, PGMQ)),
    "drain a backlog, 1,000 channels, 50 per dequeue": (ENGINE, (OURS, PGMQ)),
    "produce and consume while a backup holds a snapshot": (ENGINE, (OURS_HELD, PGMQ_HELD)),
    "Python tasks, async, one worker process": (
        WORKERS,
        ("lonnymq, tasks/s", "pgqueuer, tasks/s", "procrastinate, tasks/s"),
    ),
}


def table_rows(text: str) -> Iterator[dict[str, str]]:
    """All rows of all tables, each by the names of its columns. The column without a name is ''."""
    head: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
        if not line.startswith("|"):
            head = []
        elif not head:
            head = cells
        elif not set(line) <= set("|-: "):
            yield dict(zip(head, cells, strict=True))


def rate(cell: str) -> int:
    found = re.search(NUMBER, cell)
    assert found, cell
    return int(found[0].replace(",", ""))


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
    page, columns = ROWS[name]
    [shown] = [row for row in table_rows(README) if row[""] == name]
    rates = [rate(number) for number in re.findall(NUMBER, shown["LonnyMQ"] + " " + shown["others"])]
    measured = [
        [rate(row[column]) for column in columns] for row in table_rows(page) if row.keys() >= set(columns)
    ]
    assert rates in measured


def test_every_row_of_its_table_is_checked() -> None:
    assert [row[""] for row in table_rows(README) if "LonnyMQ" in row] == [*ROWS]


def test_it_says_in_how_many_rows_pgmq_is_faster() -> None:
    rows = [row for row in table_rows(ENGINE) if row.keys() >= {OURS, PGMQ}]
    pairs = [(OURS_HELD, PGMQ_HELD) if OURS_HELD in row else (OURS, PGMQ) for row in rows]
    faster = sum(rate(row[theirs]) > rate(row[ours]) for row, (ours, theirs) in zip(rows, pairs, strict=True))
    assert f"pgmq has the higher rate in {faster} of {len(rows)} rows" in " ".join(README.split())


def test_its_picture_shows_what_was_measured() -> None:
    picture = (CHECKOUT / "docs" / "images" / "fairness.svg").read_text(encoding="utf-8")
    waits = {row[""]: row for row in table_rows(ENGINE) if "longest" in row and "" in row}
    fifo, ours = waits["plain FIFO"]["median"], waits["lonnymq"]["median"]
    assert f"others wait for {ours} messages, not {fifo}" in picture
    assert f"(worst: {waits['lonnymq']['longest']})" in picture
    assert f"others wait for {ours} messages; in a plain FIFO queue, for {fifo}" in README
