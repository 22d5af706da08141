"""Filters, times and limits of the readers of history and dead letters, called without Spark."""

import json
import time
from collections.abc import Iterator
from typing import Any, Protocol

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from lonnymq.spark.changes import stream_reader as stream_module
from lonnymq.spark.changes.change_source import ChangeSource
from lonnymq.spark.changes.dead_source import DeadSource
from lonnymq.spark.changes.history_source import HistorySource
from lonnymq.spark.changes.offsets import Offset
from lonnymq.spark.changes.range_reader import RowsLost
from lonnymq.spark.changes.stream_reader import StreamReader
from lonnymq.spark.source_options import InvalidOption, SourceOptions
from lonnymq.spark.waiting_reader import WaitingReader, waiting_columns
from tests.database import Connect
from tests.isolation.shared_database import until
from tests.spark.change_rows import Row, batches_of, position, rows_of, stream_reader

ID = 1
T = 1_700_000_000_000


class OpenStream(Protocol):
    def __call__(self, **more: str) -> StreamReader: ...


@pytest.fixture
def stream(options: dict[str, str]) -> Iterator[OpenStream]:
    opened: list[StreamReader] = []

    def open_one(**more: str) -> StreamReader:
        opened.append(stream_reader(options, **more))
        return opened[-1]

    yield open_one
    for reader in opened:
        reader.stop()


def finish(
    conn: psycopg.Connection,
    *ids: int,
    channel: str = "acme",
    lane: str = "default",
    at: int | None = None,
    size: int = 10,
) -> None:
    """Finish these messages in one transaction, each one millisecond after the other."""
    query = """
        INSERT INTO finished (id, created_at, dequeue_at, finished_at, attempts, content_bytes, outcome,
            channel, lane, priority, cost)
        SELECT n, 0, 0, %s + n, 1, %s, 'completed', %s, %s, 0, 1 FROM unnest(%s::BIGINT[]) n"""
    conn.execute(query, (T if at is None else at, size, channel, lane, list(ids)))


def ids(rows: list[Row]) -> list[int]:
    return sorted(row[ID] for row in rows)


def table(options: dict[str, str], **more: str) -> list[int]:
    return read_once(HistorySource(options | more))


def read_once(made: ChangeSource) -> list[int]:
    reader = made.reader(made.schema())
    return ids(rows_of(reader, list(reader.partitions())))


FOUR = [(1, "acme", "default"), (2, "acme.eu", "slow"), (3, "o'neil %s \\d", "default"), (4, "ACME", "fast")]
FILTERS = [
    ({"lanes": "slow, fast"}, [2, 4]),
    ({"channels": "acme,o'neil %s \\d"}, [1, 3]),
    ({"channelPattern": "acme"}, [1]),
    ({"channelPattern": "acme|ACME"}, [1, 4]),
    ({"channelPattern": r"acme\.[a-z]+"}, [2]),
    ({"channelPattern": r"o'neil %s \\\w"}, [3]),
    ({"channelPattern": "cm"}, []),
    ({"channelPattern": "(?i)Acme"}, [1, 4]),
    ({"channelPattern": "(?:a|A).*", "lanes": "fast"}, [4]),
]


def test_filters_choose_rows_of_tables_and_streams(
    options: dict[str, str], conn: psycopg.Connection, stream: OpenStream
) -> None:
    for number, channel, lane in FOUR:
        finish(conn, number, channel=channel, lane=lane)
        conn.execute("SELECT message_create(%s, 'x', p_lane => %s)", (channel, lane))
    first = conn.execute("SELECT MIN(id) FROM message").fetchall()[0][0]
    for given, expected in FILTERS:
        assert table(options, **given) == expected, given
        reader = stream(**given, maxOffsetsPerTrigger="1")
        reader.prepareForTriggerAvailableNow()
        batches = [ids(rows) for rows, _ in batches_of(reader, reader.initialOffset())]
        assert [one for batch in batches for one in batch] == expected, given
        waiting = WaitingReader(options | given, waiting_columns(options | given).schema())
        found = [
            batch.column("id").to_pylist() for part in waiting.partitions() for batch in waiting.read(part)
        ]
        assert sorted(one - first + 1 for each in found for one in each) == expected, given


