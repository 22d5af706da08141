"""Many messages at once: streamed, in one transaction or in several."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import psycopg
import pytest

from lonnymq import AsyncQueue, NewMessage, Queue, errors
from lonnymq.client.produce import Chunk, Enqueued
from tests.database import Connect


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Chunk, "max_messages", 10)


def contents(conn: psycopg.Connection) -> list[bytes]:
    return [content for (content,) in conn.execute("SELECT content FROM message ORDER BY id")]


def failing(after: int) -> Iterator[bytes]:
    for number in range(after):
        yield b"%d" % number
    raise OSError("the file ends here")


def test_all_messages_are_created_in_order(queue: Any, conn: psycopg.Connection, small_chunks: None) -> None:
    reported: list[Enqueued] = []
    values = [b"%d" % number for number in range(25)]
    done = queue.enqueue_many(iter(values), channel="acme", progress=reported.append)
    assert [(so_far.created, len(so_far.latest)) for so_far in reported] == [(10, 10), (20, 10), (25, 5)]
    assert done == reported[-1]
    assert contents(conn) == values


def test_nothing_is_created_if_the_source_fails(
    queue: Any, conn: psycopg.Connection, small_chunks: None
) -> None:
    with pytest.raises(OSError, match="ends here"):
        queue.enqueue_many(failing(25))
    assert contents(conn) == []
    assert queue.enqueue_many([b"a"]).created == 1, "the queue still works"


def test_finished_chunks_stay_with_commit_each_chunk(
    queue: Any, conn: psycopg.Connection, small_chunks: None
) -> None:
    reported: list[int] = []
    with pytest.raises(OSError, match="ends here"):
        queue.enqueue_many(
            failing(25), commit_each_chunk=True, progress=lambda so_far: reported.append(so_far.created)
        )
    assert contents(conn) == [b"%d" % number for number in range(20)]
    assert reported == [10, 20]


def test_nothing_is_created_if_one_message_is_refused(
    queue: Any, conn: psycopg.Connection, small_chunks: None
) -> None:
    values = [NewMessage(b"x", channel="" if number == 17 else "acme") for number in range(25)]
    with pytest.raises(errors.InvalidChannel, match="message 8 of 10"):
        queue.enqueue_many(values)
    assert contents(conn) == []


def test_nothing_is_created_if_the_callback_fails(
    own_queue: Any, conn: psycopg.Connection, small_chunks: None
) -> None:
    def fail(so_far: Enqueued) -> None:
        raise RuntimeError(f"after {so_far.created}")

    with pytest.raises(RuntimeError, match="after 10"):
        own_queue.enqueue_many([b"x"] * 25, progress=fail)
    assert contents(conn) == []


def test_nothing_is_created_if_a_channel_is_full(
    queue: Any, conn: psycopg.Connection, small_chunks: None
) -> None:
    queue.channel("acme").set(max_size=10)
    with pytest.raises(
        errors.ChannelFull, match=r"channel 'acme' is full \(max_size 10\).*on_full"
    ) as raised:
        queue.enqueue_many([b"x"] * 100, channel="acme")
    assert "10 of 10 messages do not fit" in str(raised.value), "it counts the second chunk"
    assert contents(conn) == []
    assert queue.enqueue_many([b"x"] * 10, channel="acme").created == 10, "10 messages fit"


def test_a_chunk_that_is_refused_is_not_sent_again(
    dsn: str, conn: psycopg.Connection, connect: Connect, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even if there is room by then: the error said that nothing was created."""
    conn.execute("SELECT channel_set('acme', p_max_size => 9)")
    sent: list[int] = []
    create = Queue._create

    def counting_create(queue: Queue, chunk: Chunk, conn: object | None) -> Any:
        sent.append(len(chunk))
        return create(queue, chunk, conn)

    monkeypatch.setattr(Queue, "_create", counting_create)
    with Queue(dsn) as queue, connect(autocommit=False) as callers_conn:
        with pytest.raises(errors.ChannelFull):
            queue.enqueue_many([b"x"] * 25, channel="acme", conn=callers_conn)
        callers_conn.rollback()
    assert sent == [10]
    assert contents(conn) == []


def test_finished_chunks_stay_when_a_channel_gets_full(
    queue: Any, conn: psycopg.Connection, small_chunks: None
) -> None:
    queue.channel("acme").set(max_size=25)
    with pytest.raises(errors.ChannelFull, match="5 of 10 messages do not fit"):
        queue.enqueue_many((b"%d" % n for n in range(100)), channel="acme", commit_each_chunk=True)
    assert contents(conn) == [b"%d" % n for n in range(20)], (
        "nothing of the chunk that did not fit was created"
    )


def test_messages_that_do_not_fit_are_counted_with_on_full_return(
    queue: Any, conn: psycopg.Connection, small_chunks: None
) -> None:
    queue.channel("acme").set(max_size=15)
    done = queue.enqueue_many([b"x"] * 40, channel="acme", on_full="return")
    assert (done.created, done.duplicates, done.full) == (15, 0, 25)
    assert len(contents(conn)) == 15


