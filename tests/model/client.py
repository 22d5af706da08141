"""The calls that have two forms: `one` calls them one by one, `many` all at once."""

from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from tests.invariants import Delivery
from tests.model.queue_model import Draft


class Target(NamedTuple):
    id: int | None
    token: UUID | None


class Retry(NamedTuple):
    dequeue_at: int | None
    state: bytes | None
    error: str | None
    delay_ms: int | None = None
    is_final: bool | None = None


def _column(values: list[Any]) -> list[Any] | None:
    """An optional array is given as NULL if all its values are NULL."""
    return None if all(value is None for value in values) else values


class Client:
    def __init__(self, conn: psycopg.Connection) -> None:
        self._conn = conn

    def rows(self, query: str, *parameters: Any) -> list[Any]:
        return self._conn.execute(query, parameters).fetchall()

    def value(self, query: str, *parameters: Any) -> Any:
        return self.rows(query, *parameters)[0][0]

    def create(self, drafts: list[Draft], form: str) -> list[tuple[int | None, str]]:
        headers = [None if draft.headers is None else Jsonb(draft.headers) for draft in drafts]
        if form == "one":
            call = """SELECT * FROM message_create(
                %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, p_unique_for_ms => %s)"""
            given = [
                (
                    *(draft.channel, draft.content, draft.dequeue_at, header, draft.max_attempts),
                    *(draft.dedupe_key, draft.delay_ms, draft.priority, draft.cost, draft.lane),
                    draft.unique_for_ms,
                )
                for draft, header in zip(drafts, headers, strict=True)
            ]
            return [row for each in given for row in self.rows(call, *each)]
        types = """%s, %s, %s::BIGINT[], %s::JSONB[], %s::INT[], %s::TEXT[], FALSE, %s::BIGINT[], %s::INT[],
            %s::INT[], %s::TEXT[], p_unique_fors_ms => %s::BIGINT[]"""
        return self.rows(
            f"SELECT * FROM message_create_many({types})",
            [draft.channel for draft in drafts],
            [draft.content for draft in drafts],
            _column([draft.dequeue_at for draft in drafts]),
            _column(headers),
            _column([draft.max_attempts for draft in drafts]),
            _column([draft.dedupe_key for draft in drafts]),
            _column([draft.delay_ms for draft in drafts]),
            _column([draft.priority for draft in drafts]),
            _column([draft.cost for draft in drafts]),
            _column([draft.lane for draft in drafts]),
            _column([draft.unique_for_ms for draft in drafts]),
        )

    def dequeue(
        self, limit: int, lease_ms: int | None, consumer: str | None, lanes: list[str] | None
    ) -> tuple[list[Delivery], int | None]:
        """The messages, and when to ask again."""
        given = (limit, lease_ms, consumer, lanes)
        rows = self.rows("SELECT * FROM message_dequeue(%s, %s, %s, %s::TEXT[])", *given)
        again_at = rows.pop()[8] if rows and rows[-1][0] is None else None
        return [Delivery(*row[:8]) for row in rows], again_at

    def complete(self, targets: list[Target], form: str) -> list[str]:
        if form == "one":
            return [self.value("SELECT message_complete(%s, %s)", *target) for target in targets]
        return self._in_order(
            targets,
            self.rows("SELECT * FROM message_complete_many(%s::BIGINT[], %s::UUID[])", *_columns(targets)),
        )

    def retry(self, targets: list[Target], retries: list[Retry], form: str) -> list[str]:
        if form == "one":
            call = "SELECT message_retry(%s, %s, %s, %s, %s, %s, %s)"
            return [self.value(call, *t, *d) for t, d in zip(targets, retries, strict=True)]
        types = "%s::BIGINT[], %s::UUID[], %s::BIGINT[], %s::BYTEA[], %s::TEXT[], %s::BIGINT[], %s::BOOLEAN[]"
        rows = self.rows(
            f"SELECT * FROM message_retry_many({types})",
            *_columns(targets),
            *(_column(list(column)) for column in zip(*retries, strict=True)),
        )
        return self._in_order(targets, rows)

    def extend(self, targets: list[Target], lease_ms: int, form: str) -> list[tuple[str, int | None]]:
        if form == "one":
            call = "SELECT * FROM message_extend(%s, %s, %s)"
            return [self.rows(call, *target, lease_ms)[0] for target in targets]
        return self._in_order(
            targets,
            self.rows(
                "SELECT * FROM message_extend_many(%s::BIGINT[], %s::UUID[], %s)",
                *_columns(targets),
                lease_ms,
            ),
        )

    def cancel(self, ids: list[int], form: str) -> list[str]:
        if form == "one":
            return [self.value("SELECT message_cancel(%s)", message_id) for message_id in ids]
        return self._results("SELECT * FROM message_cancel_many(%s::BIGINT[])", ids)

    def reschedule(self, message_id: int, dequeue_at: int | None) -> str:
        result: str = self.value("SELECT message_reschedule(%s, %s)", message_id, dequeue_at)
        return result

    def dead_retry(self, ids: list[int], dequeue_at: int | None) -> list[str]:
        return self._results("SELECT * FROM dead_retry(%s::BIGINT[], %s)", ids, dequeue_at)

    def dead_discard(self, ids: list[int]) -> list[str]:
        return self._results("SELECT * FROM dead_discard(%s::BIGINT[])", ids)

    def queue_set(self, given: dict[str, Any]) -> tuple[Any, ...]:
        named = ", ".join(f"p_{name} => %s" for name in given)
        rows: list[tuple[Any, ...]] = self.rows(f"SELECT * FROM queue_set({named})", *given.values())
        return rows[0]

    def _results(self, call: str, ids: list[int], *parameters: Any) -> list[Any]:
        return self._in_order([Target(i, None) for i in ids], self.rows(call, ids, *parameters))

    @staticmethod
    def _in_order(targets: list[Target], rows: list[Any]) -> list[Any]:
        assert [row[0] for row in rows] == [target.id for target in targets], (
            "one row each, in the order given"
        )
        return [row[1] if len(row) == 2 else row[1:] for row in rows]


def _columns(targets: list[Target]) -> tuple[list[int | None], list[UUID | None]]:
    return [target.id for target in targets], [target.token for target in targets]
