"""The judge of ./run chaos, on journals written by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from chaos.case import Limits, Verdict
from chaos.evidence import FinalState, from_records
from chaos.journal import Record
from chaos.judge import judge
from chaos.world import OPERATOR_KEYS, POISON_ATTEMPTS, Channel, World, is_poison

CHANNELS = [
    Channel("fair-a", "fair", 1),
    Channel("fair-b", "fair", 1),
    Channel("mixed", "mixed", 1),
    Channel("limited", "limited", 1, max_concurrency=2),
    Channel("rated", "rated", 1, interval_us=100_000, burst=2),
    Channel("sized", "sized", 1, max_size=3),
    Channel("quiet", "quiet", 1),
    Channel("changed", "changed", 1),
]
FAIR_A, FAIR_B, MIXED, LIMITED, RATED, SIZED, QUIET, CHANGED = range(len(CHANNELS))
WORLD = World(1000, 60, 5000, CHANNELS)
POISON = 79  # a key whose message always fails, if it is in a mixed channel
SERVER = 1_000_000  # what the server's clock is ahead of the monotonic one


class Story:
    """Journals, written call by call. Each call begins at a time in ms, and ends 10 ms later."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.faults: list[Record] = []
        self.stored: list[int] = []
        self.dead: list[tuple[int, int]] = []
        self.effects: list[int] = []
        self._calls = 0

    def _call(
        self, at: float, kind: str, outcome: str | None, before: Record, after: Record, took: float = 10
    ) -> int:
        self._calls += 1
        self.records.append({"at": at, "call": self._calls, "kind": kind} | before)
        if outcome is not None:
            self.records.append({"at": at + took, "call": self._calls, "outcome": outcome} | after)
        return self._calls

    def create(
        self,
        at: float,
        first: int,
        *channels: int,
        outcome: str | None = "ok",
        results: str | list[str] = "created",
        ats: list[int | None] | None = None,
        priorities: list[int] | None = None,
        keyed: bool = False,
        lsn: int | None = None,
    ) -> None:
        n = len(channels)
        before = {
            "first": first,
            "channels": list(channels),
            "ats": ats or [None] * n,
            "priorities": priorities or [0] * n,
            "keyed": keyed,
        }
        self._call(at, "create", outcome, before, {"results": results, "lsn": lsn})

    def dequeue(
        self,
        at: float,
        keys: list[int | None],
        channels: list[int] | int = FAIR_A,
        *,
        outcome: str | None = "ok",
        attempts: int | list[int] = 1,
        released_at: int | None = None,
        is_async: bool = False,
        ids: list[int] | None = None,
        took: float = 10,
        lsn: int | None = None,
    ) -> int:
        lease_ms = 5000
        released = int(at) + SERVER if released_at is None else released_at
        after = {
            "keys": keys,
            "ids": ids or keys,
            "channels": [channels] * len(keys) if isinstance(channels, int) else channels,
            "attempts": attempts,
            "lease_end": released + lease_ms,
            "lsn": lsn,
        }
        before = {"limit": 100, "lease_ms": lease_ms, "async": is_async}
        return self._call(at, "dequeue", outcome, before, after if keys else {}, took)

    def finish(
        self,
        at: float,
        of: int,
        *places: int,
        kind: str = "complete",
        results: str | list[str] = "completed",
        outcome: str | None = "ok",
        lsn: int | None = None,
        **facts: Any,
    ) -> None:
        before = {"of": of, "places": list(places or (0,))} | facts
        self._call(at, kind, outcome, before, {"results": results, "lsn": lsn})

    def work(self, at: float, key: int, outcome: str) -> None:
        """A task's transaction, which completes its message."""
        seen = {"keys": [key], "ids": [key], "channels": [FAIR_A], "attempts": 1}
        self._call(at, "work", outcome, seen, {})

    def policy(self, at: float, outcome: str | None = "ok", **policy: Any) -> None:
        self._call(at, "policy", outcome, {"channel": CHANGED} | policy, {})

    def fault(self, begin: float, end: float, name: str, **facts: Any) -> None:
        self.faults.append({"fault": name, "begin": begin, "end": end} | facts)

    def served(self, at: float, first: int, *channels: int) -> int:
        """Create messages, deliver them in one call and complete them."""
        keys: list[int | None] = [*range(first, first + len(channels))]
        self.create(at, first, *channels)
        call = self.dequeue(at + 100, keys, list(channels))
        self.finish(at + 200, call, *range(len(keys)))
        return call

    def verdicts(self) -> list[Verdict]:
        final = FinalState(self.stored, self.dead, self.effects)
        return judge(from_records([self.records, self.faults]), final, WORLD, Limits(wait_ms=10_000))

    def broken(self) -> list[str]:
        return [f"{v.rule}: {v.title}" for v in self.verdicts() if not v.holds]

    def judged(self, title: str) -> int:
        return sum(v.judged for v in self.verdicts() if v.title.startswith(title))


