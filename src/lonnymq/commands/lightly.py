"""A commit that does not wait for the disk, of what a crash may undo."""

from __future__ import annotations

from lonnymq.statement import Command, Statement


class Lightly(Command[object]):
    """Beside a command whose first parameter is `limit`, for a transaction of its own.

    The setting is made before the function runs, which takes it back where something exact depends on it,
    and is gone with the transaction.
    """

    def statement(self, schema: str) -> Statement:
        text, parameters = super().statement(schema)
        columns, _, call = text.partition(" FROM ")
        limit = "CAST($1 AS INT)"
        after = call.replace(limit, f"CASE WHEN first.mode IS NOT NULL THEN {limit} END", 1)
        return Statement(
            f"{columns} FROM (SELECT set_config('synchronous_commit', 'off', TRUE) AS mode OFFSET 0) first"
            f" CROSS JOIN LATERAL {after}",
            parameters,
        )
