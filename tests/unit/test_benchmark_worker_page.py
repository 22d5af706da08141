"""docs/benchmarks-worker.md is written from the results."""

import random
from pathlib import Path

from benchmarks.bench_worker import Latency
from benchmarks.engine import Result
from benchmarks.measure import Sample
from benchmarks.worker_page import write
from benchmarks.worker_scenarios import Drain, Load, Lone, WorkerSample, all_scenarios


def test_the_page_has_all_parts(tmp_path: Path) -> None:
    chance = random.Random(7)
    results, latencies = [], []
    for scenario in all_scenarios():
        if isinstance(scenario, Lone):
            latency = Latency(scenario)
            for queue in scenario.queues:
                latency.add(queue, {"since_returned": [1.0, 2.0], "since_called": [2.0, 3.0]})
            latencies.append(latency)
        else:
            result = Result(scenario)
            for queue in scenario.queues:
                rate = 2000 if queue == "lonnymq" else 1000
                measured = (chance.uniform(0.9, 1.1) * rate, 500, 300)
                sample = WorkerSample(*measured, 20) if isinstance(scenario, Drain) else Sample(*measured)
                result.samples[queue] = [sample, sample]
            results.append(result)
    write(tmp_path, results, latencies, Load(100, 5), rounds=2, postgresql="PostgreSQL 18")
    page = (tmp_path / "benchmarks-worker.md").read_text()
    for part in (
        "| async tasks, one at a time, 1 process | **",
        "| 1,000 per call, one call after another | **",
        "pgqueuer, balanced, tasks/s",
        "lonnymq, kept results, tasks/s",
        "| a lone task, 2 processes | procrastinate | 1.5 | 2.0 |",
        "x procrastinate, faster in 4 of 4 |",
        "worker CPU µs per task",
    ):
        assert part in page, part
    assert [path.name for path in (tmp_path / "images").iterdir()] == ["worker.svg"]
