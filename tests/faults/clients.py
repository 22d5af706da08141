"""Clients of a queue that misbehave in every way clients do, and write down what they saw."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg import errors
from psycopg.types.json import Jsonb

from tests.faults.history import Create, Delivery, Finish, History, Outcome, Pause

STAMP: LiteralString = "SELECT FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT"
DEQUEUE: LiteralString = "SELECT * FROM message_dequeue(%s, %s, %s)"
CUT = (psycopg.OperationalError, psycopg.InterfaceError)
DONE = {"complete": "completed", "defer": "deferred", "fail": "deferred", "extend": "extended"}
Plan = dict[str, Any]


class Abandon(Exception):
    """The client changes its mind: roll back."""


class Client:
    """A connection that is opened anew when it is cut, and the history of what it did."""

    def __init__(self, name: str, dsn: str, seed: str) -> None:
        self.name = name
        self.dsn = dsn
        self.random = random.Random(f"{seed}/{name}")
        self.history = History()
        self.pid: int | None = None
        self._connection: psycopg.Connection | None = None

    @property
    def connection(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                self.dsn, autocommit=True, options="-c search_path=lonnymq", application_name=self.name
            )
            self.pid = self._connection.info.backend_pid
        return self._connection

    def close(self) -> None:
        self.pid = None
        if self._connection is not None:
            self._connection.close()

    def cut(self) -> None:
        self.history.notes["cut"] += 1
        self.close()

    def value(self, query: LiteralString, parameters: tuple[Any, ...] = ()) -> Any:
        row = self.connection.execute(query, parameters).fetchone()
        return None if row is None else row[0]

    def stamp(self) -> int:
        """The server's clock, from a new connection if need be."""
        while True:
            try:
                stamp: int = self.value(STAMP)
            except CUT:
                self.cut()
            else:
                return stamp

    def pause(self, low_ms: float, high_ms: float) -> None:
        time.sleep(self.random.uniform(low_ms, high_ms) / 1000)

    @contextmanager
    def transaction(self) -> Iterator[Callable[[], Outcome]]:
        """Commits, unless Abandon is raised inside. The outcome is known when the block is left."""
        outcome = Outcome.FAIL
        self._begin()
        try:
            yield lambda: outcome
            outcome = Outcome.UNKNOWN
            self.connection.execute("COMMIT")
            outcome = Outcome.OK
        except Abandon:
            self._give_up()
        except errors.DeadlockDetected:
            self.history.deadlocks += 1
            self._give_up()
        except CUT:
            self.cut()

    def _begin(self) -> None:
        while True:
            try:
                self.connection.execute("BEGIN")
            except CUT:
                self.cut()
            else:
                return

    def _give_up(self) -> None:
        try:
            self.connection.execute("ROLLBACK")
        except CUT:
            self.cut()


