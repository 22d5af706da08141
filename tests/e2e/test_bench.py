"""The benchmarks run with every peer. Their results are for docs/benchmarks.md and are not checked here."""

import json
import subprocess
import sys

import pytest

from dev.environment import CHECKOUT


def bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=200)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("only", "peers"),
    [
        ("create, 1 channel, 1 a call", {"lonnymq", "pgmq", "seeds"}),
        ("create, 1 channel, 100 a call", {"lonnymq", "pgmq"}),
        ("steady, 10 channels, 1 a dequeue, async", {"lonnymq", "pgmq", "seeds"}),
        ("steady, 1,000 channels, 50 a dequeue, durable", {"lonnymq", "pgmq"}),
        ("limits, 1,000 channels, 50 a dequeue", {"lonnymq", "with limits"}),
    ],
)
def test_a_scenario(only: str, peers: set[str]) -> None:
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
        "drain, async tasks, many at a time, 2 processes",
        "drain, sync tasks, one at a time, 1 process",
        "enqueue, 1,000 a call",
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


@pytest.mark.slow
def test_lone_tasks() -> None:
    done = bench("worker", "--only", "latency, a lone task, 2", "--lone", "5", "--rounds", "1", "--json")
    assert done.returncode == 0, done.stderr
    [result] = json.loads(done.stdout)
    assert result["milliseconds"].keys() == {"lonnymq", "pgqueuer", "procrastinate"}
    for times in result["milliseconds"].values():
        assert len(times["since_returned"]) == len(times["since_called"]) == 5
        assert min(times["since_called"]) > 0


@pytest.mark.slow
def test_a_quick_run_of_the_worker() -> None:
    only = "drain, async tasks, many at a time, 1 process"
    done = bench("worker", "--only", only, "--queues", "lonnymq", "--tasks", "50", "--rounds", "1")
    assert done.returncode == 0, done.stderr
    assert "lonnymq, durable dequeue" in done.stderr


def test_scenarios_are_named() -> None:
    done = bench("engine", "--list", "--only", "drain, 10 channels")
    assert done.stdout.splitlines() == [
        "drain, 10 channels, 50 a dequeue, durable dequeue",
        "drain, 10 channels, 1000 a dequeue, durable dequeue",
        "drain, 10 channels, 50 a dequeue, async dequeue",
        "drain, 10 channels, 1000 a dequeue, async dequeue",
        "drain, 10 channels, 50 a dequeue, durable dequeue, 1 KiB",
        "drain, 10 channels, 50 a dequeue, durable dequeue, 8 KiB",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "nothing like it"], "--list names them"),
        (["--peers", "pgmq,kafka"], "there is no peer 'kafka'"),
        (["--rounds", "0"], "0 is not 1 or more"),
        (["--write", "--only", "held"], "--write makes the whole page"),
        (["--before", "tests"], "tests is no checkout of LonnyMQ"),
    ],
)
def test_what_it_does_not_take(arguments: list[str], said: str) -> None:
    done = bench("engine", *arguments)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "nothing like it"], "--list names them"),
        (["--queues", "lonnymq,celery"], "there is no task queue 'celery'"),
        (["--tasks", "0"], "--tasks and --rounds take 1 or more"),
        (["--lone", "1"], "--lone 2 or more"),
        (["--write", "--queues", "lonnymq"], "--write makes the whole page"),
    ],
)
def test_what_the_worker_benchmark_does_not_take(arguments: list[str], said: str) -> None:
    done = bench("worker", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
