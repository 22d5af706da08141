"""The readers of history, called without Spark: what they find, how they split it, and what it costs."""

import json
import pickle
import random
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Protocol

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from lonnymq.errors import DatabaseUnreachable, PositionUnknown, SchemaError
from lonnymq.spark.changes.batch_reader import BatchReader
from lonnymq.spark.changes.change_view import PLANNER_SETTINGS
from lonnymq.spark.changes.filters import PushedFilters
from lonnymq.spark.changes.history_source import HistorySource
from lonnymq.spark.changes.offsets import Offset
from lonnymq.spark.changes.range_reader import BATCH_BYTES, RowsLost
from lonnymq.spark.changes.snapshots import EARLIEST, Snapshot
from lonnymq.spark.changes.stream_reader import StreamReader
from lonnymq.spark.connection import QueueConnection
from lonnymq.spark.source_options import InvalidOption
from tests.database import AnyServer, Connect
from tests.invariants import dequeue, dispatch
from tests.isolation.shared_database import until
from tests.spark.change_rows import ANY_ROW, Row, batches_of, finish, position, rows_of, stream_reader

XID, ID = 0, 1
TODAY = ANY_ROW.replace("0, 1700000000000 + n, 1,", "0, {}, 1,")
no_deadline = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def batch_reader(options: dict[str, str], **more: str) -> BatchReader:
    source = HistorySource(options | more)
    reader = source.reader(source.schema())
    assert isinstance(reader, BatchReader)
    return reader


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


def ids(rows: list[Row]) -> list[int]:
    return sorted(row[ID] for row in rows)


class Writers:
    """Sessions that finish messages in transactions, which stay open for a while."""

    def __init__(self, connect: Connect, chance: random.Random, count: int = 6) -> None:
        self.chance = chance
        self.sessions = [connect(autocommit=False) for _ in range(count)]
        self.pending: dict[int, list[int]] = {}
        self.committed: set[int] = set()
        self.last_id = 0

    def step(self) -> None:
        number = self.chance.randrange(len(self.sessions))
        session = self.sessions[number]
        action = self.chance.choice(["write", "write", "commit", "commit", "roll back"])
        if action == "write":
            many = self.chance.choice([1, 1, 2, 5, 30])
            self.pending.setdefault(number, []).extend(finish(session, self.last_id + 1, self.last_id + many))
            self.last_id += many
        elif action == "commit":
            session.commit()
            self.committed.update(self.pending.pop(number, []))
        else:
            session.rollback()
            self.pending.pop(number, None)

    def commit_all(self) -> None:
        for number, session in enumerate(self.sessions):
            session.commit()
            self.committed.update(self.pending.pop(number, []))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 4))])
@pytest.mark.parametrize(
    "limit", [None, "4", *(pytest.param(limit, marks=pytest.mark.long) for limit in ("1", "25"))]
)
def test_every_row_once_and_no_transaction_split(
    stream: OpenStream, connect: Connect, seed: int, limit: str | None
) -> None:
    chance = random.Random(seed)
    writers = Writers(connect, chance)
    limited = {} if limit is None else {"maxOffsetsPerTrigger": limit}
    reader = stream(minPartitions=chance.choice(["1", "3"]), **limited)
    at, read, transactions = reader.initialOffset(), list[Row](), list[set[int]]()
    for _ in range(8):
        for _ in range(chance.randrange(25)):
            writers.step()
        if chance.random() < 0.3:  # the stream is restarted
            reader = stream(**limited)
        batches = batches_of(reader, at)
        for rows, end in islice(batches, chance.choice([1, None])):
            at, read = end, read + rows
            transactions.append({row[XID] for row in rows})
            assert rows
            assert limit is None or len(rows) <= int(limit) or len(transactions[-1]) == 1
    writers.commit_all()
    for rows, _ in batches_of(reader, at):
        read += rows
        transactions.append({row[XID] for row in rows})
    assert ids(read) == sorted(writers.committed)
    assert sum(map(len, transactions)) == len(set().union(*transactions))


