"""The reader of the consuming stream, called as Spark calls it, on the driver and on executors."""

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from lonnymq.errors import ClaimantTaken, LeasesLost, PositionUnknown
from lonnymq.spark.consume.claim_options import ClaimOptions
from lonnymq.spark.consume.claim_reader import ClaimPartition, ClaimReader
from lonnymq.spark.consume.stream_consumer import Heartbeat
from lonnymq.spark.queue_source import QueueSource
from lonnymq.spark.source_options import InvalidOption
from tests.database import Connect
from tests.invariants import check, dequeue, dispatch, drain
from tests.spark.consuming import Options, completed, create, one, until

START = {"seq": 0}
TEN = ReadMaxRows(10)
Open = Callable[..., ClaimReader]
HAS_ASKED = """
    SELECT COUNT(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'lonnymq spark'
        AND query LIKE '%claim_next%' AND state = 'idle'"""


@pytest.fixture(autouse=True)
def _history(conn: psycopg.Connection) -> None:
    conn.execute("SELECT * FROM queue_set(p_history => TRUE)")


@pytest.fixture
def opened(options: Options) -> Iterator[Open]:
    readers: list[ClaimReader] = []

    def opening(**more: str) -> ClaimReader:
        given = {name.lower(): value for name, value in (options | {"consumer": "etl"} | more).items()}
        reader = ClaimReader(given, ClaimOptions.of(given).schema())
        readers.append(reader)
        return reader

    yield opening
    for reader in readers:
        reader.stop()


def read(reader: ClaimReader, parts: list[ClaimPartition]) -> list[dict[str, Any]]:
    """Read as executors do."""
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def read_all(reader: ClaimReader, offset: dict[str, int]) -> int:
    """Read everything after an offset, batch by batch. Returns how many messages there were."""
    count = 0
    while (end := reader.latestOffset(offset, TEN)) != offset:
        count += len(read(reader, reader.partitions(offset, end)))
        offset = end
    return count


def now(conn: psycopg.Connection) -> int:
    return int(one(conn, "SELECT to_epoch(clock_timestamp())"))


def lose_one(conn: psycopg.Connection) -> None:
    """Make one message lose its lease."""
    conn.execute(
        "SELECT message_retry(m.id, l.token) FROM lease l CROSS JOIN unnest(l.stubs) s"
        " JOIN message m ON (m.id, m.generation) = (s.id, s.generation) LIMIT 1"
    )


def complete_whole(conn: psycopg.Connection, reader: ClaimReader, seq: int) -> None:
    from lonnymq.adapters.psycopg import run
    from lonnymq.commands import ClaimComplete

    run(
        conn,
        "lonnymq",
        ClaimComplete("etl", reader.partitions(START, {"seq": seq})[0].generation, seq, whole=True),
    )


def test_claims_in_parts(conn: psycopg.Connection, opened: Open) -> None:
    create(conn, 25, 3)
    reader, executor = opened(minPartitions="3"), opened()
    end = reader.latestOffset(START, ReadMaxRows(20))
    parts = reader.partitions(START, end)
    assert parts == reader.partitions(START, end), "the same whenever Spark asks"
    assert sorted(len(read(executor, [part])) for part in parts) == [6, 7, 7]
    rows = read(executor, parts)
    assert len({row["id"] for row in rows}) == 20
    assert {row["claim"]["seq"] for row in rows} == {1}
    assert reader.partitions(end, end) == []
    assert reader.latestOffset(end, TEN) == {"seq": 2}
    assert completed(conn) == 20, "everything up to the start is completed"
    assert reader.latestOffset({"seq": 2}, TEN) == {"seq": 2}
    assert completed(conn) == 25
    check(conn)


def test_all_that_is_there_at_once(conn: psycopg.Connection, opened: Open) -> None:
    create(conn, 50)
    reader = opened(maxOffsetsPerTrigger="7")
    assert reader.getDefaultReadLimit() == ReadMaxRows(7)
    end = reader.latestOffset(START, ReadAllAvailable())
    assert len(read(reader, reader.partitions(START, end))) == 50


