"""A soak of seconds. It is too short for a verdict, which tests/unit/test_soak_flatness.py checks."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from benchmarks.soak.__main__ import parse
from benchmarks.soak.soak_samples import oldest_snapshot
from dev.environment import CHECKOUT
from tests.database import Connect

VERDICTS = {0, 1}


def test_the_commands_of_its_page_are_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (CHECKOUT / "docs" / "soak.md").read_text(encoding="utf-8")
    found = re.findall(r"^\./run soak(.*)$", page, re.MULTILINE)
    assert [parse(shlex.split(arguments)).minutes for arguments in found] == [30, 60]


def test_the_age_of_the_oldest_snapshot(conn: psycopg.Connection, connect: Connect) -> None:
    """Other tests may hold older ones on the same server."""
    holder = connect()
    holder.autocommit = False
    holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    [(begun,)] = holder.execute("SELECT now()").fetchall()
    [(least,)] = conn.execute("SELECT EXTRACT(EPOCH FROM clock_timestamp() - %s)", (begun,)).fetchall()
    assert oldest_snapshot(conn) >= least > 0
    holder.rollback()


@pytest.mark.slow
def test_a_short_soak_samples_everything(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.soak", "--minutes", "0.2", "--every", "1.5"]
    command += ["--json", str(tmp_path / "soak.json"), "--report", str(tmp_path / "soak.html")]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode in VERDICTS, done.stderr
    assert "Flaky" not in done.stderr, "the failures of tasks are intended, and not shown"
    found = json.loads((tmp_path / "soak.json").read_text())
    series = {name: each["values"] for name, each in found["series"].items()}
    for name in (
        "table message, MB",
        "indexes of message, MB",
        "dead rows of message",
        "buffers per create",
        "buffers per dequeue",
        "buffers per complete",
        "buffers per dispatch",
        "create, p99 ms",
        "dequeue, p50 ms",
        "complete, p99 ms",
        "worker 1, MB",
        "worker 2, MB",
        "largest backend, MB",
    ):
        assert name in series, f"{name} is not in {sorted(series)}"
        assert name.startswith("dead rows") or max(series[name]) > 0, name
    assert "oldest snapshot, s" in series
    assert max(series["history per message, bytes"]) > 0, "no message was finished"
    assert found["trends"].keys() >= {"worker 1, MB", "buffers per dequeue"}
    assert "<svg" in (tmp_path / "soak.html").read_text()
