"""Clients that make the mistakes that real clients make, and record what they saw."""

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import psycopg
from psycopg import errors
from psycopg.types.json import Jsonb

from tests.faults.history import Act, Create, Delivery, Finish, History, Outcome, Pause

SERVER_TIME: LiteralString = "SELECT FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT"
DEQUEUE: LiteralString = "SELECT * FROM message_dequeue(%s, %s, %s)"
CONNECTION_ERRORS = (psycopg.OperationalError, psycopg.InterfaceError)
DONE = {"complete": "completed", "release": "retried", "fail": "retried", "extend": "extended"}
Plan = dict[str, Any]


class RolledBack(Exception):
    """Raised to roll back the transaction."""


class Client:
    """A connection that reconnects when it is dropped, and the history of its calls."""

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

    def note_dropped(self) -> None:
        """Count a dropped connection; if a deadlock caused the error, count that too."""
        self.history.deadlocks += isinstance(sys.exception(), errors.DeadlockDetected)
        self.history.notes["connection dropped"] += 1
        self.close()

    def value(self, query: LiteralString, parameters: tuple[Any, ...] = ()) -> Any:
        row = self.connection.execute(query, parameters).fetchone()
        return None if row is None else row[0]

    def server_time(self) -> int:
        """Read the server's clock, over a new connection if the old one is broken."""
        while True:
            try:
                server_time: int = self.value(SERVER_TIME)
            except CONNECTION_ERRORS:
                self.note_dropped()
            else:
                return server_time

    def pause(self, low_ms: float, high_ms: float) -> None:
        time.sleep(self.random.uniform(low_ms, high_ms) / 1000)

    @contextmanager
    def transaction(self) -> Iterator[Callable[[], Outcome]]:
        """Commit, unless RolledBack is raised inside. The outcome is known after the block."""
        outcome = Outcome.FAIL
        self._begin()
        try:
            yield lambda: outcome
            outcome = Outcome.UNKNOWN
            self.connection.execute("COMMIT")
            outcome = Outcome.OK
        except RolledBack:
            self._roll_back()
        except errors.DeadlockDetected:
            self.history.deadlocks += 1
            self._roll_back()
        except CONNECTION_ERRORS:
            self.note_dropped()

    def _begin(self) -> None:
        while True:
            try:
                self.connection.execute("BEGIN")
            except CONNECTION_ERRORS:
                self.note_dropped()
            else:
                return

    def _roll_back(self) -> None:
        try:
            self.connection.execute("ROLLBACK")
        except CONNECTION_ERRORS:
            self.note_dropped()


class Answer(NamedTuple):
    id: int | None
    result: str
    called_at: int
    answered_at: int


