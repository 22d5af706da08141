"""Every option of a message is stored, however the message is created."""

import json

import psycopg
import pytest

from lonnymq.message_options import CreateManyParameters, CreateParameters
from tests.invariants import check

VALUES = {
    "dequeue_at": 4_000_000_000_000,
    "headers": {"a": 1},
    "max_attempts": 7,
    "dedupe_key": "k",
    "unique_for_ms": 9,
    "priority": -3,
    "cost": 5,
    "lane": "slow",
    "keep_result_ms": 60_000,
    "batch_id": 1,
}
MANY = {
    "dequeue_ats": "dequeue_at",
    "headers": "headers",
    "max_attempts": "max_attempts",
    "dedupe_keys": "dedupe_key",
    "unique_fors_ms": "unique_for_ms",
    "priorities": "priority",
    "costs": "cost",
    "lanes": "lane",
    "keep_results_ms": "keep_result_ms",
    "batch_ids": "batch_id",
}

OF_KEYS = {"dedupe_key", "unique_for_ms"}


def stored(conn: psycopg.Connection, names: list[str]) -> dict[str, object]:
    [row] = conn.execute(f"SELECT {', '.join(names)} FROM message").fetchall()
    return dict(zip(names, row, strict=True))


def sent(value: object) -> object:
    return json.dumps(value) if isinstance(value, dict) else value


def test_the_values_cover_every_option() -> None:
    """A delay is the other way to say when a message is due, and unique_while how long it holds its key."""
    assert set(VALUES) == set(CreateParameters.__dataclass_fields__) - {"delay_ms", "unique_while"}
    assert set(MANY) == set(CreateManyParameters.__dataclass_fields__) - {"delays_ms", "unique_whiles"}


@pytest.mark.parametrize("with_key", [False, True])
@pytest.mark.parametrize("with_size", [False, True])
@pytest.mark.parametrize("call", ["one", "many", "staging"])
def test_every_option_is_stored(
    conn: psycopg.Connection, call: str, *, with_size: bool, with_key: bool
) -> None:
    """With a key or a size, messages take another way through the engine."""
    if with_size:
        conn.execute("SELECT channel_set('a', p_max_size => 9)")
    conn.execute("SELECT batch_open('one')")
    values = {name: value for name, value in VALUES.items() if with_key or name not in OF_KEYS}
    given = {name: sent(value) for name, value in values.items()}
    if call == "one":
        arguments = ", ".join(f"p_{name} => %({name})s" for name in given)
        conn.execute(f"SELECT message_create('a', 'x', {arguments})", given)
    elif call == "many":
        types = {"headers": "JSONB[]", "dedupe_keys": "TEXT[]", "lanes": "TEXT[]", "dequeue_ats": "BIGINT[]"}
        types["unique_fors_ms"] = "BIGINT[]"
        types["keep_results_ms"] = "BIGINT[]"
        types["batch_ids"] = "BIGINT[]"
        arguments = ", ".join(
            f"p_{many} => ARRAY[%({name})s]::{types.get(many, 'INT[]')}"
            for many, name in MANY.items()
            if name in given
        )
        conn.execute(f"SELECT message_create_many('{{a}}', ARRAY['x'::BYTEA], {arguments})", given)
    else:
        columns, places = ", ".join(given), ", ".join(f"%({name})s" for name in given)
        batch = "00000000-0000-0000-0000-000000000001"
        conn.execute(
            f"INSERT INTO staging (batch, ord, channel, content, {columns})"
            f" VALUES ('{batch}', 1, 'a', 'x', {places})",
            given,
        )
        conn.execute(f"SELECT staging_publish('{batch}')")
    assert stored(conn, list(values)) == values
    check(conn)
