"""`format("lonnymq_dead")`, with `read` or `readStream`: the dead letters, each row once.

It has the options and positions of `lonnymq_history`. A dead letter that is retried or discarded before it is
read is not read. That is not a data loss, so `failOnDataLoss` has no effect here.
"""

from __future__ import annotations

from lonnymq.spark import columns
from lonnymq.spark.changes.change_source import ChangeSource
from lonnymq.spark.changes.change_view import ChangeView


class DeadSource(ChangeSource):
    @classmethod
    def name(cls) -> str:
        return "lonnymq_dead"

    def change_view(self, schema: str) -> ChangeView:
        return ChangeView(
            schema,
            name="dead_letters",
            table="dead",
            columns=columns.DEAD,
            texts=("channel", "lane"),
            times=("dead_at",),
            size="octet_length(content)",
            trimmed=None,
            marked_by="history_mark('{}', TRUE)",
        )
