"""The tasks of worker processes. What each run does is written to a ledger; what must be there once, to a
table in the transaction that completes the message.

Handlers that wait do so until the test opens a gate: that of their worker, or that of all.
"""

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from psycopg_pool import ConnectionPool

from lonnymq import AsyncQueue, Queue
from lonnymq.worker import session
from lonnymq.worker.app import App
from lonnymq.worker.exceptions import JobStopped
from lonnymq.worker.job import Job
from lonnymq.worker.task import Task
from tests.worker.ledger import Ledger

AnyTask = Task[..., Any, Any]
DSN = os.environ.get("SHOP_DSN", "")
NAME = os.environ.get("SHOP_NAME", "")
FOLDER = Path(os.environ.get("SHOP_FOLDER", "."))
OPTIONS: dict[str, Any] = {"pool_size": 5}
if "SHOP_LISTEN" in os.environ:
    OPTIONS["listen"] = os.environ["SHOP_LISTEN"]
if "SHOP_TIMEOUT" in os.environ:
    OPTIONS["timeout"] = float(os.environ["SHOP_TIMEOUT"])
if "SHOP_IS_PATIENT" in os.environ:
    session.READY_MAX = 600  # for what is ready to be handed back there must be another reason

pool = ConnectionPool(DSN, kwargs={"prepare_threshold": None}, min_size=1, max_size=5, open=False)
ledger = Ledger(FOLDER / "ledger")
if "SHOP_IS_ASYNC" in os.environ:
    app: App[Any] = App(AsyncQueue(DSN, **OPTIONS))
else:
    app = App(Queue(DSN, **OPTIONS))
older: App[Any] = App(app.queue)
clock: App[Any] = App(app.queue)


@contextmanager
def noted(order: int) -> Iterator[None]:
    ledger.write("begin", order, NAME)
    try:
        yield
    except BaseException as error:
        ledger.write(type(error).__name__, order, NAME)
        raise
    ledger.write("end", order, NAME)


def is_open() -> bool:
    return (FOLDER / f"open-{NAME}").exists() or (FOLDER / "open").exists()


def pay_in_one_transaction(order: int) -> None:
    pool.open()
    with pool.connection() as conn:
        conn.execute("INSERT INTO public.payment VALUES (%s, %s)", (order, NAME))
        Job.current().complete(conn=conn)


@app.task()
async def nod() -> None:
    """Nothing."""


older.task()(nod.function)


@app.task()
def bow() -> None:
    """Nothing, in a thread."""


@app.task()
async def ship(order: int, seconds: float = 0) -> None:
    with noted(order):
        await asyncio.sleep(seconds)


@app.task()
def pack(order: int, seconds: float = 0) -> None:
    with noted(order):
        time.sleep(seconds)


@app.task()
def pay(order: int) -> None:
    with noted(order):
        pay_in_one_transaction(order)


@app.task()
def wait_in_thread(order: int) -> None:
    with noted(order):
        while not is_open():
            time.sleep(0.01)


@app.task()
async def wait_in_loop(order: int) -> None:
    with noted(order):
        while not is_open():  # noqa: ASYNC110 - it is another process that opens the gate
            await asyncio.sleep(0.01)


@app.task()
def wait_and_pay(order: int) -> None:
    """Whatever it is told meanwhile."""
    with noted(order):
        with suppress(JobStopped):
            while not is_open():
                time.sleep(0.01)
        pay_in_one_transaction(order)


@app.task()
def deaf_in_thread(order: int) -> None:
    """Out of reach for an exception: it waits in C."""
    with noted(order):
        time.sleep(600)


@app.task()
async def deaf_in_loop(order: int) -> None:
    ledger.write("begin", order, NAME)
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            ledger.write("deaf", order, NAME)


@app.task()
async def deaf_elsewhere(order: int) -> None:
    """What it is cancelled for goes on in a thread that the worker does not know."""
    with noted(order):
        await asyncio.to_thread(time.sleep, 600)


@clock.cron("* * * * * *", catch_up="all")
@clock.task()
async def tick() -> None:
    """Each second."""
