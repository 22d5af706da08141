"""Producers and consumers leave their transactions open: nothing is lost, and no other session is
stopped.
"""

import sys
from dataclasses import dataclass

import psycopg
import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tests.database import Connect
from tests.invariants import Delivery, audit, check, dequeue, dispatch, drain
from tests.model.machine import SKIP_IDS, SharedDatabase

EXAMPLES = 60
LONG_EXAMPLES = 200
MANY = 150  # more than fits into ready at once
STEPS = 40
# Relative to the clock, and absolute.
TIMES = st.sampled_from([None, None, None, *(("clock", ms) for ms in (-5000, -3, 0, 3, 2000)), ("at", -1)])
WHO = st.integers(0, 2)


@dataclass
class Seen:
    lines: int = 0
    held: int = 0


class OpenMachine(RuleBasedStateMachine):
    """Producer 0 commits at once."""

    def __init__(self, database: SharedDatabase, others: list[psycopg.Connection], seen: Seen) -> None:
        super().__init__()
        self.seen = seen
        self.database = database
        self.conn = database.conn
        self.producers = [database.conn, *others[1:]]
        self.consumer = others[0]
        self.is_open = [False] * 3  # 0: the consumer
        self.made: list[set[int]] = [set() for _ in range(3)]
        self.kept: set[int] = set()  # created and committed
        self.taken: list[Delivery] = []
        self.done: set[int] = set()
        database.reset()
        self.conn.execute("SELECT queue_set(p_max_attempts => 1000)")
        dispatch(self.conn)

    @rule(
        who=WHO,
        channel=st.sampled_from("ab"),
        time=TIMES,
        n=st.sampled_from([1, 2, 3, MANY]),
        apart_ms=st.sampled_from([0, 3, 20_000]),
    )
    def create(self, who: int, channel: str, time: tuple[str, int] | None, n: int, apart_ms: int = 0) -> None:
        apart_ms = apart_ms if n < MANY else 0
        if who and not self.is_open[who]:
            self.producers[who].execute("BEGIN")
            self.is_open[who] = True
        at = None if time is None else time[1] + (self.database.clock.at if time[0] == "clock" else 0)
        rows = self.producers[who].execute(
            "SELECT id FROM message_create_many(%s, array_fill(''::BYTEA, ARRAY[%s]), %s)",
            ([channel] * n, n, [None if at is None else at + nth * apart_ms for nth in range(n)]),
        )
        (self.made[who] if who else self.kept).update(row[0] for row in rows)

    @rule(who=st.integers(1, 2), keep=st.booleans())
    def producer_ends(self, who: int, *, keep: bool) -> None:
        if keep:
            self.producers[who].execute("COMMIT")
            self.kept |= self.made[who]
        else:
            self.producers[who].rollback()
        self.is_open[who] = False
        self.made[who].clear()

    @rule()
    def ids_are_given_out(self) -> None:
        """As for many messages of an open transaction."""
        self.conn.execute(SKIP_IDS)

    @rule(
        who=st.integers(1, 2),
        channel=st.sampled_from("ab"),
        ahead_ms=st.sampled_from([None, 3, 30_000]),
        ms=st.sampled_from([0, 5, 50_000]),
    )
    def comes_between(self, who: int, channel: str, ahead_ms: int | None, ms: int) -> None:
        """Messages of an open transaction, between earlier or scheduled ones and later ones."""
        self.create(0, channel, None, 2)
        self.dispatch_once(1000)
        if ahead_ms is not None:
            self.create(0, channel, ("clock", 0), 2, ahead_ms)
            self.dispatch_once(1000)
        self.clock_moves(1)
        self.create(who, channel, None, 3)
        self.ids_are_given_out()
        self.clock_moves(ms)
        self.create(0, channel, None, 1)
        self.rest()

    @rule(ms=st.sampled_from([1, 2, 10, 100, 2000, 12_000]))
    def clock_moves(self, ms: int) -> None:
        self.database.clock.advance(ms)

    @rule(limit=st.sampled_from([1, 1000]))
    def dispatch_once(self, limit: int) -> None:
        self.conn.execute("SELECT dispatch(%s)", (limit,))
        audit(self.conn)

    @rule()
    def rest(self) -> None:
        check(self.conn)
        self.seen.lines += len(self.conn.execute("SELECT FROM backlog").fetchall())
        self.seen.held += len(self.conn.execute("SELECT FROM ready_locked").fetchall())

    @rule(limit=st.sampled_from([1, 1, 4]), lease_ms=st.sampled_from([5, 60_000]))
    def dequeue(self, limit: int, lease_ms: int) -> None:
        self.taken += dequeue(self.conn, limit, lease_ms)[0]

    @precondition(lambda self: self.taken)
    @rule(number=st.integers(0, 10), is_done=st.booleans())
    def finish(self, number: int, *, is_done: bool) -> None:
        message = self.taken.pop(number % len(self.taken))
        call = "message_complete" if is_done else "message_retry"
        ((result,),) = self.conn.execute(f"SELECT {call}(%s, %s)", (message.id, message.token)).fetchall()
        if result == "completed":
            assert message.id not in self.done
            self.done.add(message.id)

    @rule(keep=st.booleans())
    def consumer_is_open(self, *, keep: bool) -> None:
        """It has locked what it took, and nothing else; it may return that long after its turn."""
        if not self.is_open[0]:
            self.consumer.execute("BEGIN")
            dequeue(self.consumer, 3, 5)
        else:
            self.consumer.execute("COMMIT" if keep else "ROLLBACK")
        self.is_open[0] = not self.is_open[0]

    def teardown(self) -> None:
        """Drain the queue, unless the example has failed."""
        self.consumer.rollback()
        for who in (1, 2):
            self.producer_ends(who, keep=True)
        if sys.exc_info()[0] is None:
            self.database.clock.advance(60_001)
            self.done |= {message.id for message in drain(self.conn)}
            assert self.done == self.kept
            assert self.conn.execute("SELECT COUNT(*) FROM message").fetchone() == (0,)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("examples", [EXAMPLES, pytest.param(LONG_EXAMPLES, marks=pytest.mark.long)])
def test_nothing_is_lost_behind_open_transactions(connect: Connect, model_seed: int, examples: int) -> None:
    database, others, seen = SharedDatabase(connect), [connect() for _ in range(3)], Seen()

    @seed(model_seed)
    def machine() -> OpenMachine:
        return OpenMachine(database, others, seen)

    chosen = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        print_blob=True,
        report_multiple_bugs=False,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(machine, settings=chosen)  # type: ignore[arg-type]
    except BaseException as error:
        error.add_note(f"to repeat it: --model-seed {model_seed}")
        raise
    assert seen.lines > examples
    assert seen.held > 0