class Producer(Client):
    """Creates one by one and in bulk, with delays and priorities; rolls back, also to savepoints.

    `keyed` is the share of messages with a dedupe key; keys are the same for all producers, and are kept for
    `keep_ms` after their message has finished. `poison` is the share of messages that always fail.
    """

    KEYS = 6

    def __init__(
        self,
        name: str,
        dsn: str,
        seed: str,
        channels: list[str],
        *,
        limited: list[str],
        keyed: float = 0,
        keep_ms: int = 0,
        poison: float = 0.01,
    ) -> None:
        super().__init__(name, dsn, seed)
        self.keep_ms = keep_ms
        self.channels = channels
        self.limited = limited  # get fewer messages, because they are served slowly
        self.keyed = keyed
        self.poison = poison
        self._n = 0

    def run(self, until: threading.Event) -> History:
        actions = (self._single, self._bulk, self._with_savepoints, self._in_all_channels)
        while not until.is_set():
            self.random.choice(actions)()
            self.pause(5, 40)
        self.close()
        return self.history

    def _plan(self, channel: str | None = None) -> Plan:
        self._n += 1
        now = int(time.time() * 1000)
        is_poison = self.random.random() < self.poison
        name = f"{self.name}/{self._n}/".encode() + self.random.randbytes(8)
        return {
            "channel": channel
            or self.random.choice(self.limited if self.random.random() < 0.15 else self.channels),
            "content": b"poison " + name if is_poison else name,
            "dequeue_at": self.random.choice(
                [None, None, now, now - 5000, -1, now + self.random.randint(1, 1500), now + 50]
            ),
            "headers": {"n": self._n} if self.random.random() < 0.2 else None,
            # More than expiring leases use up, so that only poison messages die.
            "max_attempts": 3 if is_poison else 50,
            "dedupe_key": f"key {self.random.randrange(self.KEYS)}"
            if self.random.random() < self.keyed
            else None,
        }

    def _note(self, plans: list[Plan], answers: list[Answer | None], outcome: Outcome) -> None:
        self.history.notes[f"create {outcome.value}"] += len(plans)
        done_at = self.server_time()
        for plan, answer in zip(plans, answers, strict=True):
            reply = Answer(None, "unknown", 0, 0) if answer is None else answer
            is_created = reply.result in {"created", "unknown"}
            self.history.notes[f"create {reply.result}"] += 1
            self.history.creates.append(
                Create(
                    outcome=outcome if is_created else Outcome.FAIL,
                    id=reply.id if is_created else None,
                    result=reply.result,
                    holder=None if is_created else reply.id,
                    called_at=reply.called_at,
                    answered_at=reply.answered_at,
                    done_at=done_at,
                    **plan,
                )
            )

    def _create(self, plan: Plan) -> Answer:
        called_at = self.value(SERVER_TIME)
        columns = ("channel", "content", "dequeue_at", "headers", "max_attempts", "dedupe_key")
        row = self.connection.execute(
            "SELECT id, result FROM message_create(%s, %s, %s, %s, %s, %s, p_unique_for_ms => %s)",
            [*(_json(plan[c]) if c == "headers" else plan[c] for c in columns), self._unique_for(plan)],
        ).fetchone()
        assert row is not None
        return Answer(row[0], row[1], called_at, self.value(SERVER_TIME))

    def _unique_for(self, plan: Plan) -> int | None:
        return None if plan["dedupe_key"] is None else self.keep_ms

    def _create_many(self, plans: list[Plan]) -> list[Answer | None]:
        columns = ("channel", "content", "dequeue_at", "headers", "max_attempts", "dedupe_key")
        arrays = [[_json(p[c]) if c == "headers" else p[c] for p in plans] for c in columns]
        called_at = self.value(SERVER_TIME)
        rows = self.connection.execute(
            "SELECT id, result FROM message_create_many("
            "%s, %s, %s::bigint[], %s::jsonb[], %s::int[], %s::text[], p_unique_fors_ms => %s::bigint[])",
            [*arrays, [self._unique_for(plan) for plan in plans]],
        ).fetchall()
        answered_at = self.value(SERVER_TIME)
        return [Answer(id_, result, called_at, answered_at) for id_, result in rows]

    def _single(self) -> None:
        plan = self._plan()
        answer: Answer | None = None
        outcome = Outcome.UNKNOWN
        try:
            answer = self._create(plan)
            outcome = Outcome.OK
        except CONNECTION_ERRORS:
            self.note_dropped()
        self._note([plan], [answer], outcome)

    def _bulk(self) -> None:
        self._in_one_transaction([self._plan() for _ in range(self.random.randint(2, 20))])

    def _in_all_channels(self) -> None:
        """Create in all channels in one transaction, in ascending or descending order."""
        channels = sorted(self.channels, reverse=self.random.random() < 0.5)
        self._in_one_transaction([self._plan(channel) for channel in channels])

    def _in_one_transaction(self, plans: list[Plan]) -> None:
        answers: list[Answer | None] = [None] * len(plans)
        is_one_call = self.random.random() < 0.5
        if not is_one_call:
            plans = self._sorted(plans)
        with self.transaction() as outcome:
            if is_one_call:
                answers = self._create_many(plans)
            else:
                for i, plan in enumerate(plans):
                    answers[i] = self._create(plan)
            if self.random.random() < 0.1:
                self.pause(50, 300)  # stay open while others dispatch
            if self.random.random() < 0.2:
                raise RolledBack
        self._note(plans, answers, outcome())

    def _sorted(self, plans: list[Plan]) -> list[Plan]:
        """One call orders its own locks; with several calls in a transaction, the caller must order them."""
        if not self.keyed:
            return plans
        return sorted(plans, key=lambda plan: (plan["channel"], plan["dedupe_key"] or ""))

    def _with_savepoints(self) -> None:
        plans = self._sorted([self._plan() for _ in range(self.random.randint(2, 6))])
        kept: list[bool] = []
        answers: list[Answer | None] = []
        with self.transaction() as outcome:
            for plan in plans:
                self.connection.execute("SAVEPOINT s")
                answers.append(self._create(plan))
                kept.append(self.random.random() < 0.6)
                self.connection.execute("RELEASE s" if kept[-1] else "ROLLBACK TO s")
        for plan, answer, keep in zip(plans, answers, kept, strict=False):
            self._note([plan], [answer], outcome() if keep else Outcome.FAIL)
        self.history.notes["savepoint rolled back"] += kept.count(False)