def test_available_now_reads_what_was_there_and_stops(
    stream: OpenStream, conn: psycopg.Connection, connect: Connect
) -> None:
    slow = connect(autocommit=False)
    finish(slow, 1, 3)
    for one in range(4, 10):
        finish(conn, one)
    reader = stream(maxOffsetsPerTrigger="2")
    reader.prepareForTriggerAvailableNow()
    slow.commit()
    finish(conn, 100, 120)
    read = [ids(rows) for rows, _ in batches_of(reader, reader.initialOffset())]
    assert read == [[4, 5], [6, 7], [8, 9]]


def test_a_transaction_larger_than_the_limit_is_one_batch(
    stream: OpenStream, conn: psycopg.Connection
) -> None:
    for first, last in [(1, 2), (3, 52), (53, 53), (54, 103)]:
        finish(conn, first, last)
    reader = stream(maxOffsetsPerTrigger="10")
    read = [len(rows) for rows, _ in batches_of(reader, reader.initialOffset())]
    assert read == [2, 50, 1, 50]


def test_the_limit_applies_to_transactions_that_were_open_at_the_start(
    stream: OpenStream, conn: psycopg.Connection, connect: Connect
) -> None:
    sessions = [connect(autocommit=False) for _ in range(5)]
    for number, session in enumerate(sessions):
        finish(session, number * 10, number * 10 + 3)
    finish(conn, 100)
    reader = stream(maxOffsetsPerTrigger="8")
    [(rows, at)] = batches_of(reader, reader.initialOffset())
    assert ids(rows) == [100]
    for session in sessions:
        session.commit()
    finish(conn, 101)
    assert [len(rows) for rows, _ in batches_of(reader, at)] == [8, 8, 5]


def test_other_transactions_make_no_batch(stream: OpenStream, conn: psycopg.Connection) -> None:
    finish(conn, 1)
    reader = stream()
    [(_, at)] = batches_of(reader, reader.initialOffset())
    for _ in range(3):
        conn.execute("SELECT id FROM message_create('a', 'x')")
        assert reader.latestOffset(at, reader.getDefaultReadLimit()) == at
    finish(conn, 2)
    [(rows, _)] = batches_of(reader, at)
    assert ids(rows) == [2]


def test_partitions_are_the_same_for_the_same_positions(stream: OpenStream, conn: psycopg.Connection) -> None:
    for one in range(1, 60):
        finish(conn, one)
    reader = stream(minPartitions="4")
    start = end = reader.initialOffset()

    def has_read_all() -> bool:
        """Rows behind an open transaction are read later, and autovacuum opens some."""
        nonlocal end
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        return len(rows_of(reader, reader.partitions(start, end))) == 59

    until(has_read_all, "all rows")
    first = reader.partitions(start, end)
    for one in range(60, 90):
        finish(conn, one)
    again = stream(minPartitions="4").partitions(start, end)
    assert again == first
    assert pickle.loads(pickle.dumps(first)) == first  # noqa: S301 # Spark does
    sizes = [len(rows_of(reader, [part])) for part in first]
    assert len(sizes) >= 4
    assert max(sizes) <= 15


def test_a_dense_part_of_a_wide_range_is_split(options: dict[str, str], conn: psycopg.Connection) -> None:
    """The first count over a range of years has the transactions of an hour in one group."""
    insert_old(conn, 400, 400)
    reader = batch_reader(options, minPartitions="8")
    ranges, wide = reader.options.range_reader(reader.view), Offset(Snapshot.of(2**40), 1)
    with closing(QueueConnection(reader.options.address, PLANNER_SETTINGS)) as driver:
        state = driver.read(reader.view.state)
        parts = driver.read(lambda cursor: ranges.partitions(cursor, Offset(EARLIEST, 1), wide, state))
    assert 8 <= len(parts) <= 9


