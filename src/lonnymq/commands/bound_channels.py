"""The channels that the login is bound to; None: it is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lonnymq.statement import Command, Row


@dataclass(frozen=True)
class BoundChannels(Command[list[str] | None]):
    function = "bound_channels"
    is_harmless = True

    def decode(self, rows: Sequence[Row]) -> list[str] | None:
        return None if rows[0][0] is None else list(rows[0][0])