def _json(value: Any) -> Any:
    return None if value is None else Jsonb(value)


class Consumer(Client):
    """Uses every call of a consumer; also stalls until its lease runs out and leaves transactions open."""

    LEASES = (40, 80, 150, 2000)

    def __init__(self, name: str, dsn: str, seed: str) -> None:
        super().__init__(name, dsn, seed)
        self._calls = 0
        self._is_calm = False

    def run(self, calm: threading.Event, until: threading.Event) -> History:
        """Misbehave until `calm` is set."""
        while not until.is_set():
            self._is_calm = calm.is_set()
            try:
                self._step()
            except CONNECTION_ERRORS:
                self.note_dropped()
        self.close()
        return self.history

    def _step(self) -> None:
        self.value("SELECT dispatch()")
        deliveries = self._dequeue()
        if not deliveries:
            self._wait_for_messages()
            return
        if not self._is_calm and self.random.random() < 0.1:
            self.history.notes["stalled"] += len(deliveries)
            self.pause(100, 400)
        self.random.shuffle(deliveries)
        if self.random.random() < 0.4:
            good = [d for d in deliveries if not d.content.startswith(b"poison")]
            deliveries = [d for d in deliveries if d not in good]
            self._complete_many(good)
        for delivery in deliveries:
            self._work(delivery)

    def _wait_for_messages(self) -> None:
        self.pause(1, 10)

    def _dequeue(self) -> list[Delivery]:
        lease_ms = 2000 if self._is_calm else self.random.choice(self.LEASES)
        parameters = (self.random.choice((1, 1, 5, 30)), lease_ms, self.name)
        self._calls += 1
        called_at = self.server_time()
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
                    raise RolledBack
            outcome = result()
        else:
            try:
                rows = self.connection.execute(DEQUEUE, parameters).fetchall()
                outcome = Outcome.OK
            except CONNECTION_ERRORS:
                self.note_dropped()
        if outcome is Outcome.UNKNOWN and not rows:
            self.history.hidden_dequeues += 1
        between = (called_at, self.server_time())
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
            self._finish("release", *key, state=self.random.randbytes(4))
        elif chance < 0.1:
            self._finish("release", *key, at=int(time.time() * 1000) + self.random.randint(-100, 500))
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
        called_at = self.server_time()
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
                    "SELECT message_retry(%s, %s, %s, %s, %s)", (id_, token, at, state, error)
                )
            outcome = Outcome.OK
        except errors.DeadlockDetected:
            self.history.deadlocks += 1
            outcome = Outcome.FAIL
        except RolledBack:
            outcome = Outcome.FAIL
        except CONNECTION_ERRORS:
            self.note_dropped()
        self._note(
            Finish(kind, id_, token, result, outcome, called_at, self.server_time(), lease_end_at, at, state)
        )

    def _complete(self, id_: int, token: UUID) -> str:
        """Complete the message, sometimes in a transaction that is then rolled back."""
        if self._is_calm or self.random.random() < 0.95:
            result: str = self.value("SELECT message_complete(%s, %s)", (id_, token))
            return result
        self.connection.execute("BEGIN")
        self.value("SELECT message_complete(%s, %s)", (id_, token))
        self.pause(0, 50)
        self.connection.execute("ROLLBACK")
        raise RolledBack

    def _complete_many(self, deliveries: list[Delivery]) -> None:
        called_at = self.server_time()
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
        except CONNECTION_ERRORS:
            self.note_dropped()
        done_at = self.server_time()
        for delivery, result in zip(deliveries, results, strict=True):
            self._note(Finish("complete", delivery.id, delivery.token, result, outcome, called_at, done_at))

    def _note(self, finish: Finish) -> None:
        self.history.finishes.append(finish)
        self.history.notes[f"{finish.kind} {finish.result} {finish.outcome.value}"] += 1