@pytest.fixture
def story() -> Story:
    """Ten messages that were created, served and completed."""
    story = Story()
    story.served(0, 1, FAIR_A, FAIR_A, FAIR_B, MIXED, QUIET)
    story.served(1000, 11, FAIR_A, FAIR_B, FAIR_B, MIXED, QUIET)
    return story


def only(story: Story, rule: str) -> bool:
    """Whether exactly this invariant is broken."""
    return {found.split(":")[0] for found in story.broken()} == {rule}


def test_what_is_right_passes(story: Story) -> None:
    assert story.broken() == []
    assert {v.rule for v in story.verdicts() if v.judged} >= {"1", "3", "4", "5", "11", "13"}


def test_a_message_that_vanished(story: Story) -> None:
    story.create(2000, 21, FAIR_A)
    assert only(story, "1")


@pytest.mark.parametrize("place", ["stored", "dead", "effects"])
def test_a_message_that_is_somewhere_has_not_vanished(story: Story, place: str) -> None:
    story.create(2000, POISON, MIXED)
    {"stored": story.stored, "effects": story.effects}.get(place, []).append(POISON)
    if place == "dead":
        story.dead.append((POISON, POISON_ATTEMPTS))
    assert only(story, "13") if place == "stored" else story.broken() == []


def test_a_completion_without_an_answer_may_have_happened(story: Story) -> None:
    story.create(2000, 21, FAIR_A)
    story.finish(2200, story.dequeue(2100, [21]), outcome=None)
    assert story.broken() == []


def test_a_create_without_an_answer_may_have_failed(story: Story) -> None:
    story.create(2000, 21, FAIR_A, outcome=None)
    story.create(2000, 31, FAIR_A, outcome="unknown")
    assert story.broken() == []


@pytest.mark.parametrize("outcome", ["rolled back", "failed"])
def test_a_create_that_was_undone_is_not_delivered(story: Story, outcome: str) -> None:
    story.create(2000, 21, FAIR_A, outcome=outcome)
    assert story.broken() == []
    story.dequeue(2100, [21])
    assert only(story, "2")


def test_a_message_that_was_refused_is_not_delivered(story: Story) -> None:
    story.create(2000, 21, SIZED, results="full")
    assert story.broken() == []
    story.stored.append(21)
    assert set(story.broken()) >= {"2: A message whose create was rolled back or refused is never seen"}


@pytest.mark.parametrize("key", [99, None])
def test_a_message_that_nobody_created(story: Story, key: int | None) -> None:
    story.dequeue(2100, [key], ids=[7])
    assert only(story, "3")


def test_a_message_in_another_channel(story: Story) -> None:
    story.create(2000, 21, FAIR_A)
    story.finish(2200, story.dequeue(2100, [21], FAIR_B))
    assert only(story, "3")


def test_a_create_that_was_repeated_with_its_key(story: Story) -> None:
    story.create(2000, 21, FAIR_A, outcome="unknown", keyed=True)
    story.create(2100, 21, FAIR_A, results="duplicate", keyed=True)
    first = story.dequeue(2200, [21], ids=[21])
    story.finish(2300, first)
    assert story.broken() == []
    second = story.dequeue(2250, [21], ids=[22])
    story.finish(2400, second, results="not_found")
    assert "15: A create that is repeated with its dedupe key makes one message" in story.broken()


