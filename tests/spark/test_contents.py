"""How columns and rows are converted for the queue, and which are refused. It needs only Spark's types."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from lonnymq import payload
from lonnymq.message_options import OPTIONS
from lonnymq.spark.connection import QueueAddress
from lonnymq.spark.sink import json_values
from lonnymq.spark.sink.json_values import json_texts
from lonnymq.spark.sink.message_columns import ConsumerClaim, Contents, InvalidColumns
from lonnymq.spark.sink.row_batch import RowRefused
from lonnymq.spark.sink.staging import Stager

pytestmark = pytest.mark.usefixtures("spark")  # Spark parses the DDL
LIMIT = 1000
INSTANTS = pa.timestamp("us", "Europe/Berlin")
CLAIM = "claim struct<consumer string, seq bigint, generation bigint>"  # without the id of the message
CLAIMS = pa.struct([("consumer", pa.string()), ("seq", pa.int64()), ("generation", pa.int64())])
MOMENT = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


def contents(ddl: str, **options: Any) -> Contents:
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return Contents.of(schema, **options)


def staged(ddl: str, columns: dict[str, pa.Array], first: int = 0, **options: Any) -> dict[str, list[Any]]:
    made = contents(ddl, **options).staged(pa.record_batch(columns), first, LIMIT)
    rows: dict[str, list[Any]] = made.to_pydict()
    return rows


def messages(**columns: pa.Array) -> dict[str, pa.Array]:
    """Add a channel and content where they are missing."""
    rows = len(next(iter(columns.values())))
    return {"channel": pa.array(["acme"] * rows), "content": pa.array([b"x"] * rows)} | columns


def headers(found: dict[str, list[Any]]) -> list[Any]:
    return [None if each is None else json.loads(each) for each in found["headers"]]


PLAIN = "channel string, content binary"


@pytest.mark.parametrize(
    ("ddl", "options", "said"),
    [
        ("channel string", {}, "no column 'content'"),
        ("content binary", {}, "no column 'channel'"),
        (PLAIN, {"channel": "acme"}, "a column 'channel' and an option channel"),
        ("content binary", {"channel": ""}, "is not a valid name"),
        ("content binary", {"channel": "ä" * 128}, "is not a valid name"),
        (f"{PLAIN}, colour string", {}, "the column 'colour' is not known"),
        (f"{PLAIN}, CONTENT string", {}, "two columns 'content'"),
        (f"{PLAIN}, run_at timestamp, dequeue_at bigint", {}, "'run_at' and 'dequeue_at'"),
        ("channel int, content binary", {}, "'channel' is int, not a string"),
        ("channel string, content int", {}, "'content' is int, not binary"),
        (f"{PLAIN}, run_at string", {}, "'run_at' is string, not a timestamp"),
        (f"{PLAIN}, run_at timestamp_ntz", {}, "cast it to a timestamp in its time zone"),
        (f"{PLAIN}, dequeue_at timestamp", {}, "'dequeue_at' is timestamp, not a whole number"),
        (f"{PLAIN}, priority double", {}, "'priority' is double, not a whole number"),
        (f"{PLAIN}, max_attempts string", {}, "'max_attempts' is string, not a whole number"),
        (f"{PLAIN}, dedupe_key binary", {}, "'dedupe_key' is binary, not a string"),
        (f"{PLAIN}, headers array<string>", {}, "'headers' is array<string>, not a map"),
        (f"{PLAIN}, headers map<int, string>", {}, "the keys of headers are int"),
        ("channel string, content struct<a: map<date, int>>", {}, "the keys of content.a are date"),
        ("channel string, content array<struct<a: int, a: int>>", {}, r"content\[\] has two fields"),
        ("channel string, content struct<a: interval day>", {}, "content.a is interval day"),
        (f"{PLAIN}, {CLAIM}", {}, "use the option complete=true"),
        (f"{PLAIN}, error string", {}, "there is a column 'error'"),
        (f"{PLAIN}, error string, {CLAIM}", {"completes": True}, "keep all fields of claim"),
        (PLAIN, {"completes": True}, "needs the column 'claim'"),
        (f"{PLAIN}, claim struct<seq: bigint>", {"completes": True}, "'claim' is struct<seq:bigint>"),
        (f"{PLAIN}, claim bigint", {"completes": True}, "'claim' is bigint"),
    ],
)
def test_columns_that_are_refused(ddl: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidColumns, match=said):
        contents(ddl, **options)


def test_names_in_any_case_and_order() -> None:
    found = staged(
        "Content binary, CHANNEL string", {"Content": pa.array([b"x"]), "CHANNEL": pa.array(["a"])}
    )
    assert (found["channel"], found["content"]) == (["a"], [b"x"])


def test_columns_that_no_row_has_are_not_sent() -> None:
    found = staged(PLAIN, messages(content=pa.array([b"1", b"2"])))
    assert found == {
        "channel": ["acme"] * 2,
        "content": [b"1", b"2"],
    }


def test_the_option_channel_is_for_all_rows() -> None:
    found = staged("content binary", {"content": pa.array([b"1", b"2"])}, channel="é")
    assert found["channel"] == ["é", "é"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_strings_are_utf8(kind: pa.DataType) -> None:
    found = staged("channel string, content string", messages(content=pa.array(["é", ""], kind)))
    assert found["content"] == ["é".encode(), b""]
    assert "headers" not in found, "the content type of a string is unknown, as for bytes"


NESTED: dict[str, tuple[pa.DataType, Any]] = {
    "struct<id: bigint, who: string>": (
        pa.struct([("id", pa.int64()), ("who", pa.string())]),
        {"id": 7, "who": "é"},
    ),
    "struct<id: bigint>": (pa.struct([("id", pa.int64())]), {"id": None}),
    "map<string, double>": (pa.map_(pa.string(), pa.float64()), {"a": 1.5, "b": None}),
    "array<array<boolean>>": (pa.list_(pa.list_(pa.bool_())), [[True, None], [], None]),
    "struct<>": (pa.struct([]), {}),
}


@pytest.mark.parametrize("ddl", NESTED)
def test_nested_values_are_json(ddl: str) -> None:
    kind, value = NESTED[ddl]
    given = list(value.items()) if pa.types.is_map(kind) else value
    found = staged(f"channel string, content {ddl}", messages(content=pa.array([given], kind)))
    assert payload.decode(found["content"][0], payload.JSON) == value
    assert headers(found) == [{"content-type": "application/json"}]


OF_EVERY_TYPE = pa.struct(
    [
        ("moment", INSTANTS),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("price", pa.decimal128(10, 2)),
        ("bytes", pa.binary()),
        ("ratio", pa.float32()),
        ("nothing", pa.null()),
        ("tags", pa.map_(pa.string(), pa.list_(pa.struct([("n", pa.int32())])))),
    ]
)
EVERY_TYPE: dict[str, Any] = {
    "moment": datetime(2026, 7, 1, 12, tzinfo=timezone(timedelta(hours=2))),
    "local": datetime(2026, 7, 1, 12, 0, 0, 5),  # noqa: DTZ001
    "day": date(2026, 7, 1),
    "price": Decimal("1.50"),
    "bytes": b"\0\xff",
    "ratio": float("nan"),
    "nothing": None,
    "tags": [("é", [{"n": 1}, None])],
}
WRITTEN = {
    "moment": "2026-07-01T10:00:00.000000Z",
    "local": "2026-07-01T12:00:00.000005",
    "day": "2026-07-01",
    "price": "1.50",
    "bytes": "AP8=",
    "ratio": None,
    "nothing": None,
    "tags": {"é": [{"n": 1}, None]},
}


@pytest.mark.parametrize("has_msgspec", [True, False])
def test_json_of_every_type(monkeypatch: pytest.MonkeyPatch, has_msgspec: bool) -> None:
    if not has_msgspec:
        monkeypatch.setattr(json_values, "msgspec", None)
    column = pa.array([EVERY_TYPE, None, {}, EVERY_TYPE, EVERY_TYPE], OF_EVERY_TYPE)
    nulls = dict.fromkeys(WRITTEN)
    expected = [WRITTEN, None, nulls, WRITTEN, WRITTEN]
    for part in (slice(0, 5), slice(1, 4), slice(2, 3)):
        texts = json_texts(column[part]).to_pylist()
        assert [text and json.loads(text) for text in texts] == expected[part]


def test_a_content_type_for_all() -> None:
    column = pa.array([b"{}"])
    assert headers(staged(PLAIN, messages(content=column), content_type="text/csv")) == [
        {"content-type": "text/csv"}
    ]


HEADERS = {
    "map<string, string>": (pa.map_(pa.string(), pa.string()), [("k", "é")], {"k": "é"}),
    "struct<k: string>": (pa.struct([("k", pa.string())]), {"k": "é"}, {"k": "é"}),
    "string": (pa.string(), '{"k": {"deep": [1, null]}}', {"k": {"deep": [1, None]}}),
}


@pytest.mark.parametrize("ddl", HEADERS)
def test_headers(ddl: str) -> None:
    kind, given, expected = HEADERS[ddl]
    columns = messages(headers=pa.array([given, None, given], kind))
    assert headers(staged(f"{PLAIN}, headers {ddl}", columns)) == [expected, None, expected]


def test_a_content_type_in_the_headers_comes_first() -> None:
    given = ['{"content-type": "text/csv"}', '{"content-type": null}', "{}", None]
    columns = messages(headers=pa.array(given))
    found = headers(staged(f"{PLAIN}, headers string", columns, content_type="a/b"))
    assert [each["content-type"] for each in found] == ["text/csv", "a/b", "a/b", "a/b"]


def test_times_are_milliseconds_in_any_time_zone() -> None:
    given = [MOMENT, datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), None]
    for zone in ("UTC", "Asia/Kathmandu", "America/New_York"):
        columns = messages(run_at=pa.array(given, pa.timestamp("us", zone)))
        found = staged(f"{PLAIN}, run_at timestamp", columns)
        assert found["dequeue_at"] == [int(MOMENT.timestamp() * 1000), -1, None]


def test_numbers_of_any_width() -> None:
    columns = messages(
        priority=pa.array([None, 5, -100], pa.int8()),
        cost=pa.array([None, 5, 1_000_000], pa.int64()),
        dequeue_at=pa.array([1, None, None], pa.int16()),
        max_attempts=pa.array([None, 3, 1_000_000], pa.int64()),
    )
    found = staged(
        f"{PLAIN}, priority tinyint, cost bigint, dequeue_at smallint, max_attempts bigint", columns
    )
    assert found["dequeue_at"] == [1, None, None]
    assert found["max_attempts"] == [None, 3, 1_000_000]
    assert found["priority"] == [None, 5, -100]
    assert found["cost"] == [None, 5, 1_000_000]


def test_lanes() -> None:
    found = staged(f"{PLAIN}, lane string", messages(lane=pa.array(["slow", None, "default"])))
    assert found["lane"] == ["slow", None, "default"]


BROKEN = pa.array([b"\xff\xfe"]).view(pa.string())
LONG = "x" * 256
ROWS = {
    "null channel": ({"channel": pa.array([None], pa.string())}, "a channel needs a name"),
    "no channel": ({"channel": pa.array([""])}, "the channel is 0 bytes long"),
    "long channel": ({"channel": pa.array(["ä" * 128])}, "the channel is 256 bytes long"),
    "NUL in the channel": ({"channel": pa.array(["a\0b"])}, "the channel contains a NUL"),
    "broken channel": ({"channel": BROKEN}, "channel is not UTF-8: invalid start byte at byte 1"),
    "null content": ({"content": pa.array([None], pa.binary())}, "a message needs content"),
    "long content": ({"content": pa.array([b"x" * (LIMIT + 1)])}, "the content is 1001 bytes long"),
    "empty key": ({"dedupe_key": pa.array([""])}, "the dedupe key is 0 bytes long"),
    "long key": ({"dedupe_key": pa.array([LONG])}, "the dedupe key is 256 bytes long"),
    "NUL in the key": ({"dedupe_key": pa.array(["\0"])}, "the dedupe key contains a NUL"),
    "broken key": ({"dedupe_key": BROKEN}, "dedupe_key is not UTF-8"),
    "unknown window": (
        {"dedupe_key": pa.array(["k"]), "unique_while": pa.array(["ever"])},
        "unique_while is not known",
    ),
    "window without a key": (
        {"dedupe_key": pa.array([None], pa.string()), "unique_while": pa.array(["running"])},
        "unique_while is given without a dedupe key",
    ),
    "no keys": ({"unique_for": pa.array([1.5])}, "unique_for is given without a dedupe key"),
    "long window": (
        {"dedupe_key": pa.array(["k"]), "unique_for": pa.array([4e7])},
        "unique_for is out of range",
    ),
    "no number": (
        {"dedupe_key": pa.array(["k"]), "unique_for": pa.array([float("nan")])},
        "unique_for is out of range",
    ),
    "priority 101": ({"priority": pa.array([101])}, "priority is out of range"),
    "priority -101": ({"priority": pa.array([-101])}, "priority is out of range"),
    "no cost": ({"cost": pa.array([0])}, "cost is out of range"),
    "high cost": ({"cost": pa.array([2**40])}, "cost is out of range"),
    "no lane": ({"lane": pa.array([""])}, "the lane is 0 bytes long"),
    "long lane": ({"lane": pa.array([LONG])}, "the lane is 256 bytes long"),
    "NUL in the lane": ({"lane": pa.array(["\0"])}, "the lane contains a NUL"),
    "far future": ({"dequeue_at": pa.array([2**53 + 1])}, "the time is out of range"),
    "far past": ({"dequeue_at": pa.array([-(2**53) - 1])}, "the time is out of range"),
    "no attempts": ({"max_attempts": pa.array([0])}, "max_attempts is out of range"),
    "many attempts": ({"max_attempts": pa.array([2**40])}, "max_attempts is out of range"),
    "not JSON": ({"headers": pa.array(["{"])}, "the headers are not valid"),
    "an array": ({"headers": pa.array(["[1]"])}, "the headers are not valid, they are of type list"),
    "not a number": ({"headers": pa.array(['{"a": NaN}'])}, "NaN is not JSON"),
    "infinity": ({"headers": pa.array(['{"a": 1e999}'])}, "the headers are not valid"),
    "NUL in headers": ({"headers": pa.array(['{"a": "\\u0000"}'])}, "contain a NUL"),
    "a lone surrogate": ({"headers": pa.array(['{"a": "\\ud800"}'])}, "the headers are not valid"),
    "broken headers": ({"headers": BROKEN}, "headers is not UTF-8"),
    "deep headers": ({"headers": pa.array(['{"a":' * 100_000])}, "the headers are not valid"),
    "long headers": ({"headers": pa.array([json.dumps({"a": "x" * 70_000})])}, "bytes long"),
}
TYPES = {
    "channel": "string",
    "content": "binary",
    "dedupe_key": "string",
    "unique_while": "string",
    "unique_for": "double",
    "priority": "bigint",
    "cost": "bigint",
    "lane": "string",
    "dequeue_at": "bigint",
    "max_attempts": "bigint",
    "headers": "string",
}


@pytest.mark.parametrize("case", ROWS)
def test_rows_that_are_refused(case: str) -> None:
    bad, said = ROWS[case]
    columns = messages(**bad)
    fine = {"channel": "acme", "content": b"x"}
    columns = {
        name: pa.chunked_array([_one(column, fine.get(name)), column]).combine_chunks()
        for name, column in columns.items()
    }
    ddl = ", ".join(f"{name} {TYPES[name]}" for name in columns)
    with pytest.raises(RowRefused, match=said) as refused:
        staged(ddl, columns, first=10)
    assert "row 12 of its partition, channel " in str(refused.value)


def test_texts_are_as_long_as_their_option_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPTIONS, "lane", replace(OPTIONS["lane"], least=2, most=3))
    assert staged(f"{PLAIN}, lane string", messages(lane=pa.array(["ab", "abc"])))["lane"] == ["ab", "abc"]
    for lane in ("a", "abcd"):
        with pytest.raises(RowRefused, match=f"the lane is {len(lane)} bytes long"):
            staged(f"{PLAIN}, lane string", messages(lane=pa.array([lane])))


SURROGATE = b"x\xed\xa0\x80"
NOT_UTF8: dict[str, tuple[Callable[[pa.Array], pa.Array], str]] = {
    "string": (lambda text: text, "content is"),
    "struct<who: string>": (lambda text: pa.StructArray.from_arrays([text], ["who"]), "content.who is"),
    "array<string>": (
        lambda text: pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), text),
        r"content\[\] is",
    ),
    "map<string, string>": (
        lambda text: pa.MapArray.from_arrays(
            pa.array([0, 1, 2], pa.int32()), pa.array(["k"] * len(text)), text
        ),
        "content.value is",
    ),
}


@pytest.mark.parametrize("ddl", NOT_UTF8)
def test_texts_in_a_content_that_are_not_utf8(ddl: str) -> None:
    """Also half of a surrogate pair. Spark has such strings after a cast from binary."""
    nest, said = NOT_UTF8[ddl]
    for octets in (b"\xff", SURROGATE):
        column = nest(pa.array([b"fine", octets]).view(pa.string()))
        with pytest.raises(RowRefused, match=f"{said} not UTF-8.*row 2 of its partition"):
            staged(f"channel string, content {ddl}", messages(content=column))
        if not pa.types.is_list(column.type) and ddl != "string":
            with pytest.raises(RowRefused, match=r"headers.* is not UTF-8.*row 2 of its partition"):
                staged(f"{PLAIN}, headers {ddl}", messages(headers=column))


def test_a_nul_in_a_content_is_kept() -> None:
    """Only headers are stored as JSON, which cannot contain it."""
    column = pa.StructArray.from_arrays([pa.array(["a\0b"])], ["who"])
    [content] = staged("channel string, content struct<who: string>", messages(content=column))["content"]
    assert json.loads(content) == {"who": "a\0b"}


def _one(column: pa.Array, value: Any) -> pa.Array:
    return pa.array([value], column.type)


def test_a_refusal_names_the_row_without_its_content() -> None:
    columns = messages(
        content=pa.array([b"secret" * 1000]),
        headers=pa.array(['{"authorization": "secret"}']),
        run_at=pa.array([MOMENT], INSTANTS),
        dedupe_key=pa.array(["k" * 255]),
        max_attempts=pa.array([None], pa.int32()),
    )
    with pytest.raises(RowRefused) as refused:
        staged(f"{PLAIN}, headers string, run_at timestamp, dedupe_key string, max_attempts int", columns)
    said = str(refused.value)
    assert "secret" not in said
    assert "channel 'acme', run_at 2026-11-15 13:00:00+01:00, dedupe_key 'kkk" in said
    assert "..., max_attempts null" in said
    assert "at most 1000 bytes are allowed" in said


def test_an_escaped_backslash_is_not_a_nul() -> None:
    found = staged(f"{PLAIN}, headers string", messages(headers=pa.array([r'{"a": "\\u0000"}'])))
    assert headers(found) == [{"a": "\\u0000"}]


def test_the_last_claim_of_each_consumer() -> None:
    rows = [("a", 1, 1), ("a", 3, 1), ("b", 2, 9), ("a", 2, 1), ("a", 1, 2)]
    column = pa.array(
        [dict(zip(("consumer", "seq", "generation"), row, strict=True)) for row in rows], CLAIMS
    )
    batch = pa.record_batch(messages(claim=column))
    made = contents(f"{PLAIN}, {CLAIM}", completes=True)
    assert made.claims(batch, 0) == {
        ConsumerClaim("a", 1, 3),
        ConsumerClaim("a", 2, 1),
        ConsumerClaim("b", 9, 2),
    }
    assert "claim" not in made.staged(batch, 0, LIMIT).schema.names


CLAIMED = pa.struct([*CLAIMS, ("id", pa.int64())])
CLAIMED_DDL = (
    f"{PLAIN}, claim struct<consumer string, seq bigint, generation bigint, id bigint>, error string"
)


def claimed(errors: list[Any], ids: list[int | None], **columns: pa.Array) -> pa.RecordBatch:
    claims = [id_ and {"consumer": "a", "seq": 1, "generation": 1, "id": id_} for id_ in ids]
    return pa.record_batch(
        messages(claim=pa.array(claims, CLAIMED), error=pa.array(errors, pa.string()), **columns)
    )


def test_rows_with_an_error_count_in_the_numbers_of_others() -> None:
    made = contents(CLAIMED_DDL, completes=True)
    batch = claimed(["no", None, "no", None], [1, 2, 3, 4], channel=pa.array(["a", "a", "a", ""]))
    kept, positions, failed = made.failures(batch, 10)
    assert ([one.id for one in failed], positions) == ([1, 3], [1, 3])
    with pytest.raises(RowRefused, match="the channel is 0 bytes long: row 14 of its partition"):
        made.staged(kept, 10, LIMIT, positions)


def test_an_error_that_is_not_utf8_is_refused() -> None:
    broken = pa.array([b"fine", b"\xff\xfe"]).view(pa.string())
    batch = claimed([None, None], [1, 2]).set_column(3, "error", broken)
    with pytest.raises(RowRefused, match=r"error is not UTF-8.*: row 2 of its partition"):
        contents(CLAIMED_DDL, completes=True).failures(batch, 0)


def test_a_row_with_an_error_and_no_claim_is_refused(options: dict[str, str]) -> None:
    stager = Stager(QueueAddress.of(options), contents(CLAIMED_DDL, completes=True))
    for batches in ([claimed(["no"], [None])], [claimed([None], [1]), claimed(["no"], [None])]):
        refusal = stager.stage(iter(batches)).refusal
        assert isinstance(refusal, RowRefused)
        assert f"the claim is null: row {len(batches)} of its partition" in str(refusal)


@pytest.mark.parametrize("claim", [None, {"consumer": "a", "seq": None, "generation": 1}])
def test_a_row_without_its_claim_is_refused(claim: Any) -> None:
    made = contents(f"{PLAIN}, {CLAIM}", completes=True)
    with pytest.raises(RowRefused, match="the claim is null: row 1"):
        made.claims(pa.record_batch(messages(claim=pa.array([claim], CLAIMS))), 0)
