"""What the demo's workers run: a moment of work, some of which fails."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from lonnymq.client.queue import Queue
from lonnymq.worker.app import App
from lonnymq.worker.backoff import Backoff

DSN_VARIABLE = "LONNYMQ_DEMO_DSN"
HELD_VARIABLE = "LONNYMQ_DEMO_HOLDS_STDIN"
WORK_S = 0.004
ATTEMPTS = 2

app = App(Queue(os.environ.get(DSN_VARIABLE, "")))


@app.task(max_attempts=ATTEMPTS, backoff=Backoff(first=0.2))
def serve_customer(order: int, *, fails: bool = False) -> None:
    time.sleep(WORK_S)
    if fails:
        raise RuntimeError(f"the card of order {order} was declined")


def _end_with_the_demo() -> None:
    """Also with one that was killed: nothing comes from it but the end of the pipe."""
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)


if HELD_VARIABLE in os.environ:
    threading.Thread(target=_end_with_the_demo, daemon=True).start()