def test_more_than_one_claim_finds(conn: psycopg.Connection, opened: Open) -> None:
    """It makes claims until nothing is left or the limit is reached."""
    create(conn, 1000, 7)
    reader = opened()
    end = reader.latestOffset(START, ReadMaxRows(300))
    rows = read(reader, reader.partitions(START, end))
    assert len({row["id"] for row in rows}) == len(rows) == 300
    assert {row["claim"]["seq"] for row in rows} == set(range(1, end["seq"] + 1))
    rest = reader.latestOffset(end, ReadAllAvailable())
    assert completed(conn) == 300
    assert len(read(reader, reader.partitions(end, rest))) == 700
    assert reader.latestOffset(rest, TEN) == rest
    assert completed(conn) == 1000
    check(conn)


def test_claims_that_spark_has_not_logged(conn: psycopg.Connection, opened: Open) -> None:
    """The driver died after it made them. The next one gets the same messages, and none twice."""
    create(conn, 1000, 7)
    first = opened()
    last = first.latestOffset(START, ReadMaxRows(300))["seq"]
    second, offset, ids = opened(), START, []
    while offset["seq"] < last:
        start, offset = offset, second.latestOffset(offset, ReadMaxRows(300))
        ids += [row["id"] for row in read(second, second.partitions(start, offset))]
    assert len(set(ids)) == len(ids) == 300
    check(conn)


@pytest.mark.parametrize(
    ("limit", "parts"), [("1", 1), ("2500", 1), ("2501", 2), ("10000", 4), ("100000", 8)]
)
def test_how_many_parts(conn: psycopg.Connection, opened: Open, limit: str, parts: int) -> None:
    create(conn, 1)
    reader = opened(maxOffsetsPerTrigger=limit)
    assert len(reader.partitions(START, reader.latestOffset(START, TEN))) == parts


def test_lanes(conn: psycopg.Connection, opened: Open) -> None:
    """A stream consumes only the lanes that it names, and rows have lane, priority and cost."""
    conn.execute(
        "SELECT message_create('a', 'low', p_lane => 'slow', p_priority => -1);"
        "SELECT message_create('a', 'high', p_lane => 'slow', p_priority => 7, p_cost => 30);"
        "SELECT message_create('a', 'plain')"
    )
    slow = opened(lanes="other, slow")
    for _ in range(2):
        slow.prepareForTriggerAvailableNow()
        rows = read(slow, slow.partitions(START, slow.latestOffset(START, TEN)))
        found = [(row["content"], row["lane"], row["priority"], row["cost"]) for row in rows]
        assert found == [(b"high", "slow", 7, 30), (b"low", "slow", -1, 1)]
    assert slow.latestOffset({"seq": 1}, TEN) == {"seq": 1}
    assert completed(conn) == 2
    everything = opened(consumer="other")
    [row] = read(everything, everything.partitions(START, everything.latestOffset(START, TEN)))
    assert (row["content"], row["lane"], row["priority"], row["cost"]) == (b"plain", "default", 0, 1)
    check(conn)


def test_channels(conn: psycopg.Connection, opened: Open) -> None:
    """A stream consumes only the channels that it names, or that match its pattern, also far behind."""
    create(conn, 1000, 10, "other")
    create(conn, 200, 2, "far")
    named = opened(channels="far0, none", consumer="named")
    named.prepareForTriggerAvailableNow()
    end = named.latestOffset(START, ReadAllAvailable())
    rows = read(named, named.partitions(START, end))
    assert {row["channel"] for row in rows} == {"far0"}
    assert len(rows) == 100
    assert named.latestOffset(end, TEN) == end
    matching = opened(channelPattern="f.*|other3", consumer="matching")
    end = matching.latestOffset(START, ReadMaxRows(150))
    rows = read(matching, matching.partitions(START, end))
    found = [row["channel"] for row in rows]
    assert len(rows) == 150
    assert abs(found.count("far1") - found.count("other3")) <= 1
    check(conn)


