"""Everything that a queue can hold of one tenant. Every text in it contains the tenant's mark."""

import json
import uuid
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from lonnymq import Delivery, Queue
from lonnymq.client.calls import ask
from lonnymq.commands import HistoryBounds, HistoryFollow, ScheduleOpen, WorkerReport

FAR = 3_600


@dataclass(frozen=True)
class Filled:
    """The ids and names of what there is."""

    tenant: str
    mark: str
    scheduled: int
    due: int
    leased: int
    retried: int
    """It failed, left a state, and is scheduled."""
    dead: int
    other_dead: int
    """Of another group."""
    fingerprint: str
    completed: int
    result: int
    """It has a kept result, and is not in the history."""
    batch: int
    schedule: str
    worker: str
    follower: str
    lane: str
    cursor: str
    """Of a list of its messages."""

    def ids(self) -> list[int]:
        return [
            self.scheduled,
            self.due,
            self.leased,
            self.retried,
            self.dead,
            self.other_dead,
            self.completed,
            self.result,
        ]


def fill(queue: Queue, tenant: str, mark: str, hidden: str = "-") -> Filled:
    """No other message may be due in the lanes of the mark."""
    lane = f"{mark}-lane"
    worker = f"{mark}-worker"
    headers = {"task": f"{mark}-task", "x-note": f"{mark}-header", "x-token": hidden}
    payload = {"note": f"{mark}-payload", "nested": [{"password": hidden}]}
    state = json.dumps({"note": f"{mark}-state", "token": hidden}).encode()

    def enqueue(which: str, **options: Any) -> int:
        of_message = {"headers": headers, "lane": lane, "dedupe_key": f"{mark}-key-{which}"} | options
        return queue.enqueue(payload, channel=tenant, **of_message).id or 0

    def take() -> Delivery:
        (message,) = queue.dequeue(consumer=worker, lanes=[lane], wait=10)
        return message

    queue.channel(tenant).set(max_size=10_000)
    dead, other_dead = enqueue("dead"), enqueue("other")
    queue.fail(take(), error=f"ValueError: {mark}-error password={hidden}")
    queue.fail(take(), error=f"KeyError: {mark}-error")
    retried = enqueue("retried")
    queue.retry(take(), delay=FAR, error=f"OSError: {mark}-error token={hidden}", state=state)
    queue.set(history=False)
    result = enqueue("result", keep_result=FAR)
    queue.complete(take(), result={"note": f"{mark}-result"})
    queue.set(history=True)
    completed = enqueue("completed")
    queue.complete(take())
    leased = enqueue("leased")
    take()
    with queue.batch(f"{mark}-batch") as batch:
        due = batch.enqueue(payload, channel=tenant, headers=headers, lane=lane).id or 0
    scheduled = enqueue("scheduled", delay=FAR)
    queue.dispatch()
    schedule = f"{mark}-schedule"
    queue.perform(
        ask(
            ScheduleOpen(
                [schedule], ["0 3 * * *"], ["UTC"], ["one"], [tenant], [b"1"], [{"headers": headers}]
            )
        )
    )
    report = WorkerReport(
        uuid.uuid4(),
        worker,
        f"{mark}-host",
        7,
        "0.1.0",
        60_000,
        [f"{mark}-task"],
        4,
        2,
        "serving",
        [lane],
        [f"{mark}-unknown"],
        [3],
        [5_000],
    )
    queue.perform(ask(report))
    follower = f"{mark}-follower"
    queue.perform(ask(HistoryFollow(follower, queue.perform(ask(HistoryBounds())).snapshot)))
    (letter,) = [one for one in queue.dead.groups(channel=tenant, limit=10) if one.example_id == dead]
    return Filled(
        tenant,
        mark,
        scheduled,
        due,
        leased,
        retried,
        dead,
        other_dead,
        letter.fingerprint,
        completed,
        result,
        batch.id,
        schedule,
        worker,
        follower,
        lane,
        queue.messages(channel=tenant, status="scheduled", limit=1)[0].cursor,
    )


def contents(dsn: str) -> dict[str, str]:
    """A digest of each table of the queue."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        tables = conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'lonnymq'").fetchall()
        return {name: _digest(conn, name) for (name,) in tables}


def _digest(conn: psycopg.Connection, table: str) -> str:
    query = sql.SQL("SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM {} t")
    row = conn.execute(query.format(sql.Identifier("lonnymq", table))).fetchone()
    return "" if row is None else str(row[0])
