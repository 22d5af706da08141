"""`format("lonnymq_history")`, with `read` or `readStream`: the finished messages, each row once.

The options, besides those of the connection, are `startingOffsets` (earliest, which is the default, latest,
or a position), `endingOffsets` of a batch (latest, or a position), `maxOffsetsPerTrigger` of a stream (in
rows; a transaction is never split), `minPartitions`, `includeContent` (false leaves out the column `content`)
and `failOnDataLoss`.

A position is JSON, `{"snapshot": "731:735:731,733", "system": 7461018473529023142}`, with the values of
`history_bounds()`. A read returns the rows that `endingOffsets` sees and `startingOffsets` does not. The
snapshot `"x:x:"` sees every transaction below x.
"""

from __future__ import annotations

from lonnymq.spark import columns
from lonnymq.spark.changes.change_source import ChangeSource
from lonnymq.spark.changes.change_view import ChangeView


class HistorySource(ChangeSource):
    @classmethod
    def name(cls) -> str:
        return "lonnymq_history"

    def change_view(self, schema: str) -> ChangeView:
        return ChangeView(
            schema,
            name="history",
            table="finished",
            columns=columns.HISTORY,
            texts=("channel", "outcome"),
            times=("finished_at",),
        )
