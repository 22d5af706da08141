"""Random calls of producers, consumers and settings on a queue.

After each, the model says what the result must be. `operators` adds the calls that people make.
"""

import copy
import re
import sys
from dataclasses import replace
from decimal import Decimal
from importlib.resources import files
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from psycopg.pq import TransactionStatus

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import check
from tests.model.bad_calls import BAD_CALLS
from tests.model.client import Client, Retry, Target
from tests.model.deliveries import Ask, Deliveries, take
from tests.model.queue_model import LIMITS, Draft, QueueModel
from tests.model.statistics import check_statistics

START = 1_700_000_000_000
NOBODY = UUID("00000000-0000-4000-8000-000000000000")

NAMES = ["a", "b", "c", "d", "é '\" %"]
CHANNELS = st.sampled_from(NAMES)
FORMS = st.sampled_from(["one", "many"])
# Relative to the clock, and absolute.
TIMES = st.one_of(
    st.none(),
    st.tuples(st.just("clock"), st.integers(-20, 20)),
    st.sampled_from([("clock", -5000), ("clock", 300), ("clock", 5000), ("clock", 3_600_000)]),
    st.sampled_from([("at", 0), ("at", -1), ("at", -7), ("at", -(2**53)), ("at", 2**53)]),
    st.sampled_from([("delay", 0), ("delay", 1), ("delay", 300)]),
)
LEASES = st.sampled_from([1, 2, 50, 1000, 30_000, 60_000])
KEYS = ["k", "é'"]
KEPT = [None, None, 0, 100, 5000]  # unique_for_ms: how long keys are held
LANES = ["default", "default", "slow é"]
ASKED_LANES = st.sampled_from(
    [None, None, None, None, ["default"], ["slow é", "none"], ["slow é", "default"]]
)
DRAFTS = st.tuples(
    CHANNELS,
    st.sampled_from([b"", b"\x00\xff", b"'\\"]),
    TIMES,
    st.sampled_from([None, None, {}, {"kind": "é", "list": [1, None, 2.5]}]),
    st.sampled_from([None, None, 1, 2, 3]),
    st.none() | st.none() | st.tuples(st.sampled_from(KEYS), st.sampled_from(KEPT)),
    st.none()
    | st.tuples(st.sampled_from([0, 1, 100, -100]), st.sampled_from([1, 3, 1000]), st.sampled_from(LANES)),
)
# Which message and token: mostly a pair that belongs together.
TARGETS = st.tuples(
    st.sampled_from(["held", "held", "held", "held", "forged", "stale", "unknown", "null id", "null token"]),
    st.integers(0, 30),
)
BACKLOGS = st.lists(st.integers(0, 12), min_size=1, max_size=len(NAMES))
POLICIES = st.tuples(
    st.sampled_from([None, None, 0, 1, 2, 5]),
    st.sampled_from([None, None, None, 0, 1, 1000, 33_334, 100_000, 1_500_000]),
    st.sampled_from([None, None, 1, 2, 3, 1_000_000]),
    st.sampled_from([None, None, None, False, False, True]),
    st.sampled_from([None, None, None, 0, 1, 2, 5]),
    st.sampled_from(
        [None, None, None, Decimal(1), Decimal("0.5"), Decimal(3), Decimal("0.001"), Decimal(1000)]
    ),
    st.sampled_from([None, None, None, list(LIMITS), ["max_concurrency"], ["release_interval_us", "burst"]]),
)
UNPAUSED = (None, None, None, False, None, None, None)
UNLIMITED = (0, 0, None, None, None, None, None)
QUEUES = st.fixed_dictionaries(
    {},
    optional={
        "content_max_bytes": st.sampled_from([16, 1_048_576]),
        "lease_ms": st.sampled_from([50, 1000]),
        "lease_max_ms": st.sampled_from([60_000, 86_400_000]),
        "max_attempts": st.sampled_from([1, 2, 3]),
        "max_concurrency": st.sampled_from([0, 1, 2, 5]),
        "paused": st.sampled_from([False, False, True]),
        "history": st.sampled_from([True, True, False]),
        "history_content": st.booleans(),
        "history_keep_ms": st.sampled_from([0, 3_600_000]),
        "notify": st.booleans(),
        "channel_max_concurrency": st.sampled_from([0, 0, 1, 2, 5]),
        "channel_release_interval_us": st.sampled_from([0, 0, 1000, 100_000, 1_500_000]),
        "channel_burst": st.sampled_from([1, 1, 2, 3]),
        "channel_max_size": st.sampled_from([0, 0, 1, 2, 5]),
    },
)
RETRIES = st.tuples(
    TIMES, st.sampled_from([None, None, b"", b"step 2"]), st.sampled_from([None, None, "", "it broke"])
)
FINALS = st.sampled_from([None, None, False, True])

