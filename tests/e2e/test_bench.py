"""The benchmarks run with every peer. Their results are not checked here."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.__main__ import main
from dev.environment import CHECKOUT


def long(*values: object) -> Any:
    return pytest.param(*values, marks=pytest.mark.long)


def bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=200)


Bench = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bench_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Bench:
    """In this process, for what starts no server. Returns the exit code and the output."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["bench", *arguments])
        monkeypatch.chdir(CHECKOUT)
        try:
            code = main()
        except SystemExit as end:
            code = int(str(end.code))
        return (code, *capsys.readouterr())

    return call


@pytest.mark.slow
@pytest.mark.parametrize(
    ("only", "peers"),
    [
        long("create, 1 channel, 1 per call", {"lonnymq", "pgmq", "prototype"}),
        ("create, 1 channel, 100 per call", {"lonnymq", "pgmq"}),
        long("steady, 10 channels, 1 per dequeue, async", {"lonnymq", "pgmq", "prototype"}),
        long("steady, 1,000 channels, 50 per dequeue, durable", {"lonnymq", "pgmq"}),
        long("limits, 1,000 channels, 50 per dequeue", {"lonnymq", "with limits"}),
    ],
)
def test_scenarios_of_the_engine(only: str, peers: set[str]) -> None:
    done = bench("engine", "--only", only, "--rounds", "1", "--seconds", "1", "--json")
    assert done.returncode == 0, done.stderr
    [result] = json.loads(done.stdout)
    assert result["samples"].keys() == peers
    for [sample] in result["samples"].values():
        assert all(value > 0 for value in sample.values()), sample


@pytest.mark.slow
def test_loads_through_the_client() -> None:
    done = bench("client", "--messages", "2000", "--rounds", "1", "--json")
    assert done.returncode == 0, done.stderr
    rates = json.loads(done.stdout)
    assert len(rates) == 5
    assert all(rate > 0 for (rate,) in rates.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    "only",
    [
        long("drain, async tasks, many at a time, 2 processes"),
        long("drain, sync tasks, one at a time, 1 process"),
        long("enqueue, 1,000 per call"),
    ],
)
def test_workers(only: str) -> None:
    done = bench("worker", "--only", only, "--tasks", "50", "--rounds", "1", "--json")
    assert done.returncode == 0, done.stderr
    [result] = json.loads(done.stdout)
    assert result["samples"].keys() == {"lonnymq", "pgqueuer", "procrastinate"}
    for [sample] in result["samples"].values():
        assert sample["rate"] > 0
        assert sample["wal_bytes"] > 0


@pytest.mark.long
def test_lone_tasks() -> None:
    done = bench("worker", "--only", "latency, a lone task, 2", "--lone", "5", "--rounds", "1", "--json")
    assert done.returncode == 0, done.stderr
    [result] = json.loads(done.stdout)
    assert result["milliseconds"].keys() == {"lonnymq", "pgqueuer", "procrastinate"}
    for times in result["milliseconds"].values():
        assert len(times["since_returned"]) == len(times["since_called"]) == 5
        assert min(times["since_called"]) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("only", "says"),
    [
        ("latency, a lone task, 2", "lonnymq"),
        long("drain, async tasks, many at a time, 1 process", "lonnymq, durable dequeue"),
    ],
)
def test_a_quick_run_of_the_worker(only: str, says: str) -> None:
    queues = ("--queues", "lonnymq", "--tasks", "50", "--lone", "2", "--rounds", "1")
    done = bench("worker", "--only", only, *queues)
    assert done.returncode == 0, done.stderr
    assert says in done.stderr
    assert "lonnymq" in done.stdout


def test_list_names_the_scenarios(bench_here: Bench) -> None:
    assert bench_here("engine", "--list", "--only", "drain, 10 channels")[1].splitlines() == [
        "drain, 10 channels, 50 per dequeue, durable dequeue",
        "drain, 10 channels, 1000 per dequeue, durable dequeue",
        "drain, 10 channels, 50 per dequeue, async dequeue",
        "drain, 10 channels, 1000 per dequeue, async dequeue",
        "drain, 10 channels, 50 per dequeue, durable dequeue, 1 KiB",
        "drain, 10 channels, 50 per dequeue, durable dequeue, 8 KiB",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "nothing like it"], "see --list"),
        (["--peers", "pgmq,kafka"], "unknown peer 'kafka'"),
        (["--rounds", "0"], "0 is less than 1"),
        (["--write", "--only", "held"], "--write needs all results"),
        (["--before", "tests"], "tests is not a checkout of LonnyMQ"),
    ],
)
def test_invalid_arguments_of_the_engine_benchmark(
    bench_here: Bench, arguments: list[str], message: str
) -> None:
    code, _, stderr = bench_here("engine", *arguments)
    assert code == 2
    assert message in stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "nothing like it"], "see --list"),
        (["--queues", "lonnymq,celery"], "unknown task queue 'celery'"),
        (["--tasks", "0"], "--tasks and --rounds must be at least 1"),
        (["--lone", "1"], "--lone at least 2"),
        (["--write", "--queues", "lonnymq"], "--write needs all results"),
    ],
)
def test_invalid_arguments_of_the_worker_benchmark(
    bench_here: Bench, arguments: list[str], message: str
) -> None:
    code, _, stderr = bench_here("worker", *arguments)
    assert code == 2
    assert message in stderr