@pytest.mark.parametrize("pattern", ["(", "a)|(b", "[a", "*", "a\\"])
def test_a_pattern_that_is_wrong_is_named(options: dict[str, str], stream: OpenStream, pattern: str) -> None:
    given = {"channelPattern": pattern}
    with pytest.raises(InvalidOption, match=r"channelPattern is .*: invalid regular expression"):
        table(options, **given)
    with pytest.raises(InvalidOption, match="channelPattern is"):
        stream(**given).initialOffset()
    reader = stream(**given)
    with pytest.raises(InvalidOption, match="channelPattern is"):
        reader.latestOffset(stream().initialOffset(), ReadAllAvailable())
    with pytest.raises(InvalidOption, match="channelPattern is"):
        WaitingReader(options | given, waiting_columns(options).schema()).partitions()


def test_a_stream_whose_filter_matches_nothing_moves_on(
    conn: psycopg.Connection, stream: OpenStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at every trigger. Otherwise it would fail when rows are dropped that it does not want."""
    reader = stream(channels="other")
    finish(conn, 1, channel="other")
    [(_, start)] = batches_of(reader, reader.initialOffset())
    finish(conn, 2)
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    monkeypatch.setattr(stream_module, "PASS_AFTER_S", 0.0)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end != start
    assert reader.partitions(start, end) == []
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    conn.execute("UPDATE maintenance SET trimmed_xid = (SELECT xid FROM finished ORDER BY xid DESC LIMIT 1)")
    conn.execute("DELETE FROM finished")
    finish(conn, 3, channel="other")
    [(rows, _)] = batches_of(stream(channels="other"), end)
    assert ids(rows) == [3]
    with pytest.raises(RowsLost):
        stream(channels="other").latestOffset(start, ReadAllAvailable())


def test_a_filtered_batch_ends_after_the_rows_that_it_leaves_out(
    conn: psycopg.Connection, stream: OpenStream
) -> None:
    finish(conn, 1, channel="other")
    for number in range(2, 30):
        finish(conn, number)
    reader = stream(channels="other")
    [(rows, end)] = batches_of(reader, reader.initialOffset())
    assert ids(rows) == [1]
    assert not reader.driver.read(
        lambda cursor: reader.view.has_rows(
            cursor, Offset.of(end).snapshot, reader.view.state(cursor).snapshot
        )
    )


def test_times_are_exact_whatever_transactions_they_are_in(
    options: dict[str, str], conn: psycopg.Connection, connect: Connect, stream: OpenStream
) -> None:
    slow = connect(autocommit=False)
    finish(slow, 1, 8)  # this transaction is older, and has rows on both sides
    finish(conn, 2, 9)
    finish(conn, 7)
    finish(conn, 3)
    split = {"startingTimestamp": str(T + 5)}
    reader = stream(**split, maxOffsetsPerTrigger="1")
    at = reader.initialOffset()
    batches = list(batches_of(reader, at))
    assert [ids(rows) for rows, _ in batches] == [[9], [7]]
    at = batches[-1][1]
    slow.commit()
    finish(conn, 4, 10)
    again = stream(startingOffsets="latest")  # a checkpoint decides, not the option
    assert [ids(rows) for rows, _ in batches_of(again, at)] == [[8, 10]]
    assert table(options, **split) == [7, 8, 9, 10]
    assert table(options, endingTimestamp=str(T + 8)) == [1, 2, 3, 4, 7]
    assert table(options, **split, endingTimestamp=str(T + 8)) == [7]
    assert table(options, startingOffsets=json.dumps(at), endingTimestamp=str(T + 9)) == [8]
    assert table(options, startingTimestamp="0") == [1, 2, 3, 4, 7, 8, 9, 10]
    future = stream(startingTimestamp=str(T + 50))
    at = future.initialOffset()
    finish(conn, 49, 50)
    assert [ids(rows) for rows, _ in batches_of(future, at)] == [[50]]


def test_dead_letters_by_time_lane_and_bytes(options: dict[str, str], conn: psycopg.Connection) -> None:
    query = """
        INSERT INTO dead (id, generation, channel, dead_at, dequeue_at, created_at, attempts, content, lane,
            priority, cost)
        VALUES (%s, 0, 'acme', %s, 0, 0, 1, %s, %s, 0, 1)"""
    for number, lane in [(1, "slow"), (2, "fast"), (3, "slow")]:
        conn.execute(query, (number, T + number, b"x" * 10, lane))
    some = {"lanes": "slow", "startingTimestamp": str(T + 2)}
    assert read_once(DeadSource(options | some)) == [3]
    reader = stream_reader(options, "dead_letters", maxBytesPerTrigger="20")
    assert [ids(rows) for rows, _ in batches_of(reader, reader.initialOffset())] == [[1, 2], [3]]
    reader.stop()


def test_bytes_and_rows_per_trigger(conn: psycopg.Connection, connect: Connect, stream: OpenStream) -> None:
    slow = [connect(autocommit=False) for _ in range(2)]
    for number, session in enumerate(slow):
        finish(session, 100 + number, size=60)
    for number, size in enumerate([40, 40, 40, 500, 0, 100], 1):
        finish(conn, number, size=size)
    reader = stream(maxBytesPerTrigger="100")
    at = reader.initialOffset()
    batches = list(batches_of(reader, at))
    assert [ids(rows) for rows, _ in batches] == [[1, 2], [3], [4], [5, 6]]
    both = stream(maxBytesPerTrigger="100", maxOffsetsPerTrigger="1")
    assert [ids(rows) for rows, _ in batches_of(both, at)] == [[one] for one in range(1, 7)]
    assert [ids(rows) for rows, _ in batches_of(reader, at, ReadAllAvailable())] == [list(range(1, 7))]
    for session in slow:
        session.commit()
    finish(conn, 7, size=40)
    late = [ids(rows) for rows, _ in batches_of(stream(maxBytesPerTrigger="100"), batches[-1][1])]
    assert late == [[100], [7, 101]]


def test_a_batch_waits_for_enough_rows_or_long_enough(conn: psycopg.Connection, stream: OpenStream) -> None:
    reader = stream(minOffsetsPerTrigger="3", maxTriggerDelay="1h")
    start = reader.initialOffset()
    everything = ReadAllAvailable()
    finish(conn, 1)
    at = reader.latestOffset(start, everything)
    assert at != start, "the first batch does not wait"
    for number in (2, 3):
        finish(conn, number)
        assert reader.latestOffset(at, everything) == at
    latest = reader.reportLatestOffset()
    assert latest is not None
    assert latest["rows_behind"] == 2
    finish(conn, 4)
    [(rows, at)] = batches_of(reader, at)
    assert ids(rows) == [2, 3, 4]
    finish(conn, 5)
    assert reader.latestOffset(at, everything) == at
    reader.prepareForTriggerAvailableNow()
    [(rows, _)] = batches_of(reader, at)
    assert ids(rows) == [5]
    hasty = stream(minOffsetsPerTrigger="3", maxTriggerDelay="1ms")
    hasty.latestOffset(start, everything)
    until(lambda: hasty.latestOffset(at, everything) != at, "the delay is over")


def test_the_latest_offset_says_how_far_behind_the_stream_is(
    conn: psycopg.Connection, stream: OpenStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = stream(maxOffsetsPerTrigger="2", channels="acme")
    finish(conn, 1, channel="other")
    for number in range(2, 9):
        finish(conn, number)
    behind: list[Any] = []
    for _ in batches_of(reader, reader.initialOffset()):
        latest = reader.reportLatestOffset()
        assert latest is not None
        behind.append(latest["rows_behind"])
        assert stream(startingOffsets=json.dumps(latest)).initialOffset()["snapshot"] == latest["snapshot"]
    assert behind == [5, 3, 1, 0]
    monkeypatch.setattr(stream_module, "COUNTED_AT_MOST", 3)
    reader.latestOffset(stream().initialOffset(), reader.getDefaultReadLimit())
    latest = reader.reportLatestOffset()
    assert latest is not None
    assert latest["rows_behind"] == 3


def test_an_idle_stream_asks_rarely(conn: psycopg.Connection, stream: OpenStream) -> None:
    """Spark asks again after 10 ms. One question is one transaction, also if others are active."""
    reader = stream(channels="acme")
    finish(conn, 1)
    [(_, at)] = batches_of(reader, reader.initialOffset())
    limit = reader.getDefaultReadLimit()
    reader.latestOffset(at, limit)
    before, begin = transactions(conn), time.monotonic()
    for number in range(20):
        if number % 4 == 0:
            conn.execute("SELECT pg_current_xact_id()")
        assert reader.latestOffset(at, limit) == at
    seconds = time.monotonic() - begin
    reader.stop()  # PostgreSQL counts the last ones when the session ends
    until(lambda: transactions(conn) - before >= 20, "the transactions are counted")
    assert transactions(conn) - before <= 20 + 30, "with those of this test"
    assert seconds >= 20 * stream_module.IDLE_PAUSE_S


def transactions(conn: psycopg.Connection) -> int:
    """Of sessions of Spark; the session of the test counts its own transactions later."""
    query = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
    return int(conn.execute(query).fetchall()[0][0])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"startingOffsets": "latest", "startingTimestamp": "1"}, "exclude each other"),
        ({"endingOffsets": "latest", "endingTimestamp": "1"}, "exclude each other"),
        ({"channels": "a", "channelPattern": "a"}, "exclude each other"),
        ({"channels": f"a,{'é' * 128}"}, "channels has a name of more than 255 bytes"),
        ({"user": "a\0b"}, "user contains a NUL character"),
        ({"startingOffsets": "[" * 100_000}, "startingOffsets is not a position"),
        (
            {"contentFormat": "json", "contentSchema": "a " + "ARRAY<" * 5_000},
            "contentSchema is nested too deep",
        ),
        ({"contentFormat": "avro", "contentSchema": "[" * 100_000}, "contentSchema: the schema is not JSON"),
        ({"channels": "a,,b"}, "channels is 'a,,b', with an empty name"),
        ({"lanes": "a\0"}, "lanes contains a NUL"),
        ({"channelPattern": ""}, "channelPattern is empty"),
        ({"startingTimestamp": "2030-01-01"}, r"is not a whole number \(give Unix milliseconds"),
        (
            {"maxOffsetPerTrigger": "5"},
            r"\(did you mean maxOffsetsPerTrigger\? The options are channelPattern, ",
        ),
        ({"quux": "5"}, r"\(the options are channelPattern, "),
        ({"maxOffsetsPerTrigger": "0"}, r"\(give at least 1\)"),
        ({"minOffsetsPerTrigger": "5", "maxTriggerDelay": "soon"}, "is not a duration"),
        ({"maxTriggerDelay": "5m"}, "maxTriggerDelay needs minOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "more than maxOffsetsPerTrigger"),
        ({"maxMessagesPerTrigger": "5"}, "no option maxmessagespertrigger .*maxOffsetsPerTrigger"),
        ({"numPartitions": "5"}, "no option numpartitions .*minPartitions"),
    ],
)
def test_options_that_are_refused_at_load(options: dict[str, str], given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        HistorySource(options | given).schema()


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger"])
def test_options_of_a_stream_or_of_a_table(options: dict[str, str], name: str) -> None:
    with pytest.raises(InvalidOption, match=f"{name} is for streams"):
        table(options, **{name: "5"})
    with pytest.raises(InvalidOption, match="endingTimestamp is for batches"):
        stream_reader(options, endingTimestamp="5")


def test_durations() -> None:
    given = {"ms": "500ms", "s": "10s", "m": "15m", "min": "2 min", "h": "3H", "d": "1d"}
    options = SourceOptions(given, given)
    assert [options.delay_ms(name) for name in given] == [
        500,
        10_000,
        900_000,
        120_000,
        10_800_000,
        86_400_000,
    ]
    assert options.delay_ms("other") is None


def test_a_position_of_a_stream_without_since(conn: psycopg.Connection) -> None:
    assert Offset.of(position(conn)).since is None