def test_large_rows_come_in_small_batches(options: dict[str, str], conn: psycopg.Connection) -> None:
    """An executor needs only a few megabytes, however many rows there are."""
    finish(conn, 1, 40)
    conn.execute("UPDATE finished SET content = convert_to(repeat(id % 10 || '', 1048576), 'UTF8')")
    reader = batch_reader(options)
    [part] = reader.partitions()
    sizes = [batch.nbytes for batch in reader.read(part)]
    assert sum(sizes) > 40 * 2**20
    assert max(sizes) < BATCH_BYTES + 2 * 2**20


def test_a_reader_that_stops_early_leaves_no_session(
    options: dict[str, str], conn: psycopg.Connection
) -> None:
    finish(conn, 1, 40)
    conn.execute("UPDATE finished SET content = convert_to(repeat('x', 1048576), 'UTF8')")
    reader = batch_reader(options)
    [part] = reader.partitions()
    batches: Any = reader.read(part)
    assert next(batches).num_rows < 40
    query = """SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'lonnymq spark'"""
    assert conn.execute(query).rowcount == 1
    batches.close()
    until(lambda: conn.execute(query).rowcount == 0, "the session is closed")


def insert_old(conn: psycopg.Connection, rows: int, xids: int) -> None:
    """Insert history with transaction ids that every cluster has used already."""
    query = """
        INSERT INTO finished
            (xid, id, created_at, dequeue_at, finished_at, attempts, content_bytes, outcome, channel,
            lane, priority, cost)
        SELECT (3 + n %% %s)::TEXT::XID8, -n, 0, 0, n, 1, 0, 'completed', 'old ' || n %% 10, 'default', 0, 1
        FROM generate_series(1, %s) n"""
    conn.execute(query, (xids, rows))


class Explained:
    """A cursor that also explains what it runs."""

    def __init__(self, cursor: psycopg.Cursor[Any]) -> None:
        self.cursor = cursor
        self.buffers = 0
        self.plans = ""

    def execute(self, query: str) -> None:
        self.cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}".encode())
        [[(explained,)]] = [self.cursor.fetchall()]
        plan = explained[0]["Plan"]
        self.buffers += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        self.plans += json.dumps(plan)
        self.cursor.execute(query.encode())

    def fetchall(self) -> list[Any]:
        return self.cursor.fetchall()


def cost(options: dict[str, str], start: dict[str, Any]) -> Explained:
    """The cost of a limited trigger with transactions that were open before."""
    reader = stream_reader(options)
    begin = Offset.of(start)
    with closing(QueueConnection(reader.options.address, PLANNER_SETTINGS)) as driver:
        state = driver.read(reader.view.state)

        def trigger(cursor: Any) -> Explained:
            explained = Explained(cursor)
            reader.view.state(explained)
            assert reader.view.has_rows(explained, begin.snapshot, state.snapshot)
            reader.reader.limited(explained, begin.snapshot, state.snapshot, 12)
            end = Offset(state.snapshot, begin.system)
            for part in reader.reader.partitions(explained, begin, end, state):
                explained.execute(reader.view.query(part.where))
            return explained

        driver.read(trigger)  # the first run costs more
        return driver.read(trigger)


def test_old_history_costs_nothing(
    options: dict[str, str], conn: psycopg.Connection, connect: Connect
) -> None:
    """Whatever the statistics say: here they say that all rows are new."""
    conn.execute("ALTER TABLE finished_other SET (autovacuum_enabled = FALSE)")
    slow = connect(autocommit=False)
    finish(slow, 1, 5)
    start = position(conn)
    slow.commit()
    for one in range(10, 30):
        finish(conn, one)
    conn.execute("ANALYZE finished")
    insert_old(conn, 500, 400)
    little = cost(options, start)
    insert_old(conn, 100_000, 400)
    much = cost(options, start)
    assert "xid" in re.findall(r'"Index Name": "(\w+)"', much.plans)[0]
    assert "Seq Scan" not in much.plans
    assert much.buffers <= little.buffers * 1.2 + 20


