"""A worker process of the soak: most tasks succeed, some fail and are retried, a few become dead letters."""

import os
import random
import sys

from lonnymq import App, Backoff, Fail, Queue, Worker

CONCURRENCY = 20
FAIL_CHANCE, RETRY_CHANCE = 0.01, 0.05
LANES = ("default", "slow")  # the lane of the probe is served by the traffic

queue = Queue(os.environ["SOAK_DSN"])
app = App(queue)


class Flaky(Exception):
    """The task fails by chance."""


@app.task(backoff=Backoff(first=0.5, longest=5), max_attempts=3)
def work(number: int) -> int:
    chance = random.random()
    if chance < FAIL_CHANCE:
        raise Fail(f"{number} cannot succeed")
    if chance < FAIL_CHANCE + RETRY_CHANCE:
        raise Flaky
    return number


@app.task
def batch_finished() -> None:
    """The callback of a batch."""


def main() -> int:
    return Worker(app, concurrency=CONCURRENCY, lanes=LANES).run()


if __name__ == "__main__":
    sys.exit(main())