STORED = """
    SELECT m.id, channel, content, headers, max_attempts, dedupe_key, created_at, dequeue_at, attempts, state,
        error, CASE WHEN l.token IS NULL THEN m.consumer ELSE l.consumer END, l.token, l.end_at, NULL,
        COALESCE(first_dequeued_at, m.dequeued_at, l.dequeued_at), COALESCE(l.dequeued_at, m.dequeued_at),
        is_cancelled, past_errors, priority, cost, lane, unique_for_ms, past_runs
    FROM message m
    LEFT JOIN (SELECT l.*, s.id, s.generation FROM lease l CROSS JOIN unnest(l.stubs) s) l
        ON l.id = m.id AND l.generation = m.generation
    UNION ALL
    SELECT id, channel, content, headers, max_attempts, dedupe_key, created_at, dequeue_at, attempts, state,
        error, consumer, NULL, NULL, dead_at, COALESCE(first_dequeued_at, dequeued_at), dequeued_at,
        FALSE, past_errors, priority, cost, lane, unique_for_ms, NULL FROM dead"""
HISTORY = """
    SELECT id, finished_at, outcome, attempts, channel, created_at, dequeue_at, first_dequeued_at,
        dequeued_at, error, consumer, dedupe_key, headers, content_bytes, content,
        past_runs FROM history"""
# Truncating is slow, so only tables that grow with every call are truncated, which removes their dead rows.
RESET = """
    TRUNCATE message, notice, tick, ready, lease, line, backlog, slots RESTART IDENTITY;
    INSERT INTO queue DEFAULT VALUES;
    INSERT INTO dispatch_lock DEFAULT VALUES;
    INSERT INTO maintenance DEFAULT VALUES;
    {tick};
    INSERT INTO sleep (is_asleep) VALUES (FALSE)"""
SKIP_IDS = "SELECT setval(s, nextval(s) + 2000) FROM pg_get_serial_sequence('message', 'id') s"
SMALL_TABLES = [
    "alarm",
    "capacity",
    "channel",
    "credential",
    "dead",
    "dead_mark",
    "dedupe",
    "departure",
    "dispatch_lock",
    "finished",
    "ready_locked",
    "policy_change",
    "policy_log",
    "queue",
    "recent_tag",
    "scheduled",
    "served_by",
    "sleep",
    "staging",
    "staging_chunk",
    "tally",
    "maintenance",
]


class SharedDatabase:
    """One database for all examples: creating a fresh one for each would take most of the time."""

    def __init__(self, connect: Connect) -> None:
        self.conn = connect()
        self.clock = FakeClock(connect(), START)
        self.other = connect()  # a session that does not commit
        self.drained = 0
        empty = [f"DELETE FROM {table}".encode() for table in SMALL_TABLES]
        tables = (files("lonnymq") / "sql" / "tables" / "0001_core.sql").read_text()
        [tick] = re.findall(r"^INSERT INTO tick .*?;$", tables, re.DOTALL | re.MULTILINE)
        self._reset = b"; ".join([*empty, RESET.replace("{tick};", tick).encode()])

    def reset(self) -> None:
        self.conn.rollback()
        self.other.rollback()
        self.conn.execute(self._reset)
        self.clock.set(START)


class Saved(NamedTuple):
    """What a rollback restores."""

    model: QueueModel
    deliveries: Deliveries


