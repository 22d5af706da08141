"""The tasks that worker processes run in tests. Each run is recorded in a ledger. Tasks that must take effect
once also write to a table, in the transaction that completes the message.

Some handlers wait until the test opens a gate, either for their worker or for all workers.
"""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from psycopg_pool import ConnectionPool

from lonnymq import AsyncQueue, Queue
from lonnymq.worker import in_progress, registry
from lonnymq.worker.app import App
from lonnymq.worker.exceptions import Discard, Fail, JobStopped
from lonnymq.worker.job import Job
from lonnymq.worker.task import Task
from tests.worker.ledger import Ledger

AnyTask = Task[..., Any]
DSN = os.environ.get("SHOP_DSN", "")
NAME = os.environ.get("SHOP_NAME", "")
FOLDER = Path(os.environ.get("SHOP_FOLDER", "."))
OPTIONS: dict[str, Any] = {"pool_size": 5}
if "SHOP_LISTEN" in os.environ:
    OPTIONS["listen"] = os.environ["SHOP_LISTEN"]
if "SHOP_TIMEOUT" in os.environ:
    OPTIONS["timeout"] = float(os.environ["SHOP_TIMEOUT"])
if "SHOP_KEEPS_READY" in os.environ:
    in_progress.READY_MAX_S = 600  # so that ready messages are not released because they waited

if "SHOP_REPORTS_ONCE" in os.environ:
    registry.PERIOD_S = 600

pool = ConnectionPool(DSN, kwargs={"prepare_threshold": None}, min_size=1, max_size=5, open=False)
ledger = Ledger(FOLDER / "ledger")
app = App((AsyncQueue if "SHOP_IS_ASYNC" in os.environ else Queue)(DSN, **OPTIONS))
older = App(app.queue)
clock = App(app.queue)


@contextmanager
def recorded(order: int) -> Iterator[None]:
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
async def do_nothing() -> None: ...


older.task()(do_nothing.function)


@app.task()
def do_nothing_in_thread() -> None: ...


@app.task()
async def ship(order: int, seconds: float = 0) -> None:
    with recorded(order):
        await asyncio.sleep(seconds)


@app.task()
def pack(order: int, seconds: float = 0) -> None:
    with recorded(order):
        time.sleep(seconds)


@app.task()
def pay(order: int) -> None:
    with recorded(order):
        pay_in_one_transaction(order)


@app.task()
def pack_or_fail(order: int) -> None:
    """One in ten dies, and one in ten is discarded."""
    with recorded(order):
        if order % 10 == 3:
            raise Fail("out of stock")
        if order % 10 == 7:
            raise Discard("not wanted any more")


@app.task()
def batch_is_over(event: str) -> None:
    """The callback of a batch: it writes down what it is told, once."""
    job = Job.current()
    pool.open()
    with pool.connection() as conn:
        conn.execute(
            "INSERT INTO public.callback VALUES (%s, %s)",
            (event, json.dumps((job.message.headers or {})["batch"])),
        )
        job.complete(conn=conn)


@app.task()
def wait_in_thread(order: int) -> None:
    with recorded(order):
        while not is_open():
            time.sleep(0.01)


@app.task()
async def wait_in_loop(order: int) -> None:
    with recorded(order):
        while not is_open():  # noqa: ASYNC110 - another process opens the gate
            await asyncio.sleep(0.01)


@app.task()
def wait_and_pay(order: int) -> None:
    """Pays even if it is stopped while it waits."""
    with recorded(order):
        with suppress(JobStopped):
            while not is_open():
                time.sleep(0.01)
        pay_in_one_transaction(order)


@app.task()
def unstoppable_in_thread(order: int) -> None:
    """It waits in C, where no exception can be raised."""
    with recorded(order):
        time.sleep(600)


@app.task()
async def unstoppable_in_loop(order: int) -> None:
    ledger.write("begin", order, NAME)
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            ledger.write("ignored", order, NAME)


@app.task()
async def leaves_thread_behind(order: int) -> None:
    """It can be cancelled, but the thread that it started goes on."""
    with recorded(order):
        await asyncio.to_thread(time.sleep, 600)


@clock.cron("* * * * * *", catch_up="all")
@clock.task()
async def every_second() -> None: ...
