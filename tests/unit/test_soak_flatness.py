"""The verdict of a soak, in both directions."""

import random
from pathlib import Path

import pytest

from benchmarks.soak.flatness import is_judged, trend, unit_of
from benchmarks.soak.soak_report import write

MINUTES = [10.0 * number for number in range(180)]


def noisy(level: float, growth: float = 0.0, *, start: float = 0.0) -> list[float]:
    """Around a level, with outliers; it grows by this share of the level from the start to the end."""
    chance = random.Random(3)
    values = []
    for at in MINUTES:
        share = (at - start) / (MINUTES[-1] - start) if at > start else 0.0
        value = level * (1 + growth * share) * chance.uniform(0.9, 1.1)
        values.append(value * (8 if chance.random() < 0.03 else 1))
    return values


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("table message, MB", noisy(40)),
        ("dequeue, p99 ms", noisy(6)),
        ("buffers per dequeue", noisy(60)),
        ("worker 1, MB", [min(at, 100.0) for at in MINUTES]),  # it grows during the warm-up only
        ("dead rows of lease", [at * 37 % 900 * 20 for at in MINUTES]),  # a saw, as VACUUM leaves it
        ("table message, MB", noisy(0.5, growth=2)),  # by less than what matters
        ("worker 1, MB", noisy(100, growth=-0.9)),
        ("backlog", [0.0] * len(MINUTES)),
    ],
)
def test_flat(name: str, values: list[float]) -> None:
    judged = trend(name, MINUTES, values)
    assert judged is not None
    assert judged.is_flat, judged


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("table message, MB", noisy(40, growth=1)),
        ("dequeue, p99 ms", noisy(6, growth=2)),
        ("buffers per dequeue", noisy(60, growth=1)),
        ("worker 1, MB", noisy(80, growth=0.9, start=600)),  # it starts to leak after the warm-up
        ("dead rows of lease", [at * 30 for at in MINUTES]),
        ("backlog", [at * 20 for at in MINUTES]),
    ],
)
def test_grows(name: str, values: list[float]) -> None:
    judged = trend(name, MINUTES, values)
    assert judged is not None
    assert not judged.is_flat, judged


def test_few_samples_say_nothing() -> None:
    assert trend("backlog", [], []) is None
    assert trend("backlog", [0.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0]) is None


def test_units() -> None:
    names = ["buffers per dequeue", "dead rows of lease", "backlog", "table x, MB", "complete, p50 ms"]
    assert [unit_of(name) for name in names] == ["buffers", "rows", "rows", "MB", "ms"]
    assert unit_of("history per message, bytes") == "bytes"


def test_the_history_is_kept_so_its_size_is_not_judged() -> None:
    assert not is_judged("history of finished, MB")
    assert is_judged("history per message, bytes")


def test_the_report_names_what_grows(tmp_path: Path) -> None:
    series = {"table message, MB": noisy(40, growth=1), "worker 1, MB": noisy(80)}
    times = dict.fromkeys(series, MINUTES)
    trends = {name: judged for name, values in series.items() if (judged := trend(name, MINUTES, values))}
    write(tmp_path / "soak.html", tmp_path / "soak.svg", times, series, trends)
    page = (tmp_path / "soak.html").read_text()
    assert "<h1>1 of 2 series are flat after the warm-up</h1>" in page
    assert "<tr class=grows><td>table message, MB</td>" in page
    assert "<tr><td>worker 1, MB</td>" in page
    assert "<svg" in page
    assert (tmp_path / "soak.svg").exists()
