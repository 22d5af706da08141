"""The result of a simulation, and ways to show and export it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lonnymq.simulation.outcome import SimulationData
from lonnymq.spark.reports.json_text import json_text

if TYPE_CHECKING:
    from rich.console import Console


class Simulation(SimulationData):
    """The waits of each tenant, recorded and simulated, with the errors of the simulation."""

    def print(self, console: Console | None = None) -> None:
        """Print the largest tenants as a table in the terminal."""
        from lonnymq.spark.simulation.terminal import show

        show(self, console)

    def to_html(self) -> str:
        """One HTML page that loads nothing else."""
        from lonnymq.spark.simulation.page import page

        return page(self)

    def write_html(self, path: str | Path) -> None:
        Path(path).write_text(self.to_html(), encoding="utf-8")

    def to_json(self) -> str:
        """All numbers; times are in ISO 8601. A wait of null means that messages were not served at all."""
        return json_text(self)
