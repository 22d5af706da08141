"""The table of failures in the guide has every fault, and names a test for every result."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
GUIDE = HERE.parents[1] / "docs" / "spark.md"
SECTION = "Failures"
FAULTS = [
    "executor killed after staging",
    "Python worker killed",
    "speculative duplicate",
    "driver killed before the offset log",
    "driver killed after the sink's commit",
    "driver killed between PostgreSQL's commit and Spark's",
    "`commit()` fails after it committed",
    "lease stolen in mid-batch",
    "leases run out while the driver is down",
    "driver and workers stopped longer than their leases, and continued",
    "a message that makes its batch fail",
    "two drivers",
    "checkpoint deleted",
    "database restarted",
    "database goes back to an earlier time, by a standby that lagged, a backup or a copy",
    "failover that lost nothing, or a restart",
    "folder that driver and executors do not share",
    "disk full",
    "folder that is read-only",
    "table restored to an older version (Delta) or rolled back (Iceberg), before and after `optimize`",
    "lake moved",
    "lake copied",
    "partition of the history dropped by hand after the read was planned",
    "columns added by a newer version",
]
NAMED = re.compile(r"`(test_\w+\.py)::([\w:]+)`")


def rows() -> list[list[str]]:
    """Fault, path, result and tests; only the first of several rows names the fault."""
    text = GUIDE.read_text(encoding="utf-8")
    section = text.partition(f"\n## {SECTION}\n")[2].partition("\n## ")[0]
    table = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in table[2:]]


def names_in(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        owner = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        for test in inner:
            if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                yield f"{owner}{test.name}"


def test_it_has_every_fault() -> None:
    assert [row[0] for row in rows() if row[0]] == FAULTS


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row[0]} {row[1]}".strip())
def test_every_row_names_existing_tests(row: list[str]) -> None:
    _, path, result, tests = row
    assert path
    assert result
    named = NAMED.findall(tests)
    assert named, "the row names no test"
    assert tests == ", ".join(f"`{file}::{test}`" for file, test in named)
    for file, test in named:
        assert test in set(names_in(HERE / file)), f"{file} has no {test}"