def test_two_live_leases(story: Story) -> None:
    story.create(2000, 21, FAIR_A)
    story.dequeue(2100, [21])
    story.finish(4200, story.dequeue(4000, [21]))
    assert only(story, "4")


def test_a_lease_that_ended_is_followed_by_another(story: Story) -> None:
    story.create(2000, 21, FAIR_A, FAIR_A, FAIR_A)
    story.dequeue(2100, [21])
    story.finish(7300, story.dequeue(7200, [21], attempts=2))
    story.finish(2300, story.dequeue(2200, [22]), kind="retry", results="retried")
    story.finish(2500, story.dequeue(2400, [22]))
    rolled_back = story.dequeue(2200, [23], outcome="rolled back")
    assert rolled_back
    story.finish(2500, story.dequeue(2400, [23]))
    assert story.broken() == []


def test_an_extended_lease_holds_longer(story: Story) -> None:
    story.create(2000, 21, FAIR_A)
    story.finish(6000, story.dequeue(2100, [21]), kind="extend", results="extended", lease_ms=5000)
    story.finish(8300, story.dequeue(8200, [21], attempts=2))
    assert only(story, "4")


def test_an_asynchronous_dequeue_may_be_lost_in_a_crash(story: Story) -> None:
    story.create(2000, 21, FAIR_A)
    story.dequeue(2100, [21], is_async=True)
    story.finish(3700, story.dequeue(3600, [21]))
    assert only(story, "4")
    story.fault(2500, 3500, "server-kill", crash=2500)
    assert story.broken() == []


def test_a_killed_server_that_goes_on_for_a_moment(story: Story) -> None:
    story.create(2000, 21, FAIR_A)
    story.fault(2500, 3500, "server-kill", crash=2500)
    story.dequeue(2510, [21], is_async=True)
    story.finish(3700, story.dequeue(3600, [21]))
    assert story.broken() == []


def test_a_synchronous_dequeue_survives_a_crash(story: Story) -> None:
    story.create(2000, 21, FAIR_A)
    story.dequeue(2100, [21])
    story.fault(2500, 3500, "server-kill", crash=2500)
    story.finish(3700, story.dequeue(3600, [21]))
    assert only(story, "4")


def test_a_clock_that_is_set_ends_leases(story: Story) -> None:
    story.create(2000, 21, FAIR_A)
    story.dequeue(2100, [21])
    story.fault(2500, 3500, "clock-step", step_s=20.0, steps=[2500, 3400])
    story.finish(3700, story.dequeue(3600, [21], attempts=2))
    assert story.broken() == []


def test_a_message_that_was_completed_twice(story: Story) -> None:
    story.create(2000, 21, FAIR_A)
    first = story.dequeue(2100, [21])
    second = story.dequeue(7200, [21], attempts=2)
    story.finish(7300, second)
    story.finish(7250, first)
    assert "5" in {found.split(":")[0] for found in story.broken()}


def test_an_effect_that_happened_twice(story: Story) -> None:
    story.create(2000, 21, FAIR_A)
    story.effects += [21, 21]
    assert only(story, "5")


@pytest.mark.parametrize(
    ("outcome", "effects", "stored", "is_right"),
    [
        ("ok", [21], [], True),
        ("ok", [], [], False),
        ("unknown", [21], [], True),
        ("unknown", [21], [21], False),
    ],
)
def test_a_task_and_its_effect(
    story: Story, outcome: str, effects: list[int], stored: list[int], *, is_right: bool
) -> None:
    story.create(2000, 21, FAIR_A)
    story.work(2100, 21, outcome)
    story.effects += effects
    story.stored += stored
    title = "5: A message is completed at most once, and what a worker writes with it happens once"
    assert (title not in story.broken()) == is_right


def test_a_completed_message_that_is_delivered_again(story: Story) -> None:
    story.dequeue(3000, [1], attempts=2)
    assert story.broken() == ["5: A completed message stays completed, also after a crash"]


def test_a_completed_message_that_is_stored_again(story: Story) -> None:
    story.stored.append(1)
    assert "5: A completed message stays completed, also after a crash" in story.broken()