class Producer(Client):
    """Creates singly and in bulk, rolls back, rolls back to savepoints, schedules, and puts ahead."""

    def __init__(self, name: str, dsn: str, seed: str, channels: list[str], *, limited: list[str]) -> None:
        super().__init__(name, dsn, seed)
        self.channels = channels
        self.limited = limited  # given fewer, as they are served slowly
        self._n = 0

    def run(self, until: threading.Event) -> History:
        ways = (self._single, self._bulk, self._with_savepoints, self._opposed)
        while not until.is_set():
            self.random.choice(ways)()
            self.pause(5, 40)
        self.close()
        return self.history

    def _plan(self, channel: str | None = None) -> Plan:
        self._n += 1
        now = int(time.time() * 1000)
        is_poison = self.random.random() < 0.01
        name = f"{self.name}/{self._n}/".encode() + self.random.randbytes(8)
        return {
            "channel": channel
            or self.random.choice(self.limited if self.random.random() < 0.15 else self.channels),
            "content": b"poison " + name if is_poison else name,
            "dequeue_at": self.random.choice(
                [None, None, now, now - 5000, -1, now + self.random.randint(1, 1500), now + 50]
            ),
            "headers": {"n": self._n} if self.random.random() < 0.2 else None,
            # More than expiring leases use up, so that none but poison dies.
            "max_attempts": 3 if is_poison else 50,
        }

    def _note(self, plans: list[Plan], ids: list[int | None], outcome: Outcome) -> None:
        self.history.notes[f"create {outcome.value}"] += len(plans)
        self.history.creates += [Create(outcome=outcome, id=i, **p) for p, i in zip(plans, ids, strict=True)]

    def _create(self, plan: Plan) -> int:
        id_: int = self.value(
            "SELECT id FROM message_create(%s, %s, %s, %s, %s)",
            (
                plan["channel"],
                plan["content"],
                plan["dequeue_at"],
                _json(plan["headers"]),
                plan["max_attempts"],
            ),
        )
        return id_

    def _create_many(self, plans: list[Plan]) -> list[int | None]:
        columns = ("channel", "content", "dequeue_at", "headers", "max_attempts")
        arrays = [[_json(p[c]) if c == "headers" else p[c] for p in plans] for c in columns]
        rows = self.connection.execute(
            "SELECT id FROM message_create_many(%s, %s, %s::bigint[], %s::jsonb[], %s::int[])", arrays
        )
        return [row[0] for row in rows]

    def _single(self) -> None:
        plan = self._plan()
        id_: int | None = None
        outcome = Outcome.UNKNOWN
        try:
            id_ = self._create(plan)
            outcome = Outcome.OK
        except CUT:
            self.cut()
        self._note([plan], [id_], outcome)

    def _bulk(self) -> None:
        self._together([self._plan() for _ in range(self.random.randint(2, 20))])

    def _opposed(self) -> None:
        """All channels in one transaction, in one order or the opposite one."""
        channels = sorted(self.channels, reverse=self.random.random() < 0.5)
        self._together([self._plan(channel) for channel in channels])

    def _together(self, plans: list[Plan]) -> None:
        ids: list[int | None] = [None] * len(plans)
        with self.transaction() as outcome:
            if self.random.random() < 0.5:
                ids = self._create_many(plans)
            else:
                for i, plan in enumerate(plans):
                    ids[i] = self._create(plan)
            if self.random.random() < 0.1:
                self.pause(50, 300)  # open while others fold past it
            if self.random.random() < 0.2:
                raise Abandon
        self._note(plans, ids, outcome())

    def _with_savepoints(self) -> None:
        plans = [self._plan() for _ in range(self.random.randint(2, 6))]
        kept: list[bool] = []
        ids: list[int | None] = []
        with self.transaction() as outcome:
            for plan in plans:
                self.connection.execute("SAVEPOINT s")
                ids.append(self._create(plan))
                kept.append(self.random.random() < 0.6)
                self.connection.execute("RELEASE s" if kept[-1] else "ROLLBACK TO s")
        for plan, id_, keep in zip(plans, ids, kept, strict=False):
            self._note([plan], [id_], outcome() if keep else Outcome.FAIL)
        self.history.notes["savepoint rolled back"] += kept.count(False)


def _json(value: Any) -> Any:
    return None if value is None else Jsonb(value)


