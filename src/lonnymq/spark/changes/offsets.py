"""Positions in history or dead letters, as Spark keeps them in checkpoints and people write them in options.

A position is JSON: `{"snapshot": "731:735:731,733", "system": 7461018473529023142, "mark":
5130864592137654817}`. All rows that the snapshot sees have been read. The snapshot is written as
`pg_current_snapshot()` writes it; `"x:x:"` sees every transaction below x. `system` is the cluster's
`system_identifier`: transaction ids of another cluster mean something else. `history_bounds()` returns both.
`mark` comes from `history_mark(snapshot)` and may be left out; it detects a database that was restored to an
earlier time. With `since`, in Unix milliseconds, a stream that began at `startingTimestamp` goes on to leave
older rows out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self

from lonnymq.errors import InvalidArgument, PositionUnknown
from lonnymq.spark.changes.snapshots import Snapshot
from lonnymq.spark.source_options import InvalidOption

ROWS_BEHIND = "rows_behind"
"""In the latest offset that a stream reports: how many rows it has not read. Ignored in a position."""
NUMBERS = {"mark", "since", ROWS_BEHIND}
EXAMPLE = 'a position looks like {"snapshot": "731:735:731,733", "system": 7461018473529023142}'


@dataclass(frozen=True, slots=True)
class Offset:
    snapshot: Snapshot
    system: int
    mark: int | None = None
    """A fingerprint of the rows that the snapshot sees. None: it is not compared."""
    since: int | None = None
    """Rows from before this time are not read."""

    @classmethod
    def of(cls, kept: object) -> Self:
        """From the JSON value in a checkpoint."""
        match kept:
            case {"snapshot": str(text), "system": int(system), **more} if more.keys() <= NUMBERS:
                numbers = {name: value for name, value in more.items() if isinstance(value, int)}
                if numbers == more:
                    return cls(Snapshot.parse(text), system, numbers.get("mark"), numbers.get("since"))
        raise PositionUnknown(f"{str(kept)[:200]!r} is not a position of this source", EXAMPLE)

    @classmethod
    def parse(cls, option: str, text: str) -> Self:
        """From the text of an option."""
        try:
            return cls.of(json.loads(text))
        except (ValueError, RecursionError, PositionUnknown, InvalidArgument) as error:
            raise InvalidOption(f"{option} is not a position: {error}", EXAMPLE) from None

    def as_json(self) -> dict[str, Any]:
        """The value that `of` reads."""
        value: dict[str, Any] = {"snapshot": str(self.snapshot), "system": self.system}
        more = {"mark": self.mark, "since": self.since}
        return value | {name: number for name, number in more.items() if number is not None}
