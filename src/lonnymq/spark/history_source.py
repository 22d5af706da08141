"""`spark.read.format("lonnymq_history")`, and `readStream`: what finished, a row a message, each row once.

Options besides the connection's: `startingOffsets` (earliest, which is the default, latest, or a position),
`endingOffsets` of a batch (latest, or a position), `maxOffsetsPerTrigger` of a stream (rows; a transaction is
never divided), `minPartitions`, `includeContent` (false: there is no column `content`) and `failOnDataLoss`.

A position is JSON, `{"snapshot": "731:735:731,733", "system": 7461018473529023142}`, as `history_bounds()`
has it: what `startingOffsets` does not see is read, as far as `endingOffsets` sees it. The snapshot `"x:x:"`
sees every transaction below x.
"""

from __future__ import annotations

from lonnymq.spark import columns
from lonnymq.spark.changes.source import FollowedSource
from lonnymq.spark.changes.view import Followed


class HistorySource(FollowedSource):
    @classmethod
    def name(cls) -> str:
        return "lonnymq_history"

    def followed(self, schema: str, *, is_with_content: bool) -> Followed:
        return Followed(
            schema,
            view="history",
            table="finished",
            columns=columns.HISTORY if is_with_content else columns.HISTORY.without(["content"]),
            texts=("channel", "outcome"),
            times=("finished_at",),
            is_trimmed=True,
        )