class Consumer(Client):
    """Folds, dequeues, completes, defers, fails, extends; stalls past its lease, leaves transactions open."""

    LEASES = (40, 80, 150, 2000)

    def __init__(self, name: str, dsn: str, seed: str) -> None:
        super().__init__(name, dsn, seed)
        self._calls = 0
        self._is_calm = False

    def run(self, calm: threading.Event, until: threading.Event) -> History:
        """Until `calm`, it misbehaves."""
        while not until.is_set():
            self._is_calm = calm.is_set()
            try:
                self._visit()
            except CUT:
                self.cut()
        self.close()
        return self.history

    def _visit(self) -> None:
        self.value("SELECT wake_fold()")
        rest = self._dequeue()
        if not rest:
            self.pause(1, 10)
            return
        if not self._is_calm and self.random.random() < 0.1:
            self.history.notes["stalled"] += len(rest)
            self.pause(100, 400)
        self.random.shuffle(rest)
        if self.random.random() < 0.4:
            many = [d for d in rest if not d.content.startswith(b"poison")]
            rest = [d for d in rest if d not in many]
            self._complete_many(many)
        for delivery in rest:
            self._work(delivery)

    def _dequeue(self) -> list[Delivery]:
        lease_ms = 2000 if self._is_calm else self.random.choice(self.LEASES)
        parameters = (self.random.choice((1, 1, 5, 30)), lease_ms, self.name)
        self._calls += 1
        asked_at = self.stamp()
        chance = 1.0 if self._is_calm else self.random.random()
        rows: list[tuple[Any, ...]] = []
        outcome = Outcome.UNKNOWN
        if chance < 0.15:
            with self.transaction() as result:
                rows = self.connection.execute(DEQUEUE, parameters).fetchall()
                if chance < 0.1:
                    self.pause(20, 300)
                if chance < 0.05:
                    self.history.notes["dequeue rolled back"] += 1
                    raise Abandon
            outcome = result()
        else:
            try:
                rows = self.connection.execute(DEQUEUE, parameters).fetchall()
                outcome = Outcome.OK
            except CUT:
                self.cut()
        if outcome is Outcome.UNKNOWN and not rows:
            self.history.hidden_dequeues += 1
        between = (asked_at, self.stamp())
        deliveries = [
            Delivery.from_row(row, self.name, self._calls, place, lease_ms, outcome, between)
            for place, row in enumerate(rows)
            if row[0] is not None
        ]
        self.history.deliveries += deliveries
        return [] if outcome is Outcome.FAIL else deliveries

    def _work(self, delivery: Delivery) -> None:
        key = (delivery.id, delivery.token)
        if delivery.content.startswith(b"poison"):
            self._finish("fail", *key, error="poison")
            return
        chance = 1.0 if self._is_calm else self.random.random()
        if chance < 0.05:
            self._finish("defer", *key, state=self.random.randbytes(4))
        elif chance < 0.1:
            self._finish("defer", *key, at=int(time.time() * 1000) + self.random.randint(-100, 500))
        elif chance < 0.15:
            self._finish("fail", *key, error="tried")
        elif chance < 0.2:
            self.history.notes["forgotten"] += 1
        else:
            if chance < 0.3:
                self._finish("extend", *key, lease_ms=self.random.choice((50, 200, 1000)))
                self.pause(0, 100)
            self._finish("complete", *key)
            if chance > 0.95:
                self._finish("complete", *key)

    def _finish(
        self,
        kind: str,
        id_: int,
        token: UUID,
        *,
        at: int | None = None,
        state: bytes | None = None,
        error: str | None = None,
        lease_ms: int = 0,
    ) -> None:
        asked_at = self.stamp()
        lease_end_at = None
        result = DONE[kind]
        outcome = Outcome.UNKNOWN
        try:
            if kind == "complete":
                result = self._complete(id_, token)
            elif kind == "extend":
                query: LiteralString = "SELECT * FROM message_extend(%s, %s, %s)"
                [(result, lease_end_at)] = self.connection.execute(query, (id_, token, lease_ms)).fetchall()
            else:
                result = self.value(
                    "SELECT message_defer(%s, %s, %s, %s, %s)", (id_, token, at, state, error)
                )
            outcome = Outcome.OK
        except errors.DeadlockDetected:
            self.history.deadlocks += 1
            outcome = Outcome.FAIL
        except Abandon:
            outcome = Outcome.FAIL
        except CUT:
            self.cut()
        self._note(Finish(kind, id_, token, result, outcome, asked_at, self.stamp(), lease_end_at, at, state))

    def _complete(self, id_: int, token: UUID) -> str:
        """Now and then inside a transaction that is then given up."""
        if self._is_calm or self.random.random() < 0.95:
            result: str = self.value("SELECT message_complete(%s, %s)", (id_, token))
            return result
        self.connection.execute("BEGIN")
        self.value("SELECT message_complete(%s, %s)", (id_, token))
        self.pause(0, 50)
        self.connection.execute("ROLLBACK")
        raise Abandon

    def _complete_many(self, deliveries: list[Delivery]) -> None:
        asked_at = self.stamp()
        results = ["completed"] * len(deliveries)
        outcome = Outcome.UNKNOWN
        try:
            rows = self.connection.execute(
                "SELECT result FROM message_complete_many(%s::bigint[], %s::uuid[])",
                ([d.id for d in deliveries], [d.token for d in deliveries]),
            )
            results = [row[0] for row in rows]
            outcome = Outcome.OK
        except errors.DeadlockDetected:
            self.history.deadlocks += 1
            outcome = Outcome.FAIL
        except CUT:
            self.cut()
        done_at = self.stamp()
        for delivery, result in zip(deliveries, results, strict=True):
            self._note(Finish("complete", delivery.id, delivery.token, result, outcome, asked_at, done_at))

    def _note(self, finish: Finish) -> None:
        self.history.finishes.append(finish)
        self.history.notes[f"{finish.kind} {finish.result} {finish.outcome.value}"] += 1


class Pauser(Client):
    """Stops a channel for a while, again and again."""

    def run(self, channel: str, until: threading.Event) -> History:
        while not until.is_set():
            self._set(channel, paused=True)
            from_at = self.stamp()
            until.wait(self.random.uniform(0.2, 1.0))
            to_at = self.stamp()
            self._set(channel, paused=False)
            self.history.pauses.append(Pause(channel, from_at, to_at))
            until.wait(self.random.uniform(0.2, 0.5))
        self.close()
        return self.history

    def _set(self, channel: str, *, paused: bool) -> None:
        self.value("SELECT paused FROM channel_set(%s, p_paused => %s)", (channel, paused))


class Maintainer(Client):
    def run(self, until: threading.Event) -> History:
        while not until.is_set():
            self.history.notes["rows cleaned"] += self.value("SELECT maintain(2000)")
            self.pause(20, 100)
        self.close()
        return self.history


class Killer(Client):
    """Ends the sessions of others at any moment."""

    def run(self, victims: list[Client], until: threading.Event) -> History:
        while not until.wait(self.random.uniform(0.05, 0.4)):
            pid = self.random.choice(victims).pid
            if pid is not None:
                self.history.notes["killed"] += bool(self.value("SELECT pg_terminate_backend(%s)", (pid,)))
        self.close()
        return self.history
