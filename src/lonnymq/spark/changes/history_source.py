"""`format("lonnymq_history")`, with `read` or `readStream`: the finished messages, each row once.

The options, besides those of the connection, are `startingOffsets` (earliest, which is the default, latest,
or a position) or `startingTimestamp` (Unix milliseconds); for a batch `endingOffsets` (latest, or a position)
or `endingTimestamp`; for a stream `maxOffsetsPerTrigger` (in rows; a transaction is never split),
`maxBytesPerTrigger`, `minOffsetsPerTrigger` and `maxTriggerDelay`; `channels`, `channelPattern` and `lanes`;
`minPartitions` and `failOnDataLoss`; and those of the columns: `includeContent`, `contentFormat`,
`contentSchema`, `contentMode` and `headersFormat`.

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
            texts=("channel", "lane", "outcome"),
            times=("finished_at",),
            size="content_bytes",
        )