@pytest.mark.parametrize("on_full", ["drop", None, []])
def test_an_invalid_on_full(own_queue: Any, on_full: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match="on_full is"):
        own_queue.enqueue("x", on_full=on_full)
    with pytest.raises(errors.InvalidArgument, match="on_full is"):
        own_queue.enqueue_many(["x"], on_full=on_full)


def test_each_message_has_its_own_options(own_queue: Any, conn: psycopg.Connection) -> None:
    at = datetime.now(UTC) + timedelta(days=1)
    done = own_queue.enqueue_many(
        [
            NewMessage("now", channel="a"),
            NewMessage("at", channel="b", run_at=at, headers={"trace": "1"}),
            NewMessage("after", channel="b", delay=60, max_attempts=3),
            NewMessage("first", channel="b", priority=4, cost=2, lane="l"),
            NewMessage("once", channel="c", dedupe_key="k", unique_for=1.5),
            NewMessage("twice", channel="c", dedupe_key="k"),
            "plain",
        ],
        channel="d",
    )
    assert (done.created, done.duplicates) == (6, 1)
    rows = conn.execute(
        """
        SELECT convert_from(content, 'utf8'), channel, dequeue_at - created_at, dequeue_at, headers->>'trace',
            max_attempts, dedupe_key, priority, cost, lane, unique_for_ms
        FROM message ORDER BY id"""
    ).fetchall()
    plain = [row[:2] + row[4:7] for row in rows]
    assert plain == [
        ('"now"', "a", None, None, None),
        ('"at"', "b", "1", None, None),
        ('"after"', "b", None, 3, None),
        ('"first"', "b", None, None, None),
        ('"once"', "c", None, None, "k"),
        ('"plain"', "d", None, None, None),
    ]
    assert [row[2] for row in rows if row[0] in {'"now"', '"plain"'}] == [0, 0]
    assert rows[1][3] == int(at.timestamp() * 1000)
    assert 59_000 < rows[2][2] < 65_000
    assert rows[3][7:] == (4, 2, "l", None)
    assert rows[4][10] == 1500
    assert {row[7:] for row in rows[:3]} == {(0, 1, "default", None)}


def test_text_that_needs_quoting(queue: Any) -> None:
    awkward = ['"', "\\", "{a,b}", "NULL", "null", "", " ", "ä\n\t", "'; --", "%s $1 :p1"]
    queue.enqueue_many([NewMessage(text, channel=f"x{text}", dedupe_key=f"k{text}") for text in awkward])
    messages = queue.dequeue(100)
    assert sorted((m.channel, m.payload) for m in messages) == sorted((f"x{text}", text) for text in awkward)


class Tenant(StrEnum):
    AWKWARD = 'a,b {"'


def test_subclasses_of_str_and_other_mappings(own_queue: Any) -> None:
    headers = MappingProxyType({"trace": "1"})
    own_queue.enqueue_many([NewMessage(b"x", Tenant.AWKWARD, dedupe_key=Tenant.AWKWARD, headers=headers)])
    own_queue.enqueue(b"y", channel=Tenant.AWKWARD, headers=headers)
    messages = own_queue.dequeue(2)
    assert [(m.channel, m.headers) for m in messages] == [('a,b {"', {"trace": "1"})] * 2


def test_an_async_iterable(dsn: str, conn: psycopg.Connection, small_chunks: None) -> None:
    async def numbers(failing_at: int | None = None) -> AsyncIterator[bytes]:
        for number in range(25):
            if number == failing_at:
                raise OSError("the stream ends here")
            yield b"%d" % number
            await asyncio.sleep(0)

    async def main() -> None:
        async with AsyncQueue(dsn) as queue:
            with pytest.raises(OSError, match="ends here"):
                await queue.enqueue_many(numbers(failing_at=15))
            assert contents(conn) == []
            assert (await queue.enqueue_many(numbers())).created == 25

    asyncio.run(main())
    assert contents(conn) == [b"%d" % number for number in range(25)]


def test_an_empty_list(queue: Any) -> None:
    assert queue.enqueue_many([]).total == 0


def test_a_large_value_ends_its_chunk(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Chunk, "max_bytes", 1_000)
    reported: list[int] = []
    with Queue(dsn) as queue:
        queue.enqueue_many([b"x" * 400] * 7, progress=lambda so_far: reported.append(so_far.created))
    assert reported == [3, 6, 7]


MEASURE = """
import pathlib, re, sys
from lonnymq import Queue
with Queue(sys.argv[1]) as queue:
    done = queue.enqueue_many(({"row": n, "text": "x" * 200} for n in range(200_000)), channel="import")
peak_kb = re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]
print(done.created, int(peak_kb) // 1024)
"""


@pytest.mark.slow
def test_memory_stays_small(dsn: str) -> None:
    """A list of these values alone would take over 100 MB."""
    output = subprocess.run(
        [sys.executable, "-c", MEASURE, dsn], check=True, capture_output=True, text=True, timeout=200
    ).stdout
    created, megabytes = map(int, output.split())
    assert created == 200_000
    assert megabytes < 100
