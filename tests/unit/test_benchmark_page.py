"""The page on benchmarks is written from whatever was measured."""

import random
from pathlib import Path

from benchmarks import skew
from benchmarks.__main__ import chosen
from benchmarks.engine import Result
from benchmarks.fairness import Fairness
from benchmarks.measure import Sample
from benchmarks.page import write
from benchmarks.scenarios import all_scenarios


def test_it_has_all_of_it(tmp_path: Path) -> None:
    chance = random.Random(7)
    peers = chosen("pgmq,seeds", None)
    results = [
        Result(
            scenario,
            {
                peer.name: [Sample(chance.uniform(900, 1100), 500, 300) for _ in range(2)]
                for peer in peers
                if scenario.suits(peer)
            },
        )
        for scenario in all_scenarios()
    ]
    flooded = next(skew.all_scenarios())
    skewed = [skew.Row(flooded, "FIFO", skew.play(flooded, skew.Fifo()))]
    fair = Fairness({"plain FIFO": [300_000], "seeds": [2], "lonnymq": [10, 24]}, {"lonnymq": 0.999}, skewed)
    versions = {"postgresql": "PostgreSQL 18", "pgmq": "(package 1)"}
    write(tmp_path, results, fair, {"lonnymq, notified": [2.0, 3.0]}, rounds=2, versions=versions)
    page = (tmp_path / "benchmarks.md").read_text()
    for part in (
        "| a held snapshot keeps 95 % of the rate |",
        "| 2.5 x pgmq under a held snapshot |",
        "| limits that do not bind cost at most 10 % |",
        "| 1.3 x pgmq, draining a backlog | drain: 1 channel,",
        "of 14 |",
        "8 KiB",
        "| one flooder | FIFO |",
        "Jain",
        "p99",
        "![Messages a second",
    ):
        assert part in page, part
    assert {path.name for path in (tmp_path / "images").iterdir()} == {"ratios.svg", "fairness.svg"}
