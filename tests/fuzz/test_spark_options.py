"""Every option of every Spark format with odd values: it is accepted, or refused with an error that names it.

What is refused changes no table. The readers and writers are called as Spark calls them, without Spark, which
takes seconds to start.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql.datasource import DataSource, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from lonnymq.errors import InvalidArgument, LonnyMQError
from lonnymq.spark import transient_errors, waiting_reader
from lonnymq.spark.changes.dead_source import DeadSource
from lonnymq.spark.changes.history_source import HistorySource
from lonnymq.spark.changes.policy_source import PolicySource
from lonnymq.spark.changes.read_options import known_options
from lonnymq.spark.consume import claim_options
from lonnymq.spark.consume.claim_options import CLAIM
from lonnymq.spark.queue_source import QueueSource
from lonnymq.spark.sink import writer
from lonnymq.spark.source_options import CONNECTION, OF_SPARK
from tests.fuzz.examples import try_many
from tests.fuzz.filled_queue import Conn, Tables, fill
from tests.fuzz.odd_texts import DURATIONS, NUMBERS, TEXTS, TIMES

MOST_S = 60.0
CHANGES = (HistorySource, DeadSource, PolicySource)
FORMATS = (QueueSource, *CHANGES)
SERVICE = "fuzzed"


def record(kind: object) -> str:
    """The Avro schema of a record with one field."""
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]})


KNOWN = (
    *("true", "FALSE", "earliest", "latest", "json", "avro", "map", "permissive", "failfast", "fail", "drop"),
    *(
        "id BIGINT",
        "id BIGINT, id BIGINT",
        "a DECIMAL(99,99)",
        "a MAP<INT, INT>",
        "a ARRAY<",
        "STRUCT<>",
        "(?i)a",
    ),
    *(
        "[" * 100_000,
        "a STRUCT<" * 5_000,
        "ARRAY<" * 5_000,
        "\0",
        "a\0b",
        "a,b",
        ",",
        "a)|(b",
        "a{99999}",
        "(a*)*b",
    ),
    *(
        '{"snapshot": "1:1:", "system": 1}',
        '{"snapshot": "9:1:", "system": 1}',
        '{"snapshot": "1:1:", "system": 1e3}',
    ),
    *(
        '{"snapshot": "1:2:3,x", "system": true}',
        '{"snapshot": "-1:-1:", "system": -1, "mark": 1, "since": -1}',
    ),
    *(
        '{"snapshot": "99999999999999999999999:99999999999999999999999:", "system": 99999999999999999999999}',
        "null",
    ),
    *('{"type": "record", "name": "R", "fields": []}', '{"type": "record", "name": "R", "fields": [1]}'),
    record("R"),
    record({"type": "bytes", "logicalType": "decimal"}),
    record({"type": "bytes", "logicalType": "decimal", "precision": "x"}),
    record({"type": "bytes", "logicalType": "decimal", "precision": 99, "scale": 100}),
    record({"type": "map", "values": ["null", "int", "string"]}),
    *("00000000-0000-0000-0000-000000000000", "application/json", "foo://bar", "file:", "s3a://", "/nowhere"),
    *(
        "require",
        "verify-full",
        "disable",
        "65536",
        "127.0.0.1:1",
        "postgresql://127.0.0.1:1/x",
        "host=/nowhere",
    ),
)
HOSTS = ("", "/nowhere", "127.0.0.1", "\0", "::1", "127.0.0.1,127.0.0.1", "/" * 300, "@")
"""Not names: to look up an odd one can take long, and says nothing about this package."""
CHANNEL, CONTENT = StructField("channel", StringType()), StructField("content", BinaryType())
ROWS = (
    StructType([CHANNEL, CONTENT]),
    StructType([CONTENT]),
    StructType([CHANNEL, CONTENT, StructField("claim", CLAIM)]),
)
VALUES = {"channel": "a", "content": b"x", "claim": {"consumer": "etl", "seq": 1, "generation": 1, "id": 1}}

Given = Mapping[str, str]
Call = Callable[[Given, st.DataObject], None]


def read(made: type[DataSource]) -> Call:
    def call(given: Given, _: st.DataObject) -> None:
        source: Any = made(dict(given))
        reader = source.reader(source.schema())
        for partition in list(reader.partitions())[:2]:
            list(reader.read(partition))

    return call


def stream(made: type[DataSource]) -> Call:
    def call(given: Given, _: st.DataObject) -> None:
        source: Any = made(dict(given))
        reader: Any = source.streamReader(source.schema())
        try:
            start = reader.initialOffset()
            end = reader.latestOffset(start, ReadAllAvailable())
            for partition in reader.partitions(start, end)[:2]:
                list(reader.read(partition))
        finally:
            reader.stop()

    return call


def write(given: Given, data: st.DataObject) -> None:
    schema = data.draw(st.sampled_from(ROWS))
    made = QueueSource(dict(given)).writer(schema, overwrite=False)
    _publish(made, schema, made.commit)


def write_stream(given: Given, data: st.DataObject) -> None:
    schema = data.draw(st.sampled_from(ROWS))
    made = QueueSource(dict(given)).streamWriter(schema, overwrite=False)
    _publish(made, schema, lambda staged: made.commit(staged, 1))


def _publish(
    made: Any, schema: StructType, commit: Callable[[list[WriterCommitMessage | None]], None]
) -> None:
    rows = pa.RecordBatch.from_pylist([VALUES], to_arrow_schema(schema))
    staged = made.write(iter([rows]))
    object.__setattr__(staged, "query", "q")  # which Spark tells tasks of a stream
    try:
        commit([staged])
    except LonnyMQError:
        made.abort(*([staged], 1)[: 2 if "batchId" in made.abort.__code__.co_varnames else 1])
        raise


WAYS: dict[str, tuple[tuple[str, ...], Call]] = {
    "read lonnymq": (waiting_reader.OPTIONS, read(QueueSource)),
    "stream lonnymq": (claim_options.OPTIONS, stream(QueueSource)),
    "write lonnymq": (writer.OPTIONS, write),
    "write a stream lonnymq": (writer.OPTIONS, write_stream),
}
for made in CHANGES:
    options = known_options(made({}).change_view("lonnymq"))
    WAYS[f"read {made.name()}"] = (options, read(made))
    WAYS[f"stream {made.name()}"] = (options, stream(made))


@pytest.fixture
def address(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Options that reach the test's database."""
    parameters = conninfo_to_dict(dsn)
    lines = [f"[{SERVICE}]", *(f"{name}={value}" for name, value in parameters.items()), ""]
    (tmp_path / "services").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    monkeypatch.setenv("PGOPTIONS", "-c statement_timeout=5000 -c lock_timeout=5000")
    monkeypatch.setattr(transient_errors, "RETRY_TIMEOUT_S", -1)
    monkeypatch.setenv("FUZZED_DSN", "postgresql://")
    monkeypatch.chdir(tmp_path)
    return {"service": SERVICE}


