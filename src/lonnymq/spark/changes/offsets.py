"""Positions in what is followed, as Spark keeps them in its checkpoints and people write them in options.

As JSON: `{"snapshot": "731:735:731,733", "system": 7461018473529023142, "mark": 5130864592137654817}`. What
the snapshot sees has been read; it is written as `pg_current_snapshot()` does, and `"x:x:"` sees every
transaction below x. `system` is the cluster's `system_identifier`: transactions of another mean nothing here.
`history_bounds()` tells both. `mark`, which `history_mark(snapshot)` tells, may be left out: it is how a
database that was set back is found out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self

from lonnymq.errors import InvalidArgument, PositionUnknown
from lonnymq.spark.changes.snapshots import Snapshot
from lonnymq.spark.source_options import InvalidOption

LOOKS_LIKE = 'it looks like {"snapshot": "731:735:731,733", "system": 7461018473529023142}'


@dataclass(frozen=True, slots=True)
class Offset:
    snapshot: Snapshot
    system: int
    mark: int | None = None
    """Tells the past that was read from any other. None: it is not compared."""

    @classmethod
    def of(cls, kept: object) -> Self:
        """From what a checkpoint has."""
        match kept:
            case {"snapshot": str(text), "system": int(system), "mark": int(mark), **more} if not more:
                return cls(Snapshot.parse(text), system, mark)
            case {"snapshot": str(text), "system": int(system), **more} if not more:
                return cls(Snapshot.parse(text), system)
        raise PositionUnknown(f"{str(kept)[:200]!r} is no position of this source", LOOKS_LIKE)

    @classmethod
    def parse(cls, option: str, text: str) -> Self:
        """From what an option has."""
        try:
            return cls.of(json.loads(text))
        except (ValueError, PositionUnknown, InvalidArgument) as error:
            raise InvalidOption(f"{option} is no position: {error}", LOOKS_LIKE) from None

    def kept(self) -> dict[str, Any]:
        kept = {"snapshot": str(self.snapshot), "system": self.system}
        return kept if self.mark is None else kept | {"mark": self.mark}
