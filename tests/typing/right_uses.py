"""Code as users write it, with the types that it must have. mypy checks this file; nothing runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import msgspec
import psycopg
import sqlalchemy
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.orm import Session

from lonnymq import (
    App,
    AsyncHandle,
    AsyncJob,
    AsyncQueue,
    AuditEntry,
    Backoff,
    ChannelExplanation,
    ChannelPolicy,
    ChannelStatistics,
    Created,
    DeadGroup,
    DeadMessage,
    Delivery,
    Discard,
    Enqueued,
    Extended,
    FinishedMessage,
    Handle,
    Job,
    Lane,
    ListedMessage,
    LonnyMQError,
    Message,
    NewMessage,
    Outcome,
    PastPolicy,
    Place,
    Queue,
    QueueSettings,
    QueueStatistics,
    Result,
    Retry,
    Status,
    StopReason,
    Task,
    TaskSummary,
    Worker,
)
from lonnymq.commands import Deleted, DiscardedAll, RetriedAll
from lonnymq.errors import InvalidArgument, OutcomeUnknown, RetryTransaction
from lonnymq.install import Installed


class Order(msgspec.Struct):
    article: str


@dataclass
class Refund:
    invoice: int


class Payment(BaseModel):
    euros: int


def connecting(
    pool: ConnectionPool,
    async_pool: AsyncConnectionPool,
    engine: sqlalchemy.Engine,
    async_engine: AsyncEngine,
) -> None:
    with Queue("postgresql://localhost/shop", "billing", async_commit=False, listen=False) as queue:
        assert_type(queue, Queue)
    assert_type(Queue(pool, listen="postgresql://localhost/shop"), Queue)
    assert_type(Queue(engine, schema="billing"), Queue)
    assert_type(AsyncQueue(async_pool), AsyncQueue)
    assert_type(AsyncQueue(async_engine), AsyncQueue)


def producing(queue: Queue, conn: psycopg.Connection, session: Session) -> None:
    assert_type(queue.enqueue({"invoice": 7}), Created)
    assert_type(queue.enqueue(Order("lamp"), channel="acme", delay=60, max_attempts=3), Created)
    assert_type(queue.status(queue.enqueue(b"", keep_result=60).id), Status)
    assert_type(queue.wait(7, timeout=5), Any)
    assert_type(queue.enqueue(b"bytes", run_at=datetime.now(UTC), headers={"trace": 1}), Created)
    assert_type(
        queue.enqueue(Payment(euros=1), delay=timedelta(hours=1), dedupe_key="1", unique_for=60, conn=conn),
        Created,
    )
    assert_type(queue.enqueue(None, priority=1, content_type="application/msgpack", conn=session), Created)
    assert_type(queue.enqueue(None, priority=-100, cost=5, lane="slow", delay=60), Created)
    created = queue.enqueue("a text")
    assert_type(created.id, int | None)
    assert_type(created.result, Result)
    if created.result == "created" or created.result is Result.DUPLICATE:
        pass


def rows() -> Iterator[NewMessage]:
    yield NewMessage({"row": 1}, channel="import", dedupe_key="1")


def enqueuing_many(queue: Queue, conn: psycopg.Connection) -> None:
    def show(so_far: Enqueued) -> None:
        assert_type(so_far.total, int)
        assert_type(so_far.latest[0], Created)

    assert_type(queue.enqueue_many(rows(), progress=show), Enqueued)
    assert_type(queue.enqueue_many(["a", b"b", {"c": 1}], channel="import", commit_each_chunk=True), Enqueued)
    assert_type(queue.enqueue_many((), progress=print, conn=conn), Enqueued)


def consuming(queue: Queue, conn: psycopg.Connection) -> None:
    messages = queue.dequeue(10, lease=60, wait=timedelta(seconds=5), consumer="mailer", lanes=["slow"])
    assert_type(messages, list[Delivery])
    for message in messages:
        assert_type(message.id, int)
        assert_type(message.channel, str)
        assert_type(message.attempts, int)
        assert_type(message.content, bytes)
        assert_type(message.state, bytes | None)
        assert_type(message.content_type, str | None)
        assert_type(message.payload, Any)
        assert_type(message.decode(Order), Order)
        assert_type(message.decode(Refund), Refund)
        assert_type(message.decode(Payment), Payment)
        assert_type(message.decode(dict[str, int]), dict[str, int])
        assert_type(queue.complete(message), Result)
        assert_type(queue.complete(message, conn=conn), Result)
        assert_type(queue.retry(message, delay=5, error="away", state=b"page 3", conn=conn), Result)
        assert_type(queue.retry(message, error=ValueError("away")), Result)
        assert_type(queue.extend(message, timedelta(minutes=1)), Extended)
        assert_type(queue.extend(message, 60).lease_end_at, int | None)
    assert_type(queue.complete_many(messages), list[Outcome])
    assert_type(queue.complete_many(message for message in messages), list[Outcome])
    assert_type(queue.extend_many(tuple(messages), 60), list[Extended])
    assert_type(queue.retry_many(messages, delay=5, error=ValueError("away")), list[Outcome])


def administering(queue: Queue, conn: psycopg.Connection) -> None:
    assert_type(queue.install(roles=True, conn=conn), Installed)
    assert_type(queue.get(7), Message | None)
    assert_type(queue.messages(channel="acme", status="due", limit=10), list[ListedMessage])
    assert_type(queue.cancel(7, conn=conn), Result)
    assert_type(queue.cancel_many({7, 8}), list[Outcome])
    assert_type(queue.reschedule(7, first=True), Result)
    assert_type(queue.place(7), Place | None)
    assert_type(queue.channels(order="waiting"), list[ChannelStatistics])
    assert_type(queue.lanes(), list[Lane])
    assert_type(queue.stats(), QueueStatistics)
    assert_type(queue.settings(), QueueSettings)
    assert_type(queue.set(lease=45, history=True, history_keep=timedelta(hours=1)), QueueSettings)
    assert_type(queue.maintain(), int)
    assert_type(queue.channel("acme").name, str)
    assert_type(queue.channel("acme").get(), ChannelPolicy)
    assert_type(
        queue.channel("acme").set(max_concurrency=2, rate="2/s", burst=5, paused=False), ChannelPolicy
    )
    assert_type(queue.channel("acme").stats(cap=100), ChannelStatistics)
    assert_type(queue.channel("acme").explain(), list[ChannelExplanation])
    assert_type(queue.channel("acme").delete(with_messages=True), Deleted)
    assert_type(queue.dead.list(channel="acme", error="no such%"), list[DeadMessage])
    assert_type(queue.dead.retry([7], delay=60), list[Outcome])
    assert_type(queue.dead.groups(by_channel=True), list[DeadGroup])
    assert_type(queue.dead.retry_all(channel="acme"), RetriedAll)
    assert_type(queue.dead.retry_all(fingerprint="0123456789ab", spread=600, dry_run=True), RetriedAll)
    assert_type(queue.dead.discard([7]), list[Outcome])
    assert_type(queue.dead.discard_all(), DiscardedAll)
    assert_type(queue.audit_begin("zoe", "pause", channel="acme", details={"for": 60}), int)
    assert_type(queue.audit_end(7, "done"), bool)
    assert_type(queue.audit(channel="acme"), list[AuditEntry])
    finished = queue.history(channel="acme", since=datetime.now(UTC), limit=10)
    assert_type(finished, list[FinishedMessage])
    assert_type(finished[0].past_runs[0].due_at, int)
    assert_type(queue.policies(channel="acme"), list[PastPolicy])
    assert_type(queue.history_summary(channel="acme", rows=100), list[TaskSummary])
    assert_type(finished[0].outcome, str)
    assert_type(finished[0].decode(Order), Order)


async def async_rows() -> AsyncIterator[Order]:
    yield Order("lamp")


async def using_an_async_queue(
    queue: AsyncQueue, conn: psycopg.AsyncConnection, session: AsyncSession
) -> None:
    async with queue as entered:
        assert_type(entered, AsyncQueue)
    assert_type(await queue.install(), Installed)
    assert_type(await queue.enqueue({"invoice": 7}, channel="acme", conn=conn), Created)
    assert_type(await queue.enqueue(Order("lamp"), delay=60, conn=session), Created)
    assert_type(await queue.enqueue_many(async_rows(), commit_each_chunk=True, progress=print), Enqueued)
    assert_type(await queue.enqueue_many(rows()), Enqueued)
    messages = await queue.dequeue(10, wait=5)
    assert_type(messages, list[Delivery])
    assert_type(messages[0].decode(Order), Order)
    assert_type(await queue.complete(messages[0], conn=conn), Result)
    assert_type(await queue.complete_many(messages), list[Outcome])
    assert_type(await queue.retry(messages[0], error="away"), Result)
    assert_type(await queue.extend(messages[0], 60), Extended)
    assert_type(await queue.extend_many(messages, 60), list[Extended])
    assert_type(await queue.get(7), Message | None)
    assert_type(await queue.messages(), list[ListedMessage])
    assert_type(await queue.cancel(7), Result)
    assert_type(await queue.reschedule(7), Result)
    assert_type(await queue.channels(), list[ChannelStatistics])
    assert_type(await queue.stats(), QueueStatistics)
    assert_type(await queue.settings(), QueueSettings)
    assert_type(await queue.set(paused=True), QueueSettings)
    assert_type(await queue.history(), list[FinishedMessage])
    assert_type(await queue.maintain(), int)
    assert_type(await queue.channel("acme").set(max_size=100, weight=0.5), ChannelPolicy)
    assert_type(await queue.channel("acme").stats(), ChannelStatistics)
    assert_type(await queue.channel("acme").explain(), list[ChannelExplanation])
    assert_type(await queue.dead.list(), list[DeadMessage])
    assert_type(await queue.dead.groups(), list[DeadGroup])
    assert_type(await queue.dead.retry_all(), RetriedAll)
    await queue.close()


def failing(queue: Queue) -> None:
    try:
        queue.enqueue(1)
    except (InvalidArgument, OutcomeUnknown, RetryTransaction) as error:
        assert_type(error.hint, str | None)
    except LonnyMQError as error:
        assert_type(error.message, str)


def tasks(queue: Queue, conn: psycopg.Connection) -> None:
    app = App(queue, include=["shop.tasks"])
    assert_type(app, App)
    app.include("shop.reports", "shop.mail.*")

    @app.task
    def bare(invoice: int) -> None: ...

    bare.enqueue(7)

    @app.task()
    def send(invoice: int, *, copies: int = 1) -> str:
        return f"{invoice} {copies}"

    @app.task(
        channel="mail",
        max_attempts=5,
        priority=-7,
        cost=3,
        lane="mail",
        headers={"kind": "mail"},
        backoff=Backoff(first=2),
        timeout=timedelta(minutes=1),
        lease=90,
        keep_result=timedelta(hours=1),
    )
    async def mail(order: Order, to: str) -> None:
        job = AsyncJob.current()
        await job.save({"page": 1})
        job.progress(0.4, "rendering")
        await job.complete(conn=object(), result=1, keep_result=60)
        raise Retry("away", after=timedelta(minutes=5), counts=False)

    assert_type(send(7, copies=2), str)
    assert_type(send.enqueue(7, copies=2), Handle)
    assert_type(send.enqueue(7).wait(timeout=5), Any)
    assert_type(mail.enqueue(Order("lamp"), to="me"), Handle)
    assert_type(
        send.using(delay=60, priority=None, cost=2, lane="slow", channel="acme", conn=conn).enqueue(7),
        Handle,
    )
    assert_type(send.message(7), NewMessage)
    assert_type(send.using(dedupe_key="7").message(invoice=7), NewMessage)
    assert_type(queue.enqueue_many(send.message(n) for n in range(10)), Enqueued)
    assert_type(send.name, str)
    some: Task[..., Any] = send
    some.enqueue(7)

    @app.cron("0 7 * * mon", tz="Europe/Berlin", catch_up="all")
    @app.task(backoff=lambda attempt: 2.0**attempt)
    def report(kind: str = "weekly") -> None:
        job = Job.current()
        assert_type(job, Job)
        assert_type(job.attempt, int)
        assert_type(job.task, str | None)
        assert_type(job.scheduled_at, int | None)
        assert_type(job.should_stop, bool)
        assert_type(job.stop_reason, StopReason | None)
        assert_type(job.is_interrupted, bool)
        job.save(job.state)
        job.complete(conn=conn)
        raise Discard("nobody reads it")

    report.enqueue()
    report.enqueue(kind="monthly")

    @app.consume
    def raw(message: Delivery) -> int:
        return message.id

    with app.inline() as ran:
        assert_type(ran, list[NewMessage])


def consuming_with_options(queue: Queue) -> None:
    @App(queue).consume(timeout=5, backoff=1)
    async def raw(message: Delivery) -> None: ...


async def async_tasks(queue: AsyncQueue) -> None:
    app = App(queue)

    @app.task()
    async def mail(to: str) -> None: ...

    @app.task()
    def send(invoice: int) -> None: ...

    assert_type(await mail.enqueue_async("me"), AsyncHandle)
    assert_type(await mail.enqueue_async("me").wait(timeout=timedelta(seconds=5)), Any)
    assert_type(await send.using(delay=5, keep_result=60).enqueue_async(invoice=7), AsyncHandle)
    assert_type(mail.enqueue("me"), Handle)
    await mail("me")
    assert_type(await queue.enqueue_many(send.message(n) for n in range(10)), Enqueued)


def working(app: App, async_app: App) -> None:
    def on_result(message: Delivery, error: BaseException | None) -> None: ...

    assert_type(
        Worker(app, concurrency=20, lease=60, health_file="health.json", on_result=on_result).run(), int
    )
    Worker(async_app, prefetch=timedelta(0), shutdown_timeout=5).stop(force=True)


async def serving(app: App) -> None:
    await Worker(app).serve(until_empty=True)
