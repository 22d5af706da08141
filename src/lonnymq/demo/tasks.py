"""What the demo's workers run: a moment of work, some of which fails."""

from __future__ import annotations

import os
import time

from lonnymq.queue.queue import Queue
from lonnymq.worker.app import App
from lonnymq.worker.backoff import Backoff

DSN_VARIABLE = "LONNYMQ_DEMO_DSN"
WORK_S = 0.004
ATTEMPTS = 2

app = App(Queue(os.environ.get(DSN_VARIABLE, "")))


@app.task(max_attempts=ATTEMPTS, backoff=Backoff(first=0.2))
def serve_customer(order: int, *, fails: bool = False) -> None:
    time.sleep(WORK_S)
    if fails:
        raise RuntimeError(f"the card of order {order} was declined")