def test_rows_of_a_restored_dump_are_detected(options: dict[str, str], conn: psycopg.Connection) -> None:
    finish(conn, 1, 2)
    conn.execute("UPDATE finished SET xid = '9000000000' WHERE id = 2")
    reader = batch_reader(options)
    with pytest.raises(PositionUnknown, match="not run yet") as refused:
        reader.partitions()
    assert refused.value.hint is not None
    conn.execute(refused.value.hint.removeprefix("give them a new transaction id: ").encode())
    assert ids(rows_of(reader, reader.partitions())) == [1, 2]


def test_a_broken_connection_is_opened_again(stream: OpenStream, conn: psycopg.Connection) -> None:
    reader = stream()
    at = reader.initialOffset()
    assert reader.driver.connection is not None
    pid = reader.driver.connection.info.backend_pid
    conn.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
    finish(conn, 1)
    [(rows, _)] = batches_of(reader, at)
    assert ids(rows) == [1]


def test_an_unreachable_database_has_its_own_error(
    stream: OpenStream, conn: psycopg.Connection, server: AnyServer
) -> None:
    reader = stream()
    at = reader.initialOffset()
    assert reader.driver.connection is not None
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {conn.info.dbname} ALLOW_CONNECTIONS FALSE".encode())
        admin.execute("SELECT pg_terminate_backend(%s, 10000)", (reader.driver.connection.info.backend_pid,))
        with pytest.raises(DatabaseUnreachable):
            reader.latestOffset(at, reader.getDefaultReadLimit())
        admin.execute(f"ALTER DATABASE {conn.info.dbname} ALLOW_CONNECTIONS TRUE".encode())
    assert reader.latestOffset(at, reader.getDefaultReadLimit()) == at


@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets"])
@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "{}",
        "[]",
        "12",
        '{"snapshot": "1:1:"}',
        '{"snapshot": 1, "system": 1}',
        '{"snapshot": "9:3:", "system": 1}',
        '{"snapshot": "1:1:", "system": 1, "more": 1}',
    ],
)
def test_invalid_positions_are_refused(options: dict[str, str], name: str, text: str) -> None:
    with pytest.raises(InvalidOption, match=f"{name} is not a position"):
        HistorySource(options | {name: text}).schema()


@pytest.mark.parametrize(
    ("option", "value", "what"),
    [
        ("maxOffsetsPerTrigger", "5", "is for streams"),
        ("startingOffsets", "latest", "has no rows"),
        ("endingOffsets", "earliest", "has no rows"),
        ("minPartitions", "0", "a number from 1"),
        ("includeContent", "perhaps", "true or false"),
        ("failOnDataloss", "1", "true or false"),
        ("startOffsets", "latest", "there is no option"),
    ],
)
def test_a_batch_refuses_invalid_options(options: dict[str, str], option: str, value: str, what: str) -> None:
    with pytest.raises(InvalidOption, match=what):
        batch_reader(options, **{option: value})


def test_a_stream_has_no_end(options: dict[str, str]) -> None:
    with pytest.raises(InvalidOption, match="endingOffsets is for batches"):
        stream_reader(options, endingOffsets=json.dumps({"snapshot": "1:1:", "system": 1}))


def test_impossible_positions_are_refused(stream: OpenStream, conn: psycopg.Connection) -> None:
    finish(conn, 1)
    reader, here = stream(), position(conn)
    limit, now = reader.getDefaultReadLimit(), Snapshot.parse(here["snapshot"])
    elsewhere = here | {"system": here["system"] + 1}
    ahead = here | {"snapshot": str(Snapshot.of(now.xmax + 1_000))}
    for wrong, what in [(elsewhere, "of another cluster"), (ahead, "ahead of the database")]:
        with pytest.raises(PositionUnknown, match=what):
            reader.latestOffset(wrong, limit)
        for start, end in [(wrong, here), (here, wrong)]:
            with pytest.raises(PositionUnknown, match=what):
                reader.partitions(start, end)
        with pytest.raises(PositionUnknown, match=what):
            stream(startingOffsets=json.dumps(wrong)).initialOffset()
    with pytest.raises(PositionUnknown, match="is not after the start"):
        reader.partitions(here, here | {"snapshot": "1:1:"})
    with pytest.raises(PositionUnknown, match="is not a position"):
        reader.latestOffset({"seq": 1}, limit)


