"""No channel starves and none is served before its turn: invariants 12 and 13, counted in messages."""

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.database import Connect
from tests.invariants import check, dequeue, dispatch

QUIET = [f"quiet {i}" for i in range(20)]


def create(conn: psycopg.Connection, channel: str, content: str = "", at: int | None = None) -> None:
    conn.execute("SELECT message_create(%s, %s::bytea, %s)", (channel, content, at))


def flood(conn: psycopg.Connection, channel: str, n: int, at: int | None = None) -> None:
    conn.execute(
        "SELECT COUNT(*) FROM message_create_many("
        "array_fill(%s::TEXT, %s), array_fill(''::BYTEA, %s), array_fill(%s::BIGINT, %s))",
        (channel, [n], [n], at, [n]),
    )


def serve(conn: psycopg.Connection, limit: int = 1) -> list[str]:
    """Dispatch, dequeue and complete; return the channels that were served."""
    dispatch(conn)
    messages, _ = dequeue(conn, limit)
    for m in messages:
        assert conn.execute("SELECT message_complete(%s, %s)", (m.id, m.token)).fetchone() == ("completed",)
    return [m.channel for m in messages]


@pytest.mark.cases(4)
@pytest.mark.parametrize("limit", [1, 3, 8, 20])
@pytest.mark.parametrize("per_turn", [1, 5])
def test_constant_urgent_arrivals(conn: psycopg.Connection, limit: int, per_turn: int) -> None:
    """A channel that gets urgent messages before every dequeue is served exactly its share."""
    others = [f"other {i}" for i in range(9)]
    for channel in others:
        flood(conn, channel, 60)
    served: Counter[str] = Counter()
    while sum(served.values()) < 400:
        for _ in range(max(per_turn, limit)):
            create(conn, "urgent", at=-1)
        served.update(serve(conn, limit))
    share = max(1, -(-limit // 10))
    assert len(served) == 10
    assert max(served.values()) - min(served.values()) <= share, served
    check(conn)


def test_urgent_messages_go_ahead_within_their_channel(conn: psycopg.Connection) -> None:
    """Priority orders messages within a channel; it does not change the channel's turn."""
    for channel in ("a", "b", "c"):
        flood(conn, channel, 10)
    assert Counter(serve(conn, 3)) == {"a": 1, "b": 1, "c": 1}
    create(conn, "b", "urgent", -1)
    dispatch(conn)
    messages, _ = dequeue(conn, 3)
    assert Counter(m.channel for m in messages) == {"a": 1, "b": 1, "c": 1}
    assert [m.channel for m in messages if m.content == b"urgent"] == ["b"]
    assert messages[0].channel == "a", "its turn did not come sooner"


@pytest.mark.parametrize(
    ("limit", "at"),
    [(1, None), (7, -1), *(pytest.param(*given, marks=pytest.mark.long) for given in ((7, None), (1, -1)))],
)
def test_one_tenant_floods(conn: psycopg.Connection, limit: int, at: int | None) -> None:
    """5,000 messages wait in one channel. One in a quiet channel waits at most two rounds of all channels."""
    rng = random.Random(f"{limit}/{at}")
    flood(conn, "flood", 5000, at)
    served = 0
    made: dict[str, int] = {}
    waits: list[int] = []
    shares: Counter[str] = Counter()
    while served < 1500:
        quiet = rng.choice(QUIET)
        if quiet not in made and rng.random() < 0.5:
            create(conn, quiet)
            made[quiet] = served
        for channel in serve(conn, limit):
            served += 1
            shares[channel] += 1
            if channel in made:
                waits.append(served - made.pop(channel))
    turn = max(limit, len(QUIET) + 1)
    assert len(waits) > 50
    assert max(waits) <= 2 * turn, f"waited for {max(waits)}"
    assert max(made.values(), default=served) >= served - 2 * turn
    assert shares["flood"] > 100, "the flood gets what the others leave"


def test_one_tenant_floods_and_many_consume(connect: Connect, conn: psycopg.Connection) -> None:
    """Four consumers dequeue batches of five; each may be a batch ahead of what the others see.

    A consumer that is suspended for a moment while it has the dispatch lock delays a few more messages.
    """
    consumers, limit, quiets = 4, 5, 300
    flood(conn, "flood", 5000)
    dispatch(conn)
    lock = threading.Lock()
    is_over = threading.Event()
    served = 0
    made: dict[bytes, int] = {}
    seen: set[bytes] = set()
    waits: list[int] = []

    def consume(consumer: psycopg.Connection) -> None:
        nonlocal served
        while not is_over.is_set():
            consumer.execute("SELECT dispatch()")
            messages, _ = dequeue(consumer, limit)
            with lock:
                served += len(messages)
                seen.update(m.content for m in messages)
                waits.extend(served - made.pop(m.content) for m in messages if m.content in made)
            for m in messages:
                consumer.execute("SELECT message_complete(%s, %s)", (m.id, m.token))

    with ThreadPoolExecutor(max_workers=consumers) as pool:
        try:
            futures = [pool.submit(consume, connect()) for _ in range(consumers)]
            for n in range(quiets):
                content = f"{n}"
                create(conn, QUIET[n % len(QUIET)], content)
                with lock:
                    if content.encode() not in seen:
                        made[content.encode()] = served
                while made.keys() >= {content.encode()} and n % 3 == 0:
                    assert not any(future.done() for future in futures)
                    time.sleep(0.001)
        finally:
            is_over.set()
        for future in futures:
            future.result(timeout=30)
    turn = len(QUIET) + 1 + consumers * limit
    print(f"{len(waits)} waited for at most {max(waits)} of {served} served")
    assert len(waits) >= quiets // 3
    assert sorted(waits)[len(waits) * 95 // 100] <= 3 * turn, sorted(waits)[-10:]
    assert max(waits) <= 1_000  # they do not wait until the flood is over