class QueueMachine(RuleBasedStateMachine):
    def __init__(self, database: SharedDatabase) -> None:
        super().__init__()
        database.reset()
        self.database = database
        self.conn = database.conn
        self.clock = database.clock
        self.client = Client(database.conn)
        self.model = QueueModel(START)
        self.deliveries = Deliveries()
        self.saved: list[Saved] = []  # one per open transaction or savepoint
        self.began_at = START
        self.is_dirty = False  # this transaction has written: it must not dispatch
        self.deliveries_made: list[Target] = []  # every delivery so far
        self.drafted = 0
        self.is_crowded = False
        self.is_draining = False

    # The clock and transactions

    @initialize(
        policies=st.lists(POLICIES, max_size=len(NAMES)),
        counts=BACKLOGS,
        given=QUEUES,
        max_attempts=st.sampled_from([None, 1]),
        is_crowded=st.booleans(),
    )
    def queue_is_set_up(
        self,
        policies: list[tuple[Any, ...]],
        counts: list[int],
        given: dict[str, Any],
        max_attempts: int | None,
        *,
        is_crowded: bool,
    ) -> None:
        self.is_crowded = is_crowded
        self.queue_set(given)
        for channel, policy in zip(NAMES, policies, strict=False):
            self.channel_set(channel, *policy)
        self.create_backlog(counts, max_attempts, later=True, keyed=bool(policies))

    @rule(ms=st.sampled_from([1, 2, 5, 20, 99, 100, 101, 1000, 1001, 30_000, 90_000_000]))
    def clock_moves(self, ms: int) -> None:
        self.set_clock(self.clock.at + ms)

    @precondition(lambda self: self.model.leases())
    @rule(number=st.integers(0, 30), offset=st.integers(-1, 1), then=st.booleans())
    def clock_moves_to_a_lease_end(self, number: int, offset: int, *, then: bool) -> None:
        ends = sorted(message.lease_end_at or 0 for message in self.model.leases())
        self.set_clock(max(self.clock.at, ends[number % len(ends)] + offset))
        if then and not self.is_dirty:
            self.dequeue(5, 50, None)

    @precondition(lambda self: (self.model.next_at() or 0) > self.clock.at)
    @rule(offset=st.integers(-1, 0))
    def clock_moves_to_the_next_message(self, offset: int) -> None:
        self.set_clock((self.model.next_at() or 0) + offset)

    @precondition(lambda self: len(self.saved) < 3)
    @rule()
    def transaction_begins(self) -> None:
        if not self.saved:
            self.began_at = self.clock.at
            self.is_dirty = False
        self.conn.execute("SAVEPOINT here" if self.saved else "BEGIN")
        self.saved.append(Saved(copy.deepcopy(self.model), copy.deepcopy(self.deliveries)))

    @precondition(lambda self: self.saved)
    @rule(keep=st.booleans())
    def transaction_ends(self, *, keep: bool) -> None:
        before = self.saved.pop()
        if keep:
            self.conn.execute("RELEASE here" if self.saved else "COMMIT")
        else:
            self.conn.execute("ROLLBACK TO here; RELEASE here" if self.saved else "ROLLBACK")
            tokens = self.deliveries.tokens - before.deliveries.tokens
            self.model, self.deliveries = before
            self.model.is_dispatched = False  # what a dequeue took comes back with the next dispatch
            taken = [target.id for target in self.deliveries_made if target.token in tokens]
            self.model.placed.difference_update(taken)
            self.model.untaken |= self.model.messages.keys() & taken
            self.deliveries.forget_leads()
            self.set_clock(self.clock.at)
        self.is_dirty = self.is_dirty and bool(self.saved)

    @precondition(lambda self: self.is_crowded)
    @rule()
    def others_create_many(self) -> None:
        """As a dispatch sees it: ids are missing, and a transaction is open. Or that transaction ends."""
        if self.database.other.info.transaction_status == TransactionStatus.IDLE:
            self.database.other.execute(SKIP_IDS)
            self.database.other.execute("BEGIN; SELECT pg_current_xact_id()")
        else:
            self.database.other.rollback()

    @precondition(lambda self: not self.saved)
    @rule(ms=st.sampled_from([1, 100, 1500]), keep=st.booleans())
    def consumer_is_slow(self, ms: int, *, keep: bool) -> None:
        """Time passes between the start of its transaction and its call."""
        self.transaction_begins()
        self.set_clock(self.clock.at + ms)
        self.dequeue(5, 50, "slow")
        self.transaction_ends(keep=keep)

    # Producers

    @rule(drafts=st.lists(DRAFTS, min_size=1, max_size=8), form=FORMS)
    def create(self, drafts: list[tuple[Any, ...]], form: str) -> None:
        given = []
        for channel, suffix, time, headers, max_attempts, key, more in drafts:
            self.drafted += 1
            content = b"%d" % self.drafted + suffix
            at, delay_ms = self.when(time)
            name, unique_for_ms = key or (None, None)
            described = more or (None, None, None)
            draft = Draft(channel, content, at, headers, max_attempts, name, delay_ms, *described)
            given.append(replace(draft, unique_for_ms=unique_for_ms))
        rows = self.client.create(given, form)
        ids = [message_id or 0 for message_id, result in rows if result == "created"]
        assert ids == sorted(set(ids)), "ids rise in the order given"
        assert not ids or ids[0] > max(self.model.messages, default=0), "ids rise"
        self.model.create(rows, given, self.began_at if self.saved else self.clock.at)
        self.wrote()

    @rule(
        counts=BACKLOGS,
        max_attempts=st.sampled_from([None, None, 1]),
        later=st.booleans(),
        keyed=st.booleans(),
    )
    def create_backlog(
        self, counts: list[int], max_attempts: int | None, *, later: bool, keyed: bool
    ) -> None:
        """Plain messages, `counts` per channel, one of them for `later`: fairness shows only with a
        backlog.
        """
        plain = [
            (
                name,
                b"",
                ("clock", 5000) if later and not left else None,
                None,
                max_attempts,
                (f"{left}", KEPT[left % len(KEPT)]) if keyed else None,
                None,
            )
            for name, n in zip(NAMES, counts, strict=False)
            for left in reversed(range(n))
        ]
        if plain:
            self.create(plain, "many")

    @precondition(lambda self: self.model.admission.keys)
    @rule(number=st.integers(0, 30), offset=st.sampled_from([-1, 0, 1, None]), form=FORMS)
    def create_again(self, number: int, offset: int | None, form: str) -> None:
        """With keys that were used before; with an offset, around the time when one is free again."""
        keys = sorted(self.model.admission.keys.items())
        finished = [(place, key) for place, key in keys if (key.until_at or 0) >= self.clock.at] or keys
        picked = [finished[(number + n) % len(finished)] for n in range(3)]
        until_at = picked[0][1].until_at
        if offset is not None and until_at is not None:
            self.set_clock(max(self.clock.at, until_at + offset))
        kept = KEPT[number % len(KEPT)]
        given = [(channel, b"", None, None, None, (key, kept), None) for (channel, key), _ in picked]
        self.create(given, form)

    # Consumers

    @precondition(lambda self: not self.is_dirty)
    @rule(limit=st.sampled_from([1, 2, 3, 1000]))
    def dispatch(self, limit: int = 1000) -> None:
        for calls in range(1, 1000):
            if not self.client.value("SELECT dispatch(%s)", limit):
                break
            assert calls < 999, "dispatching does not finish"
        self.model.dispatch()
        self.deliveries.forget_idle_lines(self.model)
        self.deliveries.is_fresh = True
        if not self.is_draining:
            self.check_at_rest()

    def check_at_rest(self) -> None:
        # The model checks invariant 7 itself, because it knows when the limit was lowered.
        check(self.conn, but=("invariant 7",))
        check_statistics(self.client, self.model, NAMES)

    @rule(
        limit=st.integers(1, 20),
        lease_ms=st.none() | LEASES,
        consumer=st.sampled_from([None, "me"]),
        lanes=ASKED_LANES,
        first=st.booleans(),
    )
    def dequeue(
        self,
        limit: int,
        lease_ms: int | None,
        consumer: str | None,
        lanes: list[str] | None = None,
        *,
        first: bool = True,
    ) -> None:
        """`first`: dispatch first, as consumers do."""
        if first and not self.is_dirty:
            self.dispatch()
        rows, again_at = self.client.dequeue(limit, lease_ms, consumer, lanes)
        lasts_ms = self.model.settings.lease_ms if lease_ms is None else lease_ms
        take(self.model, self.deliveries, rows, again_at, Ask(limit, lasts_ms, consumer, lanes))
        self.deliveries_made += [Target(row.id, row.token) for row in rows]
        self.wrote()

    @precondition(lambda self: not self.is_dirty)
    @rule(
        limits=st.lists(st.integers(1, 12), min_size=1, max_size=4),
        lease_ms=st.sampled_from([None, 1000]),
        then=st.sampled_from(["complete", "fail", "fail", "hold"]),
    )
    def work(self, limits: list[int], lease_ms: int | None, then: str) -> None:
        """A consumer's loop: it completes what it gets, fails, or keeps it."""
        for limit in limits:
            self.dequeue(limit, lease_ms, "worker")
            held = [("held", number) for number in range(len(self.model.leases()))]
            if held and then == "complete":
                self.complete(held, "many")
            elif held and then == "fail":
                self.retry([(target, (None, None, "it broke"), None) for target in held], "many")

    @rule(whom=st.lists(TARGETS, min_size=1, max_size=6), form=FORMS)
    def complete(self, whom: list[tuple[str, int]], form: str) -> None:
        given = [self.target(*each) for each in whom]
        results = self.client.complete(given, form)
        assert results == [self.model.complete(*target) for target in given], "invariants 5, 6, 16"
        self.wrote()

    @rule(each=st.lists(st.tuples(TARGETS, RETRIES, FINALS), min_size=1, max_size=6), form=FORMS)
    def retry(self, each: list[tuple[Any, Any, bool | None]], form: str) -> None:
        given = [self.target(*target) for target, _, _ in each]
        whens = [self.when(time) for _, (time, _, _), _ in each]
        retries = [
            Retry(at, state, error, delay_ms, None if error is None else is_final)
            for (at, delay_ms), (_, (_, state, error), is_final) in zip(whens, each, strict=True)
        ]
        results = self.client.retry(given, retries, form)
        expected = [
            self.model.retry(
                *t, self.at(d.dequeue_at, d.delay_ms), d.state, d.error, is_final=bool(d.is_final)
            )
            for t, d in zip(given, retries, strict=True)
        ]
        assert results == expected, f"invariants 5, 14, 16: {results} for {given}, not {expected}"
        self.wrote()

    @rule(whom=st.lists(TARGETS, min_size=1, max_size=6), lease_ms=LEASES, form=FORMS)
    def extend(self, whom: list[tuple[str, int]], lease_ms: int, form: str) -> None:
        given = [self.target(*each) for each in whom]
        results = self.client.extend(given, lease_ms, form)
        assert results == [self.model.extend(*target, lease_ms) for target in given], "invariants 5, 16"
        self.wrote()

    # Settings and maintenance

    @rule(number=st.integers(0, 30), policy=POLICIES, limit=st.sampled_from([None, 1, 5]))
    def channel_changes(self, number: int, policy: tuple[Any, ...], limit: int | None) -> None:
        """The change is valid at once: with a limit, a consumer that has dispatched before dequeues
        next.
        """
        if limit is not None and not self.is_dirty:
            self.dispatch()
        channels = self.model.channels() or NAMES
        self.channel_set(channels[number % len(channels)], *policy)
        if limit is not None:
            self.dequeue(limit, 1000, None, first=False)

    def channel_set(self, *given: Any) -> None:
        """The channel, max_concurrency, release_interval_us, burst, paused, max_size, weight, inherit. What
        is inherited is not given.
        """
        inherit = given[7] or []
        names = (None, "max_concurrency", "release_interval_us", "burst", None, "max_size", None, None)
        given = tuple(None if name in inherit else value for name, value in zip(names, given, strict=True))
        rows = self.client.rows("SELECT * FROM channel_set(%s, %s, %s, %s, %s, %s, %s, %s)", *given)
        self.model.channel_set(*given)
        self.deliveries.forget_leads()
        assert rows == [(given[0], *vars(self.model.policy(given[0])).values())]
        assert rows == self.client.rows("SELECT * FROM channel_get(%s)", given[0])
        self.wrote()

    @rule(given=QUEUES, limit=st.sampled_from([None, 1, 5]))
    def queue_changes(self, given: dict[str, Any], limit: int | None) -> None:
        if limit is not None and not self.is_dirty:
            self.dispatch()
        self.queue_set(given)
        if limit is not None:
            self.dequeue(limit, 1000, None, first=False)

    def queue_set(self, given: dict[str, Any]) -> None:
        row = self.client.queue_set(given)
        self.model.queue_set(given)
        assert row[:-1] == tuple(vars(self.model.settings).values())
        assert [row] == self.client.rows("SELECT * FROM queue_get()")
        if given.keys() & {f"channel_{name}" for name in LIMITS}:
            self.deliveries.forget_leads()
            self.wrote()
        if given.keys() & {"max_concurrency", "paused"}:
            self.wrote()

    @precondition(lambda self: not self.saved)
    @rule()
    def rebuild(self) -> None:
        self.client.rows("SELECT rebuild()")
        self.model.rebuild()
        self.deliveries.forget_leads()
        self.wrote()

    @rule(limit=st.sampled_from([1, 3, 10_000]))
    def maintain(self, limit: int) -> None:
        assert self.client.value("SELECT maintain(%s)", limit) >= 0
        self.model.trim_history({row[:2] for row in self.client.rows(HISTORY)})

    @rule(bad=st.sampled_from(BAD_CALLS))
    def bad_call(self, bad: tuple[str, str]) -> None:
        """It is refused with its code. The next check of what is stored shows that nothing changed."""
        sqlstate, call = bad
        too_long = f"convert_to(repeat('x', {self.model.settings.content_max_bytes + 1}), 'UTF8')"
        with pytest.raises(psycopg.Error) as refused, self.conn.transaction():
            self.client.rows(call.replace("{bytes}", too_long))
        assert refused.value.sqlstate == sqlstate, f"{call}: {refused.value.sqlstate} {refused.value}"
        assert refused.value.diag.message_hint, f"{call}: it does not say what is allowed"

    # Always

    @invariant()
    def what_is_stored_is_what_the_model_has(self) -> None:
        stored = {row[0]: row for row in self.client.rows(STORED)}
        expected = {
            message.id: message.stored
            for message in (*self.model.messages.values(), *self.model.dead.values())
        }
        assert stored == expected, "invariants 1, 2, 3, 14"

    @invariant()
    def the_history_is_what_the_model_has(self) -> None:
        assert sorted(self.client.rows(HISTORY), key=_in_time) == sorted(self.model.finished, key=_in_time)

    def teardown(self) -> None:
        """Drain the queue, unless the example has failed."""
        if sys.exc_info()[0] is None:
            self.drain()
            self.database.drained += 1

    def drain(self) -> None:
        while self.saved:
            self.transaction_ends(keep=True)
        self.database.other.rollback()
        made = {*self.model.messages, *self.model.dead, *self.model.gone}
        self.dequeue(20, 1000, None)
        self.is_draining = True
        self.queue_set({"paused": False})
        for channel in self.model.policies:
            self.channel_set(channel, *UNPAUSED)
        for rounds in range(1000):
            self.dequeue(20, 1000, None)
            while self.model.leases():
                self.complete([("held", n) for n in range(len(self.model.leases()))], "many")
                self.dequeue(20, 1000, None)
            if not self.model.messages:
                break
            if rounds == 10:  # channels with an interval have shown that they go on
                for channel in self.model.policies:
                    self.channel_set(channel, *UNLIMITED)
            else:
                self.set_clock(self.next_event())
        assert not self.model.messages, "invariants 1, 13: the queue does not drain"
        assert made == {*self.model.dead, *self.model.gone}, "invariant 1"
        self.what_is_stored_is_what_the_model_has()
        self.the_history_is_what_the_model_has()
        self.rest()

    def rest(self) -> None:
        """Nothing is left in any place, and there is nothing to do."""
        self.dispatch()
        for place in ("backlog WHERE ranges <> '{}'", "line", "ready", "scheduled", "ready_locked"):
            left = self.client.rows(f"SELECT * FROM {place}")
            assert not left, f"invariant 17: drained, yet {place} has {left}"
        tick = self.client.rows("SELECT * FROM tick")
        self.dispatch()
        self.check_at_rest()
        assert tick == self.client.rows("SELECT * FROM tick"), (
            "invariant 17: an idle dispatch has something to do"
        )

    # Helpers

    def wrote(self) -> None:
        self.is_dirty = bool(self.saved)
        self.deliveries.forget_idle_lines(self.model)

    def set_clock(self, at: int) -> None:
        self.clock.set(at)
        self.model.now = at
        self.deliveries.forget_idle_lines(self.model)

    def next_event(self) -> int:
        ends = [message.lease_end_at for message in self.model.leases()]
        times = (*ends, *self.model.slot_found_at.values(), self.model.next_at())
        return min(at for at in times if at is not None and at > self.clock.at)

    def time(self, time: tuple[str, int] | None) -> int | None:
        if time is None:
            return None
        kind, ms = time
        return ms if kind == "at" else min(self.clock.at + ms, 2**53)

    def when(self, time: tuple[str, int] | None) -> tuple[int | None, int | None]:
        """The time, or the delay."""
        return (None, time[1]) if time and time[0] == "delay" else (self.time(time), None)

    def at(self, dequeue_at: int | None, delay_ms: int | None) -> int | None:
        return dequeue_at if delay_ms is None else self.clock.at + delay_ms

    def target(self, kind: str, number: int) -> Target:
        held = self.model.leases()
        if kind in {"held", "forged"} and held:
            message = held[number % len(held)]
            return Target(message.id, message.token if kind == "held" else NOBODY)
        if not self.deliveries_made or kind in {"held", "forged", "unknown"}:
            return Target(10**9 + number, NOBODY)
        message_id, token = self.deliveries_made[-1 - number % len(self.deliveries_made)]
        return Target(None if kind == "null id" else message_id, None if kind == "null token" else token)


def _in_time(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row[:4]