def test_an_executor_on_a_server_that_lags_fails(
    stream: OpenStream, conn: psycopg.Connection, connect: Connect
) -> None:
    """The server may be a standby that lags, if the address has several hosts."""
    finish(conn, 1)
    slow = connect(autocommit=False)
    finish(slow, 2)
    finish(conn, 3)
    reader, here = stream(), position(conn)
    [part] = reader.partitions(here | {"snapshot": "1:1:"}, here)
    assert ids(rows_of(reader, [part])) == [1, 3]
    now = Snapshot.parse(here["snapshot"])
    with_more = Offset(Snapshot.of(now.xmax), here["system"])  # as if the slow one had been seen
    with pytest.raises(PositionUnknown, match="ahead of the database"):
        rows_of(reader, [replace(part, end=with_more)])


@pytest.mark.parametrize("fails", ["true", "false"])
def test_rows_that_were_dropped_before_they_were_read(
    stream: OpenStream, conn: psycopg.Connection, fails: str
) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE)")
    start = position(conn)
    finish(conn, 1, 5)
    reader = stream(failOnDataLoss=fails)
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    parts = reader.partitions(start, end)
    conn.execute("SELECT maintain()")
    finish(conn, 6)
    if fails == "true":
        for late in (
            lambda: rows_of(reader, parts),
            lambda: reader.partitions(start, end),
            lambda: reader.latestOffset(start, reader.getDefaultReadLimit()),
        ):
            with pytest.raises(RowsLost, match="failOnDataLoss"):
                late()
    assert rows_of(stream(failOnDataLoss="false"), parts) == []
    assert [ids(rows) for rows, _ in batches_of(stream(failOnDataLoss=fails), end)] == [[6]]
    [(rows, _)] = batches_of(stream(failOnDataLoss=fails), stream().initialOffset())
    assert ids(rows) == [6]


def test_rows_that_were_removed_by_hand_after_the_read_was_planned(
    options: dict[str, str], stream: OpenStream, conn: psycopg.Connection
) -> None:
    """A partition of the history was dropped, and superseded policies were deleted. A dead letter may go."""
    conn.execute("SELECT queue_set(p_history => TRUE)")
    start = position(conn)
    for first, last, day in ((1, 100, "(SELECT clock_ms())"), (101, 105, "n")):
        conn.execute(TODAY.format(day).encode(), (first, last))
    reader, pushing = stream(), batch_reader(options)
    list(pushing.pushFilters([EqualTo(("channel",), "channel 3")]))
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    parts, filtered = reader.partitions(start, end), pushing.partitions()
    for _ in range(2):  # a task that is repeated
        assert len(rows_of(reader, parts)) == 105
        assert len(rows_of(pushing, filtered)) == 15
    [(day,)] = conn.execute("SELECT DISTINCT tableoid::REGCLASS::TEXT FROM finished WHERE id = 1").fetchall()
    conn.execute(f"DROP TABLE {day}".encode())
    for broken, planned in ((reader, parts), (pushing, filtered)):
        with pytest.raises(
            RowsLost, match=r"history had \d+ rows when the read was planned, and \d+ of them"
        ):
            rows_of(broken, planned)
    assert len(rows_of(stream(failOnDataLoss="false"), parts)) == 5
    assert len(rows_of(reader, reader.partitions(start, end))) == 5

    for limit in (1, 2, 3):
        conn.execute("SELECT channel_set('a', %s)", (limit,))
    policies = stream(view="policies")
    end = policies.latestOffset(start, policies.getDefaultReadLimit())
    parts = policies.partitions(start, end)
    conn.execute("DELETE FROM policy_log WHERE max_concurrency = 1")
    with pytest.raises(RowsLost, match="policies had 3 rows when the read was planned, and 1 of them"):
        rows_of(policies, parts)

    conn.execute("SELECT message_create('a', 'x', p_max_attempts => 1)")
    dispatch(conn)
    [message] = dequeue(conn, 1, 60_000)[0]
    conn.execute("SELECT message_retry(%s, %s, p_error => 'broken')", (message.id, message.token))
    dead = stream(view="dead_letters")
    parts = dead.partitions(start, dead.latestOffset(start, dead.getDefaultReadLimit()))
    assert len(rows_of(dead, parts)) == 1
    conn.execute("SELECT dead_discard(%s)", ([message.id],))
    assert rows_of(dead, parts) == []


