"""The example notebook, run in a kernel of its own on an archive of a little traffic."""

from collections import deque
from pathlib import Path

import jupytext  # type: ignore[import-untyped]
import psycopg
import pytest
from nbclient import NotebookClient
from pyspark.sql import SparkSession

from lonnymq.spark.lake.archive import archive
from tests.examples.page import CHECKOUT
from tests.spark import quick_java
from tests.spark.traffic import settle

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
BEGAN_MS = 1_900_000_000_000
CONSUMERS = 4
WORK_MS = 100
INSERT = """INSERT INTO finished (id, created_at, dequeue_at, dequeued_at, finished_at, attempts,
    content_bytes, cost, priority, outcome, lane, channel, consumer)
    VALUES (%s, %s, %s, %s, %s, 1, 1, 1, 0, 'completed', 'default', %s, %s)"""


def served_in_turns() -> list[tuple[int, str, int, int]]:
    """One tenant sends 300 messages at once, and three others send 60 each. (id, channel, due, begin)"""
    backlogs = {"noisy": 300, "acme": 60, "globex": 60, "initech": 60}
    turns = deque(backlogs)
    served: list[tuple[int, str, int, int]] = []
    for number in range(sum(backlogs.values())):
        while not backlogs[turns[0]]:
            turns.popleft()
        channel = turns[0]
        turns.rotate(-1)
        backlogs[channel] -= 1
        served.append((number, channel, BEGAN_MS, BEGAN_MS + number // CONSUMERS * WORK_MS))
    return served


@pytest.fixture
def lake(spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], tmp_path: Path) -> str:
    conn.execute("SELECT queue_set(p_history => TRUE)")
    with conn.cursor() as cursor:
        cursor.executemany(
            INSERT,
            [
                (number, due, due, begin, begin + WORK_MS, channel, f"worker {number % CONSUMERS}")
                for number, channel, due, begin in served_in_turns()
            ],
        )
    settle(conn)
    archive(spark, str(tmp_path / "lake"), options)
    return str(tmp_path / "lake")


def test_fairness(lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONNYMQ_LAKE", lake)
    for name, value in quick_java.interpreted(tmp_path).items():
        monkeypatch.setenv(name, value)
    notebook = jupytext.read(CHECKOUT / "examples/notebooks/fairness.py")
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    # rich prints into a notebook as HTML with a text beside it
    shown = "".join(output.get("text", "") or output["data"].get("text/plain", "") for output in outputs)
    assert "noisy" in shown
    assert "two at a time" in shown
    plots = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(plots) == 2, "one of the shares, and one of the waits"