def test_options_that_are_not_valid(conn: psycopg.Connection, options: Options, opened: Open) -> None:
    """They are refused when the stream is loaded. Only the server can check a pattern, when it starts: the
    stream that runs under that name goes on.
    """
    running = opened(channelPattern="(?i)C0")
    create(conn, 3)
    assert running.latestOffset(START, TEN) == {"seq": 1}
    for pattern in ("(a", "a)|(b"):
        with pytest.raises(InvalidOption, match=r"channelPattern is .*invalid regular expression") as refused:
            opened(channelPattern=pattern).latestOffset(START, TEN)
        assert "regular expression of PostgreSQL" in str(refused.value)
    assert running.latestOffset({"seq": 1}, TEN) == {"seq": 1}
    for wrong, why in [
        ({"channelpattern": "a", "channels": "b"}, "channels and channelPattern exclude each other"),
        ({"consumer": "é" * 128}, "consumer is 256 bytes long"),
        ({"channels": "a,"}, "channels is 'a,', with an empty name"),
        ({"maxbytespertrigger": "0"}, "maxBytesPerTrigger is 0"),
        ({"minoffsetspertrigger": "11", "maxoffsetspertrigger": "10"}, "more than maxOffsetsPerTrigger, 10"),
        ({"maxoffsetspertrigger": "0"}, "maxOffsetsPerTrigger is 0"),
        ({"maxoffsetspertrigger": "100001"}, "maxOffsetsPerTrigger is 100001"),
        ({"leaseseconds": "soon"}, "not a whole number"),
        ({"minpartitions": "0"}, "minPartitions is 0"),
        ({"lanes": "slow,,fast"}, "separate names by commas"),
        ({"startingoffsets": "latest"}, "there is no option startingoffsets"),
    ]:
        with pytest.raises(InvalidOption, match=why):
            QueueSource(options | {"consumer": "other"} | wrong).schema()
    with pytest.raises(InvalidOption, match="the option consumer is missing"):
        opened(consumer="")


def test_a_batch_of_so_many_bytes(conn: psycopg.Connection, opened: Open) -> None:
    """A message that is larger than that is alone; what did not fit is the next batch, and does not wait."""
    for size in (40, 50, 60, 500, 40):
        conn.execute("SELECT message_create('a', %s)", (b"x" * size,))
    reader = opened(maxBytesPerTrigger="100", minOffsetsPerTrigger="5")
    sizes = []
    offset = START
    while (end := reader.latestOffset(offset, TEN)) != offset:
        sizes.append([len(row["content"]) for row in read(reader, reader.partitions(offset, end))])
        offset = end
    assert sizes == [[40, 50], [60], [500], [40]]
    assert not drain(conn)
    check(conn)


def test_a_batch_waits_for_enough_messages(conn: psycopg.Connection, opened: Open) -> None:
    """Or for its time. Spark's progress shows how many wait."""
    create(conn, 8, 2)
    reader = opened(minOffsetsPerTrigger="5", channels="c0")
    assert reader.reportLatestOffset() is None, "nothing happens before the first call"
    assert reader.latestOffset(START, TEN) == START
    assert reader.reportLatestOffset() == {"seq": 0, "waiting": 4}
    create(conn, 1)
    assert reader.latestOffset(START, TEN) == {"seq": 1}
    again = opened(minOffsetsPerTrigger="10")
    assert again.latestOffset(START, TEN) == {"seq": 1}, "an earlier claim does not wait"
    late = opened(minOffsetsPerTrigger="10", maxTriggerDelay="1ms", consumer="late")
    until(lambda: late.latestOffset(START, TEN) == {"seq": 1}, "the delay to pass")