@pytest.mark.parametrize(("results", "is_right"), [("lost", True), ("retried", False)])
def test_a_consumer_that_lost_its_lease(story: Story, results: str, *, is_right: bool) -> None:
    story.create(2000, 21, FAIR_A)
    first = story.dequeue(2100, [21])
    second = story.dequeue(7200, [21], attempts=2)
    story.finish(7300, first, kind="retry", results=results)
    story.finish(7400, second)
    assert story.judged("A consumer whose lease was taken over") == 1
    assert (story.broken() == []) == is_right


def test_a_lost_lease_that_works_makes_another_delivery(story: Story) -> None:
    """The one that counts is the delivery after it, not the last one."""
    story.create(2000, 21, FAIR_A)
    first = story.dequeue(2100, [21])
    story.dequeue(7200, [21], attempts=2)
    story.finish(7300, first, kind="retry", results="retried")
    story.finish(13_100, story.dequeue(13_000, [21], attempts=3))
    assert only(story, "5")


def test_a_second_completion_says_so(story: Story) -> None:
    story.create(2000, 21, FAIR_A)
    call = story.dequeue(2100, [21])
    story.finish(2200, call)
    story.finish(2300, call, results="not_found")
    assert story.broken() == []
    story.finish(2400, call, kind="retry", results="retried")
    assert only(story, "6")


def test_a_live_lease_is_not_refused(story: Story) -> None:
    story.create(2000, 21, FAIR_A)
    story.stored.append(21)
    story.finish(2200, story.dequeue(2100, [21]), results="lost")
    assert "5: A consumer keeps its message until its lease ends" in story.broken()


def test_dead_letters(story: Story) -> None:
    assert is_poison(CHANNELS[MIXED], POISON)
    story.create(2000, POISON, MIXED)
    story.dead.append((POISON, POISON_ATTEMPTS))
    assert story.broken() == []
    story.dead[0] = (POISON, POISON_ATTEMPTS - 1)
    assert only(story, "14")


def test_a_dead_letter_with_attempts_left(story: Story) -> None:
    story.create(2000, 21, MIXED)
    story.dead.append((21, POISON_ATTEMPTS))
    assert only(story, "14")


def test_an_attempt_after_the_last_one(story: Story) -> None:
    story.create(2000, POISON, MIXED)
    story.stored.append(POISON)
    story.dequeue(2100, [POISON], MIXED, attempts=POISON_ATTEMPTS)
    assert only(story, "13")
    story.dequeue(8000, [POISON], MIXED, attempts=POISON_ATTEMPTS + 1)
    assert "14" in {found.split(":")[0] for found in story.broken()}


def test_attempts_only_grow(story: Story) -> None:
    story.create(2000, 21, FAIR_A)
    story.dequeue(2100, [21], attempts=2)
    story.finish(7300, story.dequeue(7200, [21], attempts=1))
    assert story.broken() == ["14: Attempts only grow"]


def test_a_limit(story: Story) -> None:
    story.create(2000, 21, LIMITED, LIMITED, LIMITED, LIMITED)
    call = story.dequeue(2100, [21, 22], LIMITED)
    story.finish(2200, call, 0)
    last = story.dequeue(2300, [23], LIMITED)
    story.finish(2800, call, 1)
    story.finish(2900, last)
    assert story.broken() == ["1: A committed message is completed, a dead letter, or still stored"]  # 24
    story.finish(2700, story.dequeue(2400, [24], LIMITED))
    assert story.broken() == ["7: Leases of a channel never exceed its limit"]


@pytest.mark.parametrize(
    ("outcome", "limit", "is_right"), [("ok", 1, False), ("ok", 2, True), (None, 1, True)]
)
def test_a_limit_that_was_changed(story: Story, outcome: str, limit: int, *, is_right: bool) -> None:
    story.create(2000, 21, CHANGED, CHANGED)
    story.policy(2050, outcome, max_concurrency=limit)
    first = story.dequeue(2100, [21], CHANGED)
    story.finish(2400, story.dequeue(2200, [22], CHANGED))
    story.finish(2500, first)
    assert (story.broken() == []) == is_right


