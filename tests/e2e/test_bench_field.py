"""The scenarios of the field run with libraries that the checkout has. Their results are not checked here."""

import sys
from pathlib import Path

import pytest

from benchmarks.bench_server import bench_server
from benchmarks.field.field_scenarios import Sizes, all_scenarios
from benchmarks.field.stage import Stage

SIZES = Sizes(seconds=1, held_seconds=3, backlog=400)
SCENARIOS = {scenario.name: scenario for scenario in all_scenarios()}


def long(*values: str) -> object:
    return pytest.param(*values, marks=pytest.mark.long)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "scenarios"),
    [
        ("lonnymq", "consume-many"),
        long("lonnymq", "enqueue-1 enqueue-1000 lone noisy limit killed snapshot"),
        long("pgmq", "consume-many noisy limit killed"),
        long("pgqueuer", "consume-many limit killed"),
        long("procrastinate", "consume-many limit killed"),
    ],
)
def test_scenarios(library: str, scenarios: str) -> None:
    with bench_server() as server:
        stage = Stage({"postgresql": server}, {library: Path(sys.executable)})
        for name in scenarios.split():
            scenario = SCENARIOS[name]
            values = scenario.run(stage, scenario.variant.get(library, library), SIZES)
            assert values, name
            if "rate" in values:
                assert values["rate"] > 0, values
            if name == "limit":
                assert values["at_once"] == 1, values
            if name == "killed":
                assert values["lost"] == 0, values