def test_weights_and_costs(conn: psycopg.Connection, opened: Open) -> None:
    """A channel of weight 3 gets three times as much; one whose messages cost 2 gets half as many."""
    conn.execute("SELECT channel_set('heavy0', p_weight => 3)")
    for name in ("heavy", "light"):
        create(conn, 100, name=name)
    conn.execute(
        "SELECT message_create_many(array_agg('dear0'::TEXT), array_agg(''::BYTEA), p_costs => array_agg(2))"
        " FROM generate_series(1, 100)"
    )
    reader = opened()
    rows = read(reader, reader.partitions(START, reader.latestOffset(START, ReadMaxRows(45))))
    found = [row["channel"] for row in rows]
    shares = {channel: found.count(channel) for channel in ("heavy0", "light0", "dear0")}
    assert all(abs(shares[name] - due) <= 2 for name, due in (("heavy0", 30), ("light0", 10), ("dear0", 5)))


def test_nothing_happens_before_the_first_call(conn: psycopg.Connection, opened: Open) -> None:
    """Spark makes readers that it does not use, and sends copies to executors."""
    reader = opened()
    assert reader.initialOffset() == START
    pickle.loads(pickle.dumps(reader))  # noqa: S301 - our own bytes
    assert one(conn, "SELECT COUNT(*) FROM claimant") == 0


def test_lost_messages_are_left_out_only_before_they_are_read(conn: psycopg.Connection, opened: Open) -> None:
    """After that, the transaction that stores the results must notice the loss and fail."""
    create(conn, 5)
    reader = opened()
    end = reader.latestOffset(START, TEN)
    lose_one(conn)
    assert len(read(reader, reader.partitions(START, end))) == 4
    lose_one(conn)
    assert len(read(reader, reader.partitions(START, end))) == 3
    with pytest.raises(LeasesLost):
        complete_whole(conn, reader, 1)
    again = opened()
    assert len(read(again, again.partitions(START, end))) == 1, "in parts, because it was not completed"
    complete_whole(conn, again, 1)
    assert completed(conn) == 1
    assert read_all(again, {"seq": 1}) == 4, "the rest, and the two that were lost"
    assert completed(conn) == 5


def test_leases_are_extended_until_the_reader_stops(conn: psycopg.Connection, opened: Open) -> None:
    create(conn, 3)
    reader = opened(leaseSeconds="1")
    reader.latestOffset(START, TEN)
    late = now(conn) + 1500
    until(lambda: now(conn) > late, "a lease and a half to pass")
    dispatch(conn)
    assert one(conn, "SELECT COUNT(*) FROM leases") == 3
    reader.stop()

    def leases_are_gone() -> bool:
        dispatch(conn)
        return bool(one(conn, "SELECT COUNT(*) FROM leases") == 0)

    until(leases_are_gone, "the leases to run out")


def test_a_second_reader(conn: psycopg.Connection, opened: Open) -> None:
    create(conn, 3)
    first, second = opened(), opened()
    end = first.latestOffset(START, TEN)
    parts = first.partitions(START, end)
    assert second.latestOffset(START, TEN) == end, "the second has the claims of the first"
    for offset in (end, START):
        with pytest.raises(ClaimantTaken, match="which started later, consumes as 'etl'"):
            first.latestOffset(offset, TEN)
    with pytest.raises(ClaimantTaken, match="which started later, consumes as 'etl'"):
        read(first, parts)
    assert len(read(second, second.partitions(START, end))) == 1, "in parts, because they were not completed"
    assert read_all(second, end) == 2


def test_the_heartbeat_notices_a_second_reader(conn: psycopg.Connection, opened: Open) -> None:
    create(conn, 3)
    first, second = opened(leaseSeconds="1"), opened()
    end = first.latestOffset(START, TEN)
    first.partitions(START, end)
    second.latestOffset(START, TEN)

    def is_refused() -> bool:
        try:
            first.partitions(START, end)
        except ClaimantTaken as error:
            return "which started later, consumes as 'etl'" in str(error)
        return False

    until(is_refused, "the first to notice")


