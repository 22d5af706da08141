"""Every option of a message, however the message is created: alone, with all others, and with a bad value."""

import json
from typing import Any

import psycopg
import pytest

from lonnymq.message_options import CreateManyParameters, CreateParameters
from tests.invariants import check

VALUES: dict[str, Any] = {
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
BAD: dict[str, Any] = {
    "dequeue_at": 2**60,
    "delay_ms": -1,
    "headers": [1],
    "max_attempts": 0,
    "dedupe_key": "",
    "unique_while": "sleeping",
    "unique_for_ms": -1,
    "priority": 101,
    "cost": 0,
    "lane": "",
    "keep_result_ms": -1,
    "batch_id": 4711,
}
MANY = {
    "dequeue_ats": "dequeue_at",
    "delays_ms": "delay_ms",
    "headers": "headers",
    "max_attempts": "max_attempts",
    "dedupe_keys": "dedupe_key",
    "unique_whiles": "unique_while",
    "unique_fors_ms": "unique_for_ms",
    "priorities": "priority",
    "costs": "cost",
    "lanes": "lane",
    "keep_results_ms": "keep_result_ms",
    "batch_ids": "batch_id",
}
OF_KEYS = {"dedupe_key", "unique_for_ms"}
CALLS = ["one", "many", "staging", "chunk"]
STAGED = "00000000-0000-0000-0000-000000000001"


def stored(conn: psycopg.Connection, names: list[str]) -> dict[str, object]:
    [row] = conn.execute(f"SELECT {', '.join(names)} FROM message").fetchall()
    return dict(zip(names, row, strict=True))


def create(conn: psycopg.Connection, call: str, options: dict[str, Any], count: int = 1) -> None:
    """Create that many messages. Arrays have one element per option."""
    given = {name: json.dumps(v) if name == "headers" else v for name, v in options.items()}
    types: dict[str, str] = dict(
        conn.execute(
            "SELECT attname, format_type(atttypid, -1) FROM pg_attribute"
            " WHERE attrelid = 'new_message'::REGCLASS AND attnum > 0"
        ).fetchall()
    )
    channels, contents = "{" + ", ".join(["a"] * count) + "}", "{" + ", ".join(["x"] * count) + "}"
    match call:
        case "one":
            arguments = "".join(f", p_{name} => %({name})s" for name in given)
            conn.execute(f"SELECT message_create('a', 'x'{arguments})", given)
        case "many":
            arguments = "".join(
                f", p_{many} => ARRAY[%({name})s]::{types[name]}[]"
                for many, name in MANY.items()
                if name in given
            )
            conn.execute(f"SELECT message_create_many('{channels}', '{contents}'{arguments})", given)
        case "staging":
            conn.execute(
                f"INSERT INTO staging ({', '.join(['batch', 'ord', 'channel', 'content', *given])})"
                f" VALUES ('{STAGED}', 1, 'a', 'x'{''.join(f', %({name})s' for name in given)})",
                given,
            )
        case "chunk":
            arrays = {name: "TEXT" if name == "headers" else types[name] for name in given}
            places = "".join(f", ARRAY[%({name})s]::{type_}[]" for name, type_ in arrays.items())
            conn.execute(
                f"INSERT INTO staging_chunk ({', '.join(['batch', 'ord', 'channel', 'content', *given])})"
                f" VALUES ('{STAGED}', 1, '{channels}', '{contents}'{places})",
                given,
            )
    if call in {"staging", "chunk"}:
        conn.execute(f"SELECT staging_publish('{STAGED}')")


def alone(name: str, values: dict[str, Any]) -> dict[str, Any]:
    """The option without others, except for the key that it needs."""
    needed = {"dedupe_key": "k"} if name in {"unique_for_ms", "unique_while"} else {}
    return needed | {name: values[name]}


def test_the_values_cover_every_option() -> None:
    """A delay is the other way to say when a message is due, and unique_while how long it holds its key."""
    assert set(VALUES) == set(CreateParameters.__dataclass_fields__) - {"delay_ms", "unique_while"}
    assert set(BAD) == set(CreateParameters.__dataclass_fields__)
    assert set(MANY) == set(CreateManyParameters.__dataclass_fields__)


@pytest.mark.parametrize("with_key", [False, True])
@pytest.mark.parametrize("with_size", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_every_option_is_stored(
    conn: psycopg.Connection, call: str, *, with_size: bool, with_key: bool
) -> None:
    """With a key or a size, messages take another way through the engine."""
    if with_size:
        conn.execute("SELECT channel_set('a', p_max_size => 9)")
    conn.execute("SELECT batch_open('one')")
    values = {name: value for name, value in VALUES.items() if with_key or name not in OF_KEYS}
    create(conn, call, values)
    assert stored(conn, list(values)) == values
    check(conn)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", VALUES)
def test_an_option_alone_is_stored(conn: psycopg.Connection, name: str, call: str) -> None:
    """Without a key, a batch and a size, messages take the shortest way."""
    conn.execute("SELECT batch_open('one')")
    values = alone(name, VALUES)
    create(conn, call, values)
    assert stored(conn, list(values)) == values


@pytest.mark.parametrize(
    ("name", "call"),
    [(name, call) for name in BAD for call in (["one", "many"] if name == "delay_ms" else CALLS)],
)
def test_a_bad_value_is_refused(conn: psycopg.Connection, name: str, call: str) -> None:
    """Rows that are staged have no delay."""
    with pytest.raises(psycopg.Error) as refused:
        create(conn, call, alone(name, BAD))
    assert (refused.value.sqlstate or "").startswith("LM"), refused.value


@pytest.mark.parametrize("call", ["many", "chunk"])
@pytest.mark.parametrize("name", VALUES)
def test_an_array_of_another_length_is_refused(conn: psycopg.Connection, name: str, call: str) -> None:
    conn.execute("SELECT batch_open('one')")
    with pytest.raises(psycopg.Error, match="the arrays differ in length"):
        create(conn, call, {name: VALUES[name]}, count=2)
