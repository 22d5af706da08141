"""From the commit of a create to a consumer that has the message, while nothing else goes on."""

import threading
import time
from collections.abc import Callable

import psycopg

from benchmarks.arena import Arena
from benchmarks.peers import Ours, Pgmq
from benchmarks.peers.pgmq import MESSAGE, QUEUE

MESSAGES = 300
PAUSE_SECONDS = 0.02
FIRST_PAUSE_SECONDS = 0.002
LONGEST_PAUSE_SECONDS = 1.0


class Sleeper:
    """A consumer that is notified, as docs/sql.md has it."""

    def __init__(self, conn: psycopg.Connection) -> None:
        self._conn = conn
        row = conn.execute("SELECT notify_channel FROM queue_get()").fetchone()
        assert row is not None
        conn.execute(f'LISTEN "{row[0]}"')
        self._generation: int | None = None
        self._pause = FIRST_PAUSE_SECONDS

    def next(self) -> None:
        """Return once a message was had, and complete it after that."""
        while not self._look():
            for _ in self._conn.notifies(timeout=0):
                pass
            row = self._conn.execute("SELECT * FROM sleep_begin(%s)", (self._generation,)).fetchone()
            assert row is not None
            generation, is_sure = row
            if self._look():
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
        self._conn.execute("SELECT message_complete(%s, %s)", self._held)

    def _look(self) -> bool:
        self._conn.execute("SELECT dispatch()")
        row = self._conn.execute("SELECT id, token FROM message_dequeue(1)").fetchone()
        assert row is not None
        self._held = row
        return row[0] is not None


class PgmqPoller:
    """pgmq's own call that waits, with its default pause of 100 ms."""

    def __init__(self, conn: psycopg.Connection) -> None:
        self._conn = conn

    def next(self) -> None:
        row = self._conn.execute("SELECT msg_id FROM pgmq.read_with_poll(%s, 30, 1, 60)", (QUEUE,)).fetchone()
        assert row is not None
        self._held = row[0]

    def finish(self) -> None:
        self._conn.execute("SELECT pgmq.delete(%s, %s::BIGINT)", (QUEUE, self._held))


def run(arena: Arena, ours: Ours, pgmq: Pgmq) -> dict[str, list[float]]:
    """Milliseconds, of each message."""
    found = {}
    with arena.database(ours, 1), arena.connect(ours) as consumer, arena.connect(ours) as producer:
        sleeper = Sleeper(consumer)
        found["lonnymq, notified"] = _measure(
            sleeper, lambda: producer.execute("SELECT message_create('c1', 'x')")
        )
    with arena.database(pgmq, 1), arena.connect(pgmq) as consumer, arena.connect(pgmq) as producer:
        found["pgmq, polling"] = _measure(
            PgmqPoller(consumer),
            lambda: producer.execute("SELECT pgmq.send(%s, %s::JSONB)", (QUEUE, MESSAGE)),
        )
    return found


def _measure(consumer: Sleeper | PgmqPoller, create: Callable[[], object]) -> list[float]:
    """The producer waits for the consumer, and then a moment, so that it sleeps."""
    had = threading.Event()
    had_at = 0.0

    def consume() -> None:
        nonlocal had_at
        for _ in range(MESSAGES):
            consumer.next()
            had_at = time.monotonic()
            consumer.finish()
            had.set()

    thread = threading.Thread(target=consume)
    thread.start()
    times = []
    for _ in range(MESSAGES):
        time.sleep(PAUSE_SECONDS)
        create()
        created_at = time.monotonic()
        assert had.wait(30), "the message was not picked up"
        had.clear()
        times.append(max(0.0, had_at - created_at) * 1000)
    thread.join()
    return times
