"""docs/outgrowing.md calculates with numbers of docs/benchmarks.md. test_pages.py runs its code."""

from __future__ import annotations

import re

from tests.examples.page import CHECKOUT

PAGE = (CHECKOUT / "docs" / "outgrowing.md").read_text(encoding="utf-8")
BENCHMARKS = (CHECKOUT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def costs_of(rate: str) -> tuple[str, str]:
    """WAL bytes and microseconds of server CPU per message, in the row with this rate of LonnyMQ."""
    [row] = [line for line in BENCHMARKS.splitlines() if re.match(rf"\| [^|]*\| \**{rate} ", line)]
    *_, wal, cpu = row.strip("| ").split(" | ")
    return wal.split(" / ")[0], cpu.split(" / ")[0]


def test_its_numbers_were_measured() -> None:
    single_wal, single_cpu = costs_of("3,936")  # produce and consume, 1,000 channels, 50 per dequeue
    create_wal, create_cpu = costs_of("317,382")  # create, 1,000 channels, 100 per call
    drain_wal, drain_cpu = costs_of("21,217")  # drain, 1,000 channels, 50 per dequeue
    for text in (
        f"{single_cpu} µs of server CPU per message",
        f"{create_cpu} µs to create (100 per call) + {drain_cpu} µs to serve",
        f"{single_wal} bytes per message with single creates",
        f"{create_wal} + {drain_wal} in batches",
    ):
        assert text in PAGE


def test_its_sums_are_right() -> None:
    assert round(1_000_000 / 430, -2) == 2_300
    assert round(1_000_000 / (5 + 62), -3) == 15_000
    assert round(20_000_000 / (4 * 3600), -2) == 1_400
    assert round(1_400 * 430e-6, 1) == 0.6
    assert round(20 * 1_400 * 430e-6) == 12
    assert round(10_000 * 1_074 * 86_400 / 1e9, -2) == 900
