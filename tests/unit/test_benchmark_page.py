"""docs/benchmarks.md is written from the results."""

import random
from pathlib import Path

from benchmarks import bench_skew
from benchmarks.__main__ import select_peers
from benchmarks.engine import Result
from benchmarks.engine_page import write
from benchmarks.fairness import Fairness
from benchmarks.measure import Sample
from benchmarks.scenarios import all_scenarios


def test_the_page_has_all_parts(tmp_path: Path) -> None:
    chance = random.Random(7)
    peers = select_peers("pgmq,prototype", None)
    results = [
        Result(
            scenario,
            {
                peer.name: [Sample(chance.uniform(900, 1100), 500, 300) for _ in range(2)]
                for peer in peers
                if scenario.applies_to(peer)
            },
        )
        for scenario in all_scenarios()
    ]
    flooded = next(bench_skew.all_scenarios())
    skewed = [bench_skew.Row(flooded, "FIFO", bench_skew.play(flooded, bench_skew.Fifo()))]
    fair = Fairness(
        {"plain FIFO": [300_000], "prototype": [2], "lonnymq": [10, 24]}, {"lonnymq": 0.999}, skewed
    )
    versions = {"postgresql": "PostgreSQL 18", "pgmq": "(package 1)"}
    write(tmp_path, results, fair, {"lonnymq, notified": [2.0, 3.0]}, rounds=2, versions=versions)
    page = (tmp_path / "benchmarks.md").read_text()
    for part in (
        "| a held snapshot keeps 95 % of the rate |",
        "| 2.5 x pgmq under a held snapshot |",
        "| limits that are never reached cost at most 10 % |",
        "| 1.3 x pgmq, draining a backlog | drain: 1 channel,",
        "of 14 |",
        "8 KiB",
        "| one flooder | FIFO |",
        "Jain",
        "p99",
        "![Messages per second",
    ):
        assert part in page, part
    assert {path.name for path in (tmp_path / "images").iterdir()} == {"ratios.svg", "fairness.svg"}
