"""What a client of lonnymq bench measures."""

import psycopg
import pytest

from lonnymq import Queue
from lonnymq.cli.bench.measures import Measures
from lonnymq.cli.bench.protocol import Measurement, Target

LONG = 30.0


@pytest.fixture
def measures(dsn: str, queue: Queue) -> Measures:
    return Measures(Target(dsn, "lonnymq", channels=3, payload_bytes=250), queue)


def messages(queue: Queue) -> int:
    return len(queue.messages(limit=1000))


def last_id(conn: psycopg.Connection) -> int:
    row = conn.execute("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM message_id_seq").fetchone()
    assert row
    return int(row[0])


@pytest.mark.parametrize(("batch", "most", "created"), [(1, 7, 7), (50, 120, 100), (50, 10, 50)])
def test_no_more_is_created_than_was_said(
    measures: Measures, queue: Queue, batch: int, most: int, created: int
) -> None:
    answer = measures.measure(Measurement("enqueue", LONG, most, batch))
    assert (answer.written, answer.handled, messages(queue)) == (created, created, created)
    assert answer.cpu_seconds > 0
    assert 0 < answer.seconds < LONG


def test_one_call_is_made_however_short_the_time(measures: Measures, queue: Queue) -> None:
    assert measures.measure(Measurement("enqueue", 0.0, 1_000, 50)).written == 50
    assert measures.measure(Measurement("consume", 0.0, 1_000, 50)).handled == 50


def test_messages_are_spread_over_the_channels_and_as_large_as_asked(
    measures: Measures, queue: Queue
) -> None:
    measures.measure(Measurement("enqueue", LONG, 2, 1))
    measures.measure(Measurement("enqueue", 0.0, 4, 4))
    found = queue.messages()
    assert sorted(message.channel for message in found) == [f"tenant-{n}" for n in (1, 1, 2, 2, 3, 3)]
    assert {message.content_bytes for message in found} == {250}


@pytest.mark.parametrize("batch", [1, 50])
def test_what_is_taken_is_completed(
    measures: Measures, queue: Queue, conn: psycopg.Connection, batch: int
) -> None:
    queue.enqueue_many([b""] * 120)
    answer = measures.measure(Measurement("consume", LONG, 100, batch))
    assert (answer.handled, answer.written) == (100, 0)
    assert conn.execute("SELECT COUNT(*) FROM message").fetchone() == (20,)


def test_time_counts_while_there_was_something_to_take(measures: Measures, queue: Queue) -> None:
    queue.enqueue_many([b""] * 3)
    answer = measures.measure(Measurement("consume", 1.0, 100))
    assert (answer.handled, answer.seconds < 0.9) == (3, True)
    assert measures.measure(Measurement("consume", 0.0, 100)).handled == 0


@pytest.mark.parametrize("measure", ["round_trip", "commit", "latency", "quiet"])
def test_samples_are_bounded_and_nothing_stays(measures: Measures, queue: Queue, measure: str) -> None:
    answer = measures.measure(Measurement(measure, LONG, 8))
    assert len(answer.samples) == (7 if measure == "latency" else 8)
    assert min(answer.samples) > 0
    assert queue.messages() == []
    assert len(measures.measure(Measurement(measure, 0.0, 100)).samples) == 5


@pytest.mark.parametrize("measure", ["round_trip", "commit", "latency", "quiet"])
def test_what_is_written_is_counted(measures: Measures, conn: psycopg.Connection, measure: str) -> None:
    """By the ids that were given out."""
    before = last_id(conn)
    answer = measures.measure(Measurement(measure, LONG, 8))
    assert answer.written == last_id(conn) - before


def test_a_commit_is_one_of_a_message(measures: Measures, queue: Queue, conn: psycopg.Connection) -> None:
    """What waited stays as many."""
    queue.enqueue_many([b""] * 10)
    measures.measure(Measurement("commit", LONG, 8))
    assert messages(queue) == 10


def test_what_was_ahead_in_one_line(measures: Measures) -> None:
    answer = measures.measure(Measurement("quiet", LONG, 8))
    assert answer.ahead[0] == 1_000
    assert answer.ahead == sorted(answer.ahead, reverse=True)
    assert answer.ahead[-1] > 900