def test_a_limit_that_is_lowered_stops_only_what_comes_after(story: Story) -> None:
    story.create(2000, 21, CHANGED, CHANGED)
    story.policy(2050, max_concurrency=5)
    first = story.dequeue(2100, [21], CHANGED)
    second = story.dequeue(2200, [22], CHANGED)
    story.policy(2300, max_concurrency=1)
    story.finish(2400, first)
    story.finish(2500, second)
    assert story.broken() == []


def test_a_pause(story: Story) -> None:
    story.create(2000, 21, CHANGED)
    story.policy(2100, paused=True)
    story.policy(2500, paused=False)
    story.finish(2700, story.dequeue(2600, [21], CHANGED))
    assert story.broken() == []
    story.create(2000, 31, CHANGED)
    story.finish(2400, story.dequeue(2300, [31], CHANGED))
    assert only(story, "7")


@pytest.mark.parametrize(("third_ms", "is_right"), [(101, True), (60, False)])
def test_a_rate(story: Story, third_ms: int, *, is_right: bool) -> None:
    """Two at once, and then one per 100 ms."""
    story.create(2000, 21, RATED, RATED, RATED)
    story.finish(2300, story.dequeue(2100, [21, 22], RATED), 0, 1)
    at = 2100 + third_ms
    story.finish(at + 100, story.dequeue(at, [23], RATED, released_at=at + SERVER))
    assert (story.broken() == []) == is_right
    assert only(story, "10") != is_right


@pytest.mark.parametrize(("step_at", "is_right"), [(1500, True), (4000, False)])
def test_a_rate_is_not_judged_while_the_clock_is_unsettled(
    story: Story, step_at: int, *, is_right: bool
) -> None:
    story.fault(step_at, step_at + 500, "clock-step", step_s=-0.3, steps=[step_at])
    story.create(2000, 21, RATED, RATED, RATED)
    story.finish(2300, story.dequeue(2100, [21, 22], RATED), 0, 1)
    story.finish(2260, story.dequeue(2160, [23], RATED, released_at=2160 + SERVER))
    assert (story.broken() == []) == is_right


def test_a_size(story: Story) -> None:
    story.create(2000, 21, SIZED, SIZED, SIZED)
    call = story.dequeue(2100, [21, 22, 23], SIZED)
    story.finish(2200, call, 0)
    story.create(2300, 24, SIZED)
    story.finish(2500, call, 1, 2)
    story.finish(2700, story.dequeue(2600, [24], SIZED))
    assert story.broken() == []
    story.create(2400, 25, SIZED)
    story.finish(2700, story.dequeue(2600, [25], SIZED))
    assert story.broken() == ["7: A channel never holds more than its size"]


@pytest.mark.parametrize(("early_ms", "is_right"), [(0, True), (1, False)])
def test_a_time_that_has_not_come(story: Story, early_ms: int, *, is_right: bool) -> None:
    story.create(2000, 21, MIXED, ats=[2500 + SERVER])
    call = story.dequeue(2495, [21], MIXED, released_at=2500 + SERVER - early_ms)
    story.finish(2600, call)
    assert (story.broken() == []) == is_right
    assert only(story, "9") != is_right


@pytest.mark.parametrize(("early_ms", "is_right"), [(0, True), (1, False)])
def test_a_message_that_was_given_back_for_later(story: Story, early_ms: int, *, is_right: bool) -> None:
    story.create(2000, 21, FAIR_A)
    at = 2500 + SERVER
    story.finish(2200, story.dequeue(2100, [21]), kind="retry", results="retried", retry_at=at)
    story.finish(2600, story.dequeue(2495, [21], released_at=at - early_ms))
    assert (story.broken() == []) == is_right
    assert only(story, "9") != is_right


@pytest.mark.parametrize(
    ("ats", "priorities", "is_right"),
    [([5, 6], [0, 0], True), ([6, 5], [0, 0], False), ([6, 5], [7, 0], True), ([5, 6], [0, 7], False)],
)
def test_order_by_priority_and_time(
    story: Story, ats: list[int | None], priorities: list[int], *, is_right: bool
) -> None:
    story.create(2000, 21, MIXED, MIXED, ats=ats, priorities=priorities)
    story.finish(2200, story.dequeue(2100, [21, 22], MIXED), 0, 1)
    assert (story.broken() == []) == is_right
    assert only(story, "11") != is_right