class Sleeper(Consumer):
    """A consumer that sleeps until it is notified when it finds no messages."""

    def __init__(self, name: str, dsn: str, seed: str) -> None:
        super().__init__(name, dsn, seed)
        self._listens: psycopg.Connection | None = None
        self._generation: int | None = None

    def _wait_for_messages(self) -> None:
        """Sleep if sleep_begin was sure and a dequeue after it found nothing."""
        if self._listens is not self.connection:
            self._listens, self._generation = self.connection, None
            name: str = self.value("SELECT notify_channel FROM queue_get()")
            self.connection.execute(f"LISTEN {name}".encode())
        elif self._generation is not None:
            self.history.notes["slept"] += 1
            heard = list(self.connection.notifies(timeout=0.2, stop_after=1))
            self.history.notes["notified"] += len(heard)
        row = self.connection.execute("SELECT * FROM sleep_begin(%s)", (self._generation,)).fetchone()
        assert row is not None
        self._generation = row[0] if row[1] else None
        if self._generation is None:
            self.pause(1, 10)


class Operator(Client):
    """Cancels, reschedules, retries and discards at random, and deletes a channel."""

    def __init__(self, name: str, dsn: str, seed: str, *, doomed: str) -> None:
        super().__init__(name, dsn, seed)
        self.doomed = doomed

    def run(self, until: threading.Event) -> History:
        actions = (
            *[self._cancel] * 4,
            *[self._cancel_many] * 2,
            *[self._reschedule] * 4,
            self._retry,
            self._discard,
            *[self._retry_all] * 2,
            self._delete,
        )
        while not until.is_set():
            self.random.choice(actions)()
            self.pause(5, 40)
        self.close()
        return self.history

    def _random_ids(self, table: str, count: int) -> list[int]:
        query = f"SELECT id FROM {table} ORDER BY random() LIMIT {count}"
        return [row[0] for row in self.connection.execute(query.encode())]

    def _act(self, kind: str, query: LiteralString, *parameters: object, at: int | None = None) -> None:
        """Run a query that returns rows of (id, result), and record each as an act."""
        called_at = self.server_time()
        rows = self.connection.execute(query, parameters).fetchall()
        done_at = self.server_time()
        for id_, result in rows:
            self.history.acts.append(Act(kind, id_, result, called_at, done_at, dequeue_at=at))
            self.history.notes[f"{kind} {result}"] += 1

    def _cancel(self) -> None:
        for id_ in self._random_ids(self.random.choice(("message", "leases")), 1):
            self._act("cancel", "SELECT %s::BIGINT, message_cancel(%s)", id_, id_)

    def _cancel_many(self) -> None:
        ids = self._random_ids("message", 3) + self._random_ids("dead", 1)
        self._act("cancel", "SELECT * FROM message_cancel_many(%s::BIGINT[])", ids)

    def _reschedule(self) -> None:
        at = self.random.choice([None, int(time.time() * 1000) + self.random.randint(-200, 400)])
        for id_ in self._random_ids("message", 1):
            self._act("reschedule", "SELECT %s::BIGINT, message_reschedule(%s, %s)", id_, id_, at, at=at)

    def _retry(self) -> None:
        self._act("retry", "SELECT * FROM dead_retry(%s::BIGINT[])", self._random_ids("dead", 3))

    def _discard(self) -> None:
        self._act("discard", "SELECT * FROM dead_discard(%s::BIGINT[])", self._random_ids("dead", 1))

    def _retry_all(self) -> None:
        """Retry the dead letters of a random channel, but not of the one that is deleted."""
        query: LiteralString = "SELECT channel FROM dead WHERE channel <> %s ORDER BY random() LIMIT 1"
        channel = self.value(query, (self.doomed,))
        if channel is None:
            return
        called_at = self.server_time()
        count = self.value("SELECT retried FROM dead_retry_all(%s, 'poi%%', p_limit => 5)", (channel,))
        act = Act("retry all", 0, "", called_at, self.server_time(), channel, count=count)
        self.history.acts.append(act)
        self.history.notes["retry all"] += count

    def _delete(self) -> None:
        called_at = self.server_time()
        query: LiteralString = "SELECT * FROM channel_delete(%s, TRUE, 20)"
        [(result, count)] = self.connection.execute(query, (self.doomed,)).fetchall()
        act = Act("delete", 0, result, called_at, self.server_time(), self.doomed, count=count)
        self.history.acts.append(act)
        self.history.notes[f"delete {result}"] += 1


