"""The data of charts, as static/charts.js draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """`colour` is the name of a colour in the style sheet, c0 to c8."""

    label: str
    values: Sequence[float | None]
    colour: str


def chart(at: Sequence[int], *lines: Line, unit: str = "") -> dict[str, object]:
    """`at` are Unix milliseconds."""
    return {
        "x": [moment / 1000 for moment in at],
        "lines": [
            {"label": line.label, "values": [_rounded(one) for one in line.values], "colour": line.colour}
            for line in lines
        ],
        "unit": unit,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