def test_first_in_first_out(story: Story) -> None:
    story.create(2000, 21, FAIR_A, FAIR_B, FAIR_A)
    story.finish(2200, story.dequeue(2100, [23, 22, 21], [FAIR_A, FAIR_B, FAIR_A]), 0, 1, 2)
    assert only(story, "11")


def test_a_create_without_an_answer_may_come_later(story: Story) -> None:
    """Beside the next call of its producer, so nothing is known about the order of the two."""
    story.create(2000, 21, FAIR_A, outcome="unknown")
    story.create(2010, 22, FAIR_A, FAIR_A)
    story.finish(2200, story.dequeue(2100, [22, 21, 23]), 0, 1, 2)
    assert story.broken() == []
    story.create(3000, 31, FAIR_A, FAIR_A)
    story.finish(3200, story.dequeue(3100, [32, 31]), 0, 1)
    assert only(story, "11")


def competing(story: Story, served_a: int, served_b: int) -> None:
    """Both channels have a backlog before, during and after a calm time, in which they are served so much."""
    half = 60
    story.create(2000, 100, *[FAIR_A] * half, *[FAIR_B] * half)
    a, b = list(range(100, 100 + half)), list(range(100 + half, 100 + 2 * half))
    story.fault(4000, 8000, "calm")
    for at, keys in ((5000, [*a[:served_a], *b[:served_b]]), (9000, [*a[served_a:], *b[served_b:]])):
        for i, key in enumerate(keys):
            channel, begin = (FAIR_A if key < 100 + half else FAIR_B), at + 40 * i
            story.finish(begin + 20, story.dequeue(begin, [key], channel, took=1))


def test_fair_shares(story: Story) -> None:
    competing(story, 20, 20)
    assert story.judged("Channels that compete") == 1
    assert story.broken() == []


def test_unfair_shares(story: Story) -> None:
    competing(story, 35, 10)
    assert only(story, "12, 21")


@pytest.mark.parametrize(("at", "judged"), [(1500, 1), (4500, 0)])
def test_a_dequeue_of_a_killed_client(story: Story, at: float, judged: int) -> None:
    """It has no end. Shares are not known if it was made in a calm time; those before it do not count."""
    story.dequeue(at, [], outcome=None)
    competing(story, 35, 10)
    assert story.judged("Channels that compete") == judged


def test_work_that_does_not_go_on_after_a_fault(story: Story) -> None:
    story.fault(1500, 2500, "server-kill", crash=1500)
    story.served(3000, 21, FAIR_A)
    assert story.broken() == []
    story.fault(4000, 5000, "server-kill", crash=4000)
    story.served(20_000, 31, FAIR_A)
    assert only(story, "13")


def test_producers_that_are_done(story: Story) -> None:
    """What an operator creates later does not say how long producers took."""
    story.fault(1500, 2500, "server-kill", crash=1500)
    story.served(60_000, OPERATOR_KEYS, FAIR_A)
    assert story.broken() == []


def test_work_goes_on_when_there_is_work(story: Story) -> None:
    story.served(3000, 21, FAIR_A)
    story.fault(3500, 4000, "server-kill", crash=3500)
    story.create(4100, 31, LIMITED)
    story.finish(60_100, story.dequeue(60_000, [31], LIMITED))
    assert story.broken() == [], "the limit may have made it wait"
    story.create(4100, 41, FAIR_A)
    story.finish(60_100, story.dequeue(60_000, [41]))
    assert only(story, "13")


def test_a_quiet_tenant_that_waits(story: Story) -> None:
    story.create(2000, 21, QUIET)
    story.finish(40_000, story.dequeue(30_000, [21], QUIET))
    assert only(story, "13")