def test_whatever_stops_the_heartbeat_stops_the_stream(
    conn: psycopg.Connection, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the stream would go on while its leases run out."""
    create(conn, 3)
    reader = opened(leaseSeconds="1")
    monkeypatch.setattr(Heartbeat, "_complete_committed", lambda _: int("an unknown format"))
    end = reader.latestOffset(START, TEN)

    def is_stopped() -> bool:
        try:
            reader.partitions(START, end)
        except ValueError as error:
            return "an unknown format" in str(error)
        return False

    until(is_stopped, "the heartbeat to fail")


def test_broken_connections_are_opened_again(conn: psycopg.Connection, opened: Open) -> None:
    """The connections of the driver and of its heartbeat, with the same generation."""
    create(conn, 3)
    reader = opened(leaseSeconds="1")
    end = reader.latestOffset(START, TEN)

    def cut() -> None:
        conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'lonnymq spark'"
        )

    cut()
    late = now(conn) + 1500
    until(lambda: now(conn) > late, "a lease and a half to pass")
    dispatch(conn)
    assert one(conn, "SELECT COUNT(*) FROM leases") == 3
    cut()
    assert len(read(reader, reader.partitions(START, end))) == 3
    cut()
    assert reader.latestOffset(end, TEN) == end
    assert completed(conn) == 3
    assert one(conn, "SELECT generation FROM claimant") == 1


def test_an_offset_that_was_never_made(conn: psycopg.Connection, opened: Open) -> None:
    create(conn, 3)
    reader = opened()
    with pytest.raises(PositionUnknown, match="has made 0 claims, but the stream reads claim 4"):
        reader.partitions({"seq": 3}, {"seq": 4})
    with pytest.raises(PositionUnknown, match="claim 3 of 'etl' was never made"):
        reader.latestOffset({"seq": 3}, TEN)


def test_an_old_offset_continues_with_what_is_not_completed(conn: psycopg.Connection, opened: Open) -> None:
    create(conn, 6)
    reader = opened()
    two = ReadMaxRows(2)
    assert [reader.latestOffset({"seq": seq}, two)["seq"] for seq in range(3)] == [1, 2, 3]
    again = opened()
    assert again.latestOffset(START, TEN) == {"seq": 3}
    assert len(read(again, again.partitions(START, {"seq": 3}))) == 2
    assert completed(conn) == 4


def test_available_now_stops_while_others_produce(conn: psycopg.Connection, opened: Open) -> None:
    """It stops although as many new messages come with each call."""
    create(conn, 10, name="old")
    reader = opened()
    reader.prepareForTriggerAvailableNow()
    later = now(conn)
    until(lambda: now(conn) > later, "a millisecond to pass")
    offset = START
    for _ in range(10):
        create(conn, 6, 3, name="new")
        start, offset = offset, reader.latestOffset(offset, ReadMaxRows(6))
        if offset == start:
            break
    else:
        pytest.fail("it does not stop")
    assert one(conn, "SELECT COUNT(*) FROM message WHERE channel = 'old0'") == 0
    assert one(conn, "SELECT COUNT(*) FROM leases") == 0, "the last batch is completed"


def test_available_now_waits_for_messages_that_another_session_has_locked(
    conn: psycopg.Connection, opened: Open, connect: Connect
) -> None:
    """They are there now, and the other session may roll back."""
    create(conn, 2)
    dispatch(conn)
    other = connect(autocommit=False)
    dequeue(other, 2)
    reader = opened()
    reader.prepareForTriggerAvailableNow()
    with ThreadPoolExecutor(1) as thread:
        asking = thread.submit(reader.latestOffset, START, TEN)
        until(lambda: one(conn, HAS_ASKED) == 1, "an empty claim")
        other.rollback()
        assert asking.result(timeout=30) == {"seq": 1}
    assert len(read(reader, reader.partitions(START, {"seq": 1}))) == 2
