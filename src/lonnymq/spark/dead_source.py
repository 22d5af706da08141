"""`spark.read.format("lonnymq_dead")`, and `readStream`: what used up its attempts, each death once.

Options and positions are those of `lonnymq_history`. What was retried or discarded before it was read is
not read, and not lost: `failOnDataLoss` says nothing here.
"""

from __future__ import annotations

from lonnymq.spark import columns
from lonnymq.spark.changes.source import FollowedSource
from lonnymq.spark.changes.view import Followed


class DeadSource(FollowedSource):
    @classmethod
    def name(cls) -> str:
        return "lonnymq_dead"

    def followed(self, schema: str, *, is_with_content: bool) -> Followed:
        return Followed(
            schema,
            view="dead_letters",
            table="dead",
            columns=columns.DEAD if is_with_content else columns.DEAD.without(["content"]),
            texts=("channel",),
            times=("dead_at",),
            is_trimmed=False,
        )
