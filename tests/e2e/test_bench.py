"""The benchmarks run, on every peer; what they measure is for docs/benchmarks.md, not for here."""

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
        ("create, 10 channels, 100 a call", {"lonnymq", "pgmq"}),
        ("steady, 10 channels, 1 a dequeue, async", {"lonnymq", "pgmq", "seeds"}),
        ("steady, 10 channels, 50 a dequeue, durable", {"lonnymq", "pgmq"}),
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


def test_scenarios_are_named() -> None:
    done = bench("engine", "--list", "--only", "drain, 10 channels")
    assert done.stdout.splitlines() == [
        "drain, 10 channels, 50 a dequeue, durable dequeue",
        "drain, 10 channels, 1000 a dequeue, durable dequeue",
        "drain, 10 channels, 50 a dequeue, async dequeue",
        "drain, 10 channels, 1000 a dequeue, async dequeue",
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