def test_a_transaction_that_was_open_when_others_were_dropped_is_not_lost(
    stream: OpenStream, conn: psycopg.Connection, connect: Connect
) -> None:
    """While it is open it has committed no row that could have been dropped."""
    slow = connect(autocommit=False)
    slow.execute("SELECT pg_current_xact_id()")
    finish(conn, 1)
    reader = stream()
    [(_, at)] = batches_of(reader, reader.initialOffset())
    conn.execute("SELECT maintain()")
    assert reader.latestOffset(at, reader.getDefaultReadLimit()) == at


def test_a_missing_schema_has_its_own_error(options: dict[str, str]) -> None:
    with pytest.raises(SchemaError):
        batch_reader(options, schema="elsewhere").partitions()


INSTANTS = st.integers(-3_000, 3_000).map(
    lambda n: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=n)
)
COMPARISONS: list[tuple[Any, Any]] = [
    (EqualTo, lambda a, b: a == b),
    (GreaterThan, lambda a, b: a > b),
    (GreaterThanOrEqual, lambda a, b: a >= b),
    (LessThan, lambda a, b: a < b),
    (LessThanOrEqual, lambda a, b: a <= b),
]


@no_deadline
@given(instant=INSTANTS, comparison=st.sampled_from(COMPARISONS))
def test_times_are_compared_as_spark_does(
    conn: psycopg.Connection, instant: datetime, comparison: tuple[Any, Any]
) -> None:
    """To the microsecond, of which ours have none."""
    kind, holds = comparison
    pushed = PushedFilters(texts=("channel",), times=("finished_at",))
    assert pushed([kind(("finished_at",), instant)]) == []
    query = f"SELECT finished_at FROM generate_series(-4, 4) finished_at WHERE {pushed.conditions[0]}"
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    expected = [n for n in range(-4, 5) if holds(epoch + timedelta(milliseconds=n), instant)]
    assert [row[0] for row in conn.execute(query.encode())] == expected


@no_deadline
@given(values=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), max_size=3))
def test_texts_are_compared_as_they_are(conn: psycopg.Connection, values: list[str]) -> None:
    pushed = PushedFilters(texts=("channel",), times=())
    assert pushed([In(("channel",), (*values, None))]) == []
    others = ["", "a", "'", "\\", "%", "''"]
    query = (
        f"SELECT channel FROM unnest(%(all)s::TEXT[]) channel WHERE {pushed.conditions[0].replace('%', '%%')}"
    )
    found = conn.execute(query.encode(), {"all": [*values, *others]}).fetchall()
    assert [row[0] for row in found] == [one for one in [*values, *others] if one in values]


@pytest.mark.parametrize(
    "filter_",
    [
        EqualTo(("channel",), "a\0b"),
        In(("channel",), ("a", "a\0b")),
        EqualTo(("attempts",), 1),
        EqualTo(("channel", "within"), "a"),
        Not(EqualTo(("channel",), "a")),
        StringStartsWith(("channel",), "a"),
        GreaterThan(("channel",), "a"),
        GreaterThan(("created_at",), datetime(2020, 1, 1, tzinfo=UTC)),
        IsNotNull(("consumer",)),
    ],
)
def test_filters_that_postgresql_might_evaluate_differently_are_left_to_spark(filter_: Filter) -> None:
    pushed = PushedFilters(texts=("channel",), times=("finished_at",))
    assert list(pushed([filter_])) == [filter_]
    assert pushed.conditions == []
