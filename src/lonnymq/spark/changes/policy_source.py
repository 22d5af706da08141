"""`format("lonnymq_policies")`, with `read` or `readStream`: how the policies changed, each row once.

It has the positions of `lonnymq_history`, and its options as far as they are not about messages. A row has
the whole policy after a change, so the newest row of a channel is its policy. `scope` is `queue` (its
max_concurrency and whether it is paused), `default` (the limits that channels inherit) or `channel`; a limit
of null is then inherited, and 0 means no limit.
"""

from __future__ import annotations

from lonnymq.spark import columns
from lonnymq.spark.changes.change_source import ChangeSource
from lonnymq.spark.changes.change_view import ChangeView


class PolicySource(ChangeSource):
    @classmethod
    def name(cls) -> str:
        return "lonnymq_policies"

    def change_view(self, schema: str) -> ChangeView:
        return ChangeView(
            schema,
            name="policies",
            table="policy_log",
            columns=columns.POLICIES,
            texts=("scope",),
            times=("at",),
            trimmed="policies_trimmed_xid",
            marked_by="policy_mark('{}')",
        )