def test_an_open_transaction_that_stops_others(story: Story) -> None:
    story.fault(1500, 12_000, "open-transactions")
    for i in range(5):
        story.served(2000 + 2000 * i, 21 + 10 * i, FAIR_A)
    assert story.judged("No open transaction") == 1
    assert story.broken() == []
    story.fault(12_000, 26_000, "held-snapshot")
    story.served(27_000, 91, FAIR_A)
    assert story.broken() == [], "there was nothing to serve"
    story.create(13_000, 101, FAIR_A)
    story.finish(28_000, story.dequeue(27_500, [101], FAIR_A))
    assert only(story, "23, 25")


def test_faults_that_overlap_count_once(story: Story) -> None:
    story.fault(12_000, 26_000, "held-snapshot")
    story.create(13_000, 101, FAIR_A)
    story.finish(28_000, story.dequeue(27_500, [101], FAIR_A))
    story.fault(13_000, 15_500, "worker-stop")
    story.fault(13_000, 15_500, "half-open")
    assert "23, 25: No open transaction stops others" in story.broken()


def copied(story: Story, stored: list[int], served: list[int]) -> None:
    story.create(2000, 21, FAIR_A, FAIR_A)
    story.finish(5000, story.dequeue(4900, [21, 22]), 0, 1)
    story.fault(
        3000, 4000, "dump-and-restore", snapshot=[3000, 3001],
        stored_keys=np.array(stored), served_keys=np.array(served),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("stored", "served", "is_right"),
    [
        ([21, 22], [22, 21], True),
        ([21], [21], False),
        ([21, 22], [21], False),
        ([21, 22], [21, 22, 22], False),
        ([21, 22], [21, 22, 1], False),
    ],
)
def test_a_copy(story: Story, stored: list[int], served: list[int], *, is_right: bool) -> None:
    copied(story, stored, served)
    assert (story.broken() == []) == is_right
    assert only(story, "19") != is_right


@pytest.mark.parametrize(
    ("is_synchronous", "lsn", "is_right"),
    [(False, 501, True), (False, 499, False), (True, 501, False), (False, None, True)],
)
def test_what_a_standby_may_lose(
    story: Story, lsn: int | None, *, is_synchronous: bool, is_right: bool
) -> None:
    """A create that was not replicated may be lost, if commits did not wait for the standby."""
    story.create(2000, 21, FAIR_A, lsn=lsn)
    story.fault(2500, 3500, "failover-x", crash=2600, taken_over=3400, lsn=500, is_synchronous=is_synchronous)
    story.served(4000, 31, FAIR_A)
    assert (story.broken() == []) == is_right
    assert only(story, "1") != is_right


def test_a_completion_that_a_standby_lost(story: Story) -> None:
    story.create(2000, 21, FAIR_A, lsn=10)
    story.finish(2200, story.dequeue(2100, [21], lsn=11), lsn=501)
    again = story.dequeue(8000, [21], attempts=2)
    story.finish(8100, again)
    assert "5" in {found.split(":")[0] for found in story.broken()}
    story.fault(2500, 3500, "failover-x", crash=2600, taken_over=3400, lsn=500, is_synchronous=False)
    assert story.broken() == []


@pytest.mark.parametrize(("state", "is_right"), [("57P01", True), ("42P13", False), ("40P01", False)])
def test_an_error_that_no_fault_explains(story: Story, state: str, *, is_right: bool) -> None:
    story.create(2000, 21, FAIR_A, outcome="failed")
    story.records[-1]["error"] = state
    assert (story.broken() == []) == is_right
    assert only(story, "errors") != is_right


def test_a_reindex_may_deadlock(story: Story) -> None:
    story.create(2000, 21, FAIR_A, outcome="failed")
    story.records[-1]["error"] = "40P01"
    story.fault(1500, 2500, "reindex")
    assert story.broken() == []


def test_a_late_answer_is_not_a_second_lease(story: Story) -> None:
    """The answer of the first dequeue was delayed until after its lease had ended."""
    story.create(2000, 21, FAIR_A)
    first = story.dequeue(2100, [21], took=9000)
    second = story.dequeue(8000, [21], attempts=2)
    story.finish(11_200, first, results="lost")
    story.finish(11_300, second)
    assert story.broken() == []


def test_the_world_is_not_changed_by_judging(story: Story) -> None:
    assert replace(WORLD) == WORLD
    assert story.verdicts() == story.verdicts()
