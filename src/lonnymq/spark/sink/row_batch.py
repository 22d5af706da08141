"""A batch of rows on its way into the queue, and the error that names a refused row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from lonnymq.errors import InvalidArgument

SHOWN_MAX = 100
NOT_SHOWN = {"content", "headers"}
"""They may be long or secret."""


class RowRefused(InvalidArgument):
    """The queue would not accept a row. Nothing was published."""


class Rows:
    """`places` has the index of each column by the queue's name; `first` is the number of the first row.
    `positions`: the rows that are left of a batch, by their positions in it; all unless given.
    """

    def __init__(
        self,
        batch: pa.RecordBatch,
        places: Mapping[str, int],
        first: int,
        positions: Sequence[int] | None = None,
    ) -> None:
        self._batch = batch
        self._places = places
        self._first = first
        self._positions = range(len(batch)) if positions is None else positions

    def __len__(self) -> int:
        return len(self._batch)

    def required(self, name: str) -> pa.Array:
        return self._batch.column(self._places[name])

    def column(self, name: str) -> pa.Array | None:
        place = self._places.get(name)
        return None if place is None else self._batch.column(place)

    def refuse(self, are_bad: pa.Array, why: str | Callable[[int], str], hint: str | None = None) -> None:
        """Raise RowRefused for the first bad row, if there is one."""
        if pc.any(are_bad).as_py():
            at = pc.index(are_bad, value=True).as_py()
            self.refuse_row(at, why if isinstance(why, str) else why(at), hint)

    def refuse_row(self, at: int, why: str, hint: str | None = None) -> NoReturn:
        shown = [
            f"{name} {_shown(self._batch.column(place)[at])}"
            for name, place in self._places.items()
            if name not in NOT_SHOWN
        ]
        number = self._first + self._positions[at] + 1
        where = ", ".join([f"row {number} of its partition", *shown])
        raise RowRefused(f"{why}: {where}", hint)


def shortened(value: object) -> str:
    """
    >>> shortened("acme"), shortened(7)
    ("'acme'", '7')
    """
    shown = repr(value) if isinstance(value, str) else str(value)
    return shown if len(shown) <= SHOWN_MAX else f"{shown[:SHOWN_MAX]}..."


def _shown(value: pa.Scalar) -> str:
    if not value.is_valid:
        return "null"
    if pa.types.is_string(value.type) or pa.types.is_large_string(value.type):
        return shortened(value.as_buffer().to_pybytes().decode(errors="replace"))
    return shortened(value.as_py())
