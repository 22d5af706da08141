"""The demo shows what it says: everyone served, the small tenants first, limits kept, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lonnymq.demo import TENANTS, Outcome, Served, Tenant, run
from lonnymq.demo.outcome import outcome
from lonnymq.demo.service import Record

COMMAND = [sys.executable, "-m", "lonnymq", "demo"]


@pytest.fixture
def own_tmp() -> Iterator[dict[str, str]]:
    """An environment whose temporary folder is the test's own.

    Not pytest's own: under root, the account that a server runs as cannot reach that one.
    """
    with tempfile.TemporaryDirectory(prefix="lonnymq-e2e-") as folder:
        Path(folder).chmod(0o755)
        yield os.environ | {"TMPDIR": folder, "NO_COLOR": "1"}


def test_the_command_shows_it_without_a_terminal(own_tmp: dict[str, str]) -> None:
    done = subprocess.run(
        [*COMMAND, "--no-spark"],
        env=own_tmp,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {tenant.channel for tenant in TENANTS} <= {
        line.split()[0] for line in done.stdout.splitlines() if line.split()
    }
    assert "390 messages" in done.stdout
    assert list(Path(own_tmp["TMPDIR"]).iterdir()) == []


def test_its_numbers_and_its_end_on_spark(own_tmp: dict[str, str]) -> None:
    done = subprocess.run([*COMMAND, "--json"], env=own_tmp, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    judge(Outcome(tuple(Served(**tenant) for tenant in shown["tenants"]), shown["seconds"]))
    assert DeltaTable(f"{shown['lake']}/history").to_pyarrow_table().num_rows == 390
    page = Path(shown["report"]).read_text(encoding="utf-8")
    assert all(tenant.channel in page for tenant in TENANTS)
    assert [path.name for path in Path(own_tmp["TMPDIR"]).iterdir()] == [Path(shown["report"]).parent.name]


def test_it_runs_on_any_database(dsn: str) -> None:
    judge(run(dsn))


def judge(shown: Outcome) -> None:
    acme, bluebird, corner_shop = shown.tenants
    assert (acme.completed, acme.dead) == (300, 0)
    assert (bluebird.completed, bluebird.dead) == (59, 1)
    assert (corner_shop.completed, corner_shop.dead) == (30, 0)
    assert [tenant.fifo_position for tenant in shown.tenants] == [300, 360, 390]
    assert acme.last_position == 390
    assert bluebird.last_position < 200
    assert corner_shop.last_position < 300
    assert corner_shop.most_held == corner_shop.max_concurrency == 1
    assert acme.most_held > 1


def test_the_outcome_is_counted_from_the_order_of_service() -> None:
    record = Record(total=4, order=["loud", "quiet", "loud", "loud"])
    record.dead["quiet"] = 1
    loud, quiet = outcome([Tenant("loud", 3), Tenant("quiet", 1)], record, 1.0).tenants
    assert (loud.completed, loud.last_position, loud.fifo_position) == (3, 4, 3)
    assert (quiet.completed, quiet.dead, quiet.last_position, quiet.fifo_position) == (0, 1, 2, 4)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_when_it_is_told_to_end(own_tmp: dict[str, str], number: signal.Signals) -> None:
    folder = Path(own_tmp["TMPDIR"])
    with subprocess.Popen(COMMAND, env=own_tmp, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as demo:
        while not list(folder.glob("lonnymq-demo-*/**/postmaster.pid")):
            assert demo.poll() is None
            time.sleep(0.05)
        demo.send_signal(number)
        assert demo.wait(30) == 128 + number
    assert list(folder.iterdir()) == []