class Auditor(Client):
    """Runs queries that return what is broken in the tables, each in one snapshot, again and again."""

    def run(self, queries: dict[str, LiteralString], until: threading.Event) -> History:
        while not until.is_set():
            for rule, query in queries.items():
                broken = self.connection.execute(query).fetchall()
                self.history.audits += [f"{rule}: {row}" for row in broken[:3]]
            self.history.notes["audited"] += 1
            self.pause(10, 40)
        self.close()
        return self.history


class Pauser(Client):
    """Pauses a channel (None: the queue) for a while, again and again."""

    def run(self, channel: str | None, until: threading.Event) -> History:
        while not until.is_set():
            self._set(channel, paused=True)
            from_at = self.server_time()
            until.wait(self.random.uniform(0.2, 1.0) if channel else self.random.uniform(0.02, 0.2))
            to_at = self.server_time()
            self._set(channel, paused=False)
            self.history.pauses.append(Pause(channel, from_at, to_at))
            until.wait(self.random.uniform(0.2, 0.5))
        self.close()
        return self.history

    def _set(self, channel: str | None, *, paused: bool) -> None:
        if channel is None:
            self.value("SELECT paused FROM queue_set(p_paused => %s)", (paused,))
            return
        self.value("SELECT paused FROM channel_set(%s, p_paused => %s)", (channel, paused))


class Maintainer(Client):
    def run(self, until: threading.Event) -> History:
        while not until.is_set():
            self.history.notes["rows cleaned"] += self.value("SELECT maintain(2000)")
            self.pause(20, 100)
        self.close()
        return self.history


class Killer(Client):
    """Terminates the sessions of others at random times."""

    def run(self, targets: list[Client], until: threading.Event) -> History:
        while not until.wait(self.random.uniform(0.05, 0.4)):
            pid = self.random.choice(targets).pid
            if pid is not None:
                self.history.notes["killed"] += bool(self.value("SELECT pg_terminate_backend(%s)", (pid,)))
        self.close()
        return self.history