def values(name: str) -> st.SearchStrategy[str]:
    if name == "host":
        return st.sampled_from(HOSTS)
    odd = (*TEXTS, *NUMBERS, *TIMES, *DURATIONS, *KNOWN)
    anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    if name in CONNECTION:  # an address of a network would be waited for
        return st.one_of(
            st.sampled_from(odd), anything.filter(lambda text: "=" not in text and ":" not in text)
        )
    return st.one_of(st.sampled_from(odd), st.sampled_from((*NUMBERS, *KNOWN)), anything)


class Formats:
    """Calls readers and writers, and collects what is wrong."""

    def __init__(self, conn: Conn, address: dict[str, str]) -> None:
        fill(conn)
        self.tables = Tables(conn)
        self.address = address
        self.before: dict[str, Any] | None = None
        self.errors: set[str] = set()
        self.wrong: list[str] = []
        self.accepted = 0

    def call(self, way: str, given: Given, data: st.DataObject) -> None:
        shown = f"{way}: {json.dumps({name: value[:300] for name, value in given.items()})}"
        before = self.tables.digest() if self.before is None else self.before
        begin = time.monotonic()
        options = {name.lower(): value for name, value in (self.address | dict(given)).items()}
        if way == "stream lonnymq":
            options.setdefault("consumer", "etl")
        try:
            WAYS[way][1](options, data)
        except LonnyMQError as error:
            self.errors.add(type(error).__name__)
            self.look_at(error, given, shown)
            is_refused = True
        except Exception as error:  # noqa: BLE001
            self.wrong.append(f"{type(error).__name__} {error!s:.300}: {shown}")
            is_refused = True
        else:
            is_refused = False
            self.accepted += 1
        if time.monotonic() - begin > MOST_S:
            self.wrong.append(f"it took {time.monotonic() - begin:.0f} s: {shown}")
        self.before = self.tables.digest()
        is_reading = way != "stream lonnymq" and not way.startswith("write")
        if (is_refused or is_reading) and self.before != before:
            self.wrong.append(f"it changed a table: {shown}")

    def look_at(self, error: LonnyMQError, given: Given, shown: str) -> None:
        text = str(error).lower()
        is_named = any(name.lower() in text for name in (*given, "contentSchema")) or not isinstance(
            error, InvalidArgument
        )
        is_named = is_named or not given.keys().isdisjoint(CONNECTION) or "column" in text or "batch" in text
        if not is_named or "traceback" in text or len(text) > 1_000_000:
            self.wrong.append(f"{type(error).__name__} {text[:300]} does not name the option: {shown}")


@pytest.fixture
def formats(conn: Conn, address: dict[str, str]) -> Formats:
    return Formats(conn, address)


def test_all_formats_and_options_are_tried_here() -> None:
    assert {made.name() for made in FORMATS} == {
        path.name.removeprefix("pyspark_") for path in Path(__file__).parents[2].glob("src/pyspark_*")
    }


@pytest.mark.parametrize(
    "examples", [1, pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(7200)])]
)
def test_odd_values(formats: Formats, examples: int) -> None:
    for way, (options, _) in WAYS.items():
        names = (*options, *CONNECTION, *OF_SPARK)
        for name in names:

            def call(data: st.DataObject, way: str = way, name: str = name, names: Any = names) -> None:
                others = data.draw(st.lists(st.sampled_from(names), max_size=2))
                chosen = {name, *(other for other in others if other not in CONNECTION)}
                formats.call(way, {one: data.draw(values(one)) for one in sorted(chosen)}, data)

            try_many(examples, call)
    assert not formats.wrong, "\n".join(formats.wrong[:40])
    assert {"InvalidOption", "InvalidColumns", "DatabaseUnreachable"} <= formats.errors
    assert formats.accepted > 20
