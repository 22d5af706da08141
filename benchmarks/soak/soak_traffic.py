"""The traffic of the soak: creates of every kind, changed policies, batches, and a probe with timed calls.

Prints one line of JSON per second: how long each timed call took, in milliseconds, by its name.
"""

import json
import random
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.soak.soak_worker import LANES, batch_finished, queue, work
from lonnymq import NewMessage, Queue

TICK_SECONDS = 0.1
PER_TICK = 20
CHANNELS = 40
PROBE = "probe"
POLICIES = (
    {"max_concurrency": 2},
    {"max_concurrency": 0},
    {"rate": "50/s", "burst": 20},
    {"rate": 0},
    {"weight": 3.0},
    {"weight": 1.0},
    {"paused": True},
)
BATCH_EVERY, POLICY_EVERY, DEAD_EVERY, RESULT_EVERY = 20, 10, 50, 5  # ticks


def main() -> None:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    with queue:
        traffic = Traffic(queue)
        tick, begun, printed = 0, time.monotonic(), time.monotonic()
        while not stopping.wait(max(0.0, begun + tick * TICK_SECONDS - time.monotonic())):
            traffic.tick(tick)
            tick += 1
            if time.monotonic() - printed >= 1:
                print(json.dumps(traffic.take_times()), flush=True)
                printed = time.monotonic()


class Traffic:
    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._chance = random.Random(1)
        self._times: defaultdict[str, list[float]] = defaultdict(list)
        self._paused: str | None = None
        self._number = 0

    def tick(self, tick: int) -> None:
        with self._timed("create"):
            self._queue.enqueue_many([self._message() for _ in range(PER_TICK)], on_full="return")
        self._probe()
        for every, step in (
            (BATCH_EVERY, self._fill_a_batch),
            (POLICY_EVERY, self._change_a_policy),
            (DEAD_EVERY, self._clear_dead_letters),
        ):
            if tick % every == every - 1:
                step()

    def take_times(self) -> dict[str, list[float]]:
        taken, self._times = dict(self._times), defaultdict(list)
        return taken

    def _message(self) -> NewMessage:
        """Of any channel, priority and lane; a tenth is scheduled, and a tenth has a dedupe key."""
        self._number += 1
        kind = self._chance.random()
        return work.using(
            channel=f"c{self._chance.randrange(CHANNELS)}",
            priority=self._chance.randint(-2, 2),
            lane=self._chance.choice(LANES),
            delay=self._chance.uniform(0.5, 10) if kind < 0.1 else None,
            dedupe_key=f"key {self._chance.randrange(1000)}" if kind > 0.9 else None,
        ).message(self._number)

    def _probe(self) -> None:
        with self._timed("create one"):
            self._queue.enqueue("probe", channel=PROBE, lane=PROBE)
        with self._timed("dequeue"):
            messages = self._queue.dequeue(10, lanes=[PROBE])
        for message in messages:
            with self._timed("complete"):
                self._queue.complete(message)

    def _fill_a_batch(self) -> None:
        with self._queue.batch("soak", on_complete=batch_finished.message()) as batch:
            batch.enqueue_many(work.message(number) for number in range(10))

    def _change_a_policy(self) -> None:
        if self._paused is not None:
            self._queue.channel(self._paused).set(paused=False)
            self._paused = None
            return
        name, policy = f"c{self._chance.randrange(CHANNELS)}", self._chance.choice(POLICIES)
        self._queue.channel(name).set(**policy)
        if "paused" in policy:
            self._paused = name

    def _clear_dead_letters(self) -> None:
        """Half is retried, and what is left is discarded: an administrator who keeps up."""
        letters = self._queue.dead.list(limit=20)
        self._queue.dead.retry([letter.id for letter in letters])
        self._queue.dead.discard_all()

    @contextmanager
    def _timed(self, call: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self._times[call].append((time.perf_counter() - begun) * 1000)


if __name__ == "__main__":
    main()
