"""Latency on an idle server: from the commit of a create until a consumer has the message."""

import threading
import time
from collections.abc import Callable

import psycopg

from benchmarks.bench_server import BenchServer
from benchmarks.peers import LonnyMQ, Pgmq
from benchmarks.peers.pgmq import MESSAGE, QUEUE

MESSAGES = 300
PAUSE_SECONDS = 0.02
FIRST_PAUSE_SECONDS = 0.002
LONGEST_PAUSE_SECONDS = 1.0


class NotifiedConsumer:
    """A consumer that sleeps until it is notified, as described in docs/sql.md."""

    def __init__(self, conn: psycopg.Connection) -> None:
        self._conn = conn
        row = conn.execute("SELECT notify_channel FROM queue_get()").fetchone()
        assert row is not None
        conn.execute(f'LISTEN "{row[0]}"')
        self._generation: int | None = None
        self._pause = FIRST_PAUSE_SECONDS

    def next(self) -> None:
        """Wait for a message and lease it; `finish` completes it."""
        while not self._try_dequeue():
            for _ in self._conn.notifies(timeout=0):
                pass
            row = self._conn.execute("SELECT * FROM sleep_begin(%s)", (self._generation,)).fetchone()
            assert row is not None
            generation, is_sure = row
            if self._try_dequeue():
                return
            if is_sure:
                self._generation = generation
                self._pause = FIRST_PAUSE_SECONDS
            for _ in self._conn.notifies(
                timeout=LONGEST_PAUSE_SECONDS if is_sure else self._pause, stop_after=1
            ):
                pass
            if not is_sure:
                self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)

    def finish(self) -> None:
        self._conn.execute("SELECT message_complete(%s, %s)", self._lease)

    def _try_dequeue(self) -> bool:
        self._conn.execute("SELECT dispatch()")
        row = self._conn.execute("SELECT id, token FROM message_dequeue(1)").fetchone()
        assert row is not None
        self._lease = row
        return row[0] is not None


class PgmqConsumer:
    """Uses pgmq's own call that polls inside the server, with its default interval of 100 ms."""

    def __init__(self, conn: psycopg.Connection) -> None:
        self._conn = conn

    def next(self) -> None:
        row = self._conn.execute("SELECT msg_id FROM pgmq.read_with_poll(%s, 30, 1, 60)", (QUEUE,)).fetchone()
        assert row is not None
        self._lease = row[0]

    def finish(self) -> None:
        self._conn.execute("SELECT pgmq.delete(%s, %s::BIGINT)", (QUEUE, self._lease))


def run(server: BenchServer, lonnymq: LonnyMQ, pgmq: Pgmq) -> dict[str, list[float]]:
    """The latency of each message, in milliseconds."""
    latencies = {}
    with (
        server.database(lonnymq, 1),
        server.connect(lonnymq) as consumer,
        server.connect(lonnymq) as producer,
    ):
        notified = NotifiedConsumer(consumer)
        latencies["lonnymq, notified"] = _measure(
            notified, lambda: producer.execute("SELECT message_create('c1', 'x')")
        )
    with server.database(pgmq, 1), server.connect(pgmq) as consumer, server.connect(pgmq) as producer:
        latencies["pgmq, polling"] = _measure(
            PgmqConsumer(consumer),
            lambda: producer.execute("SELECT pgmq.send(%s, %s::JSONB)", (QUEUE, MESSAGE)),
        )
    return latencies


def _measure(consumer: NotifiedConsumer | PgmqConsumer, create: Callable[[], object]) -> list[float]:
    """Create messages one at a time, each after a pause in which the consumer falls asleep."""
    received = threading.Event()
    received_at = 0.0

    def consume() -> None:
        nonlocal received_at
        for _ in range(MESSAGES):
            consumer.next()
            received_at = time.monotonic()
            consumer.finish()
            received.set()

    thread = threading.Thread(target=consume)
    thread.start()
    times = []
    for _ in range(MESSAGES):
        time.sleep(PAUSE_SECONDS)
        create()
        created_at = time.monotonic()
        assert received.wait(30), "the message was not picked up"
        received.clear()
        times.append(max(0.0, received_at - created_at) * 1000)
    thread.join()
    return times
