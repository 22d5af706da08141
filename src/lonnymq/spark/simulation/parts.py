"""Parts of a simulation: a scenario, and windows that follow each other. Runs on executors, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lonnymq.simulation.outcome import RECORDED
from lonnymq.simulation.runs import Run
from lonnymq.simulation.scenario import ACTUAL
from lonnymq.simulation.waits import NEVER, bin_of
from lonnymq.spark.simulation.windows import Windows

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

HISTOGRAMS = (
    "name string, channel string, is_held_out boolean, bin int, n bigint, scenario int, first int, last int"
)


class Part(NamedTuple):
    """Some windows that follow each other, in a scenario."""

    scenario: int
    first: int
    last: int

    @property
    def windows(self) -> range:
        return range(self.first, self.last + 1)


Tile = tuple[int, int]


def merge(scenario: int, tiles: list[Tile], late: Container[Part]) -> list[Part]:
    """Join each late part with as many windows after it. Changes `tiles`, and returns the new ones."""
    kept: list[Tile] = []
    made = []
    place = 0
    while place < len(tiles):
        first, last = tiles[place]
        if Part(scenario, first, last) in late and place + 1 < len(tiles):
            wanted = last + (last - first + 1)
            while place + 1 < len(tiles) and (
                tiles[place][1] < wanted or Part(scenario, *tiles[place]) in late
            ):
                place += 1
            made.append(Part(scenario, first, tiles[place][1]))
        kept.append((first, tiles[place][1]))
        place += 1
    tiles[:] = kept
    return made


def runs_in(part: pd.DataFrame) -> list[Run]:
    columns = [part[name].tolist() for name in Run._fields]
    return list(map(Run._make, zip(*columns, strict=True)))


def histogram_rows(
    runs: Sequence[Run], began: Sequence[int | None], name: str, part: tuple[int, int, int], windows: Windows
) -> pd.DataFrame:
    import pandas as pd

    counts: Counter[tuple[str, str, bool, int]] = Counter()
    end_us = 1000 * windows.end(part[2])
    is_late = False
    for run, at in zip(runs, began, strict=True):
        is_late = is_late or (at is not None and at > end_us and not run.is_running)
        if not run.is_counted or run.is_running:
            continue
        is_held_out = windows.is_held_out(run.due_at)
        wait = NEVER if at is None else bin_of(at / 1000 - run.due_at)
        counts[name, run.channel, is_held_out, wait] += 1
        if name == ACTUAL:
            counts[RECORDED, run.channel, is_held_out, bin_of(run.wait_ms)] += 1
    rows = [(*key, n, *part) for key, n in counts.items()]
    rows.append((None, None, None, int(is_late), 0, *part))  # type: ignore[arg-type]
    return pd.DataFrame(
        rows, columns=["name", "channel", "is_held_out", "bin", "n", "scenario", "first", "last"]
    )
