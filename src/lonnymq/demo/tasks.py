"""The task of the demo: it takes a few milliseconds, and fails for some messages."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from importlib.util import find_spec

from lonnymq.client.queue import Queue
from lonnymq.worker.app import App
from lonnymq.worker.backoff import Backoff

DSN_VARIABLE = "LONNYMQ_DEMO_DSN"
EXIT_WITH_STDIN_VARIABLE = "LONNYMQ_DEMO_EXIT_WITH_STDIN"
LIVE_VARIABLE = "LONNYMQ_DEMO_LIVE"
IS_LIVE = LIVE_VARIABLE in os.environ
WORK_S = 0.1 if IS_LIVE else 0.004  # a demo that runs for hours is slower, so that its history stays small
MAX_ATTEMPTS = 2

app = App(Queue(os.environ.get(DSN_VARIABLE, "")))


@app.task(max_attempts=MAX_ATTEMPTS, backoff=Backoff(first=0.2))
def serve_customer(order: int, *, fails: bool = False) -> None:
    time.sleep(WORK_S)
    if fails:
        raise RuntimeError(f"the card of order {order} was declined")


if IS_LIVE and find_spec("cronsim"):

    @app.cron("*/5 * * * *", tz="Europe/Berlin")
    @app.task(channel="bakery")
    def order_flour() -> None:
        """Something for the page of schedules."""


def _exit_with_the_demo() -> None:
    """Stdin is a pipe from the demo. It ends when the demo exits, even if that was killed."""
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)


if EXIT_WITH_STDIN_VARIABLE in os.environ:
    threading.Thread(target=_exit_with_the_demo, daemon=True).start()
