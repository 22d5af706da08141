"""Checks what a dequeue returned against what the model allows, and updates the model."""

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple
from uuid import UUID

from lonnymq.rules.turns import tag_step
from tests.invariants import Delivery
from tests.model.queue_model import QueueModel


class Ask(NamedTuple):
    limit: int
    lease_ms: int
    consumer: str | None
    lanes: list[str] | None


class Line(NamedTuple):
    lane: str
    channel: str


@dataclass
class Deliveries:
    """What was delivered so far: the tokens, and for each pair of lines, how much more one got than the
    other since both had a backlog.
    """

    is_fresh: bool = False  # nothing was leased since the last dispatch
    leads: dict[tuple[Line, Line], Fraction] = field(default_factory=dict)
    steps: dict[Line, Fraction] = field(
        default_factory=dict
    )  # the highest cost / weight of one of its messages
    lost: dict[Line, Fraction] = field(default_factory=dict)  # what was removed from it: see note_removed
    skipped: dict[str, Fraction] = field(default_factory=dict)  # by lane: see note_skipped
    tokens: set[UUID] = field(default_factory=set)

    def forget_idle_lines(self, model: QueueModel) -> None:
        """After every call: a line without messages has no claim on what others got meanwhile."""
        able = {line for line, ids in lines(model).items() if ids and is_unlimited(model, line.channel)}
        self.leads = {pair: lead for pair, lead in self.leads.items() if able.issuperset(pair)}

    def forget_leads(self) -> None:
        self.leads.clear()

    def note_removed(self, model: QueueModel, ids: list[int]) -> None:
        """Before these messages are cancelled or rescheduled: a line whose next messages go loses their
        turns.
        """
        self.forget_leads()
        for line, known in lines(model).items():
            gone = costs(model, line, [i for i in known if i in ids])
            self.lost[line] = self.lost.get(line, Fraction(0)) + sum(gone.values())

    def note_skipped(self, model: QueueModel, took: list[int], before: dict[Line, list[int]]) -> None:
        """A dequeue skips channels whose policy has changed since the last dispatch. They catch up on what
        the others were given, and so does a line that begins meanwhile, because it starts where they are.
        """
        self.forget_leads()
        given = shares(model, took, before)
        for lane in {line.lane for line in before if line.channel in model.changed}:
            most = max(share for line, share in given.items() if line.lane == lane)
            self.skipped[lane] = self.skipped.get(lane, Fraction(0)) + most

    def note_costs(self, model: QueueModel, before: dict[Line, list[int]]) -> None:
        """Also while shares are not added up: a line that delivered a costly message waits for the
        others.
        """
        for line, ids in before.items():
            self.steps[line] = max(
                self.steps.get(line, Fraction(0)), *costs(model, line, ids).values(), Fraction(0)
            )

    def add_shares(self, model: QueueModel, took: list[int], before: dict[Line, list[int]]) -> None:
        """Add up what pairs of lines got, from the time on when both always had more messages."""
        given = shares(model, took, before)
        still_waiting = [
            line
            for line, ids in before.items()
            if not set(ids) <= set(took) and is_unlimited(model, line.channel)
        ]
        pairs = [(a, b) for a, b in combinations(sorted(still_waiting), 2) if a.lane == b.lane]
        self.leads = {(a, b): self.leads.get((a, b), Fraction(0)) + given[a] - given[b] for a, b in pairs}


def costs(model: QueueModel, line: Line, ids: list[int]) -> dict[int, Fraction]:
    weight = Fraction(model.policy(line.channel).weight)
    return {i: tag_step(model.messages[i].cost, weight) for i in ids}


def shares(model: QueueModel, took: list[int], before: dict[Line, list[int]]) -> dict[Line, Fraction]:
    """What a dequeue gave to each line."""
    return {
        line: sum((cost for i, cost in costs(model, line, ids).items() if i in took), Fraction(0))
        for line, ids in before.items()
    }


def lines(model: QueueModel) -> dict[Line, list[int]]:
    """The messages that each line may deliver, in order."""
    found: dict[Line, list[int]] = {}
    for channel in model.channels():
        for message in model.next(channel):
            found.setdefault(Line(message.lane, channel), []).append(message.id)
    return found


def is_unlimited(model: QueueModel, channel: str) -> bool:
    policy = model.policy(channel)
    return not policy.paused and policy.max_concurrency is None and policy.release_interval_us is None


def take(
    model: QueueModel, deliveries: Deliveries, rows: list[Delivery], again_at: int | None, ask: Ask
) -> None:
    available = {channel: model.available(channel, ask.lanes) for channel in model.channels()}
    before = lines(model)
    room = model.room(ask.limit)
    _check_rows(model, deliveries, rows, ask)
    _check_order(model, rows, before)
    assert len(rows) <= room, f"the queue released {len(rows)}, and may {room}"
    took = Counter(row.channel for row in rows)
    for channel, count in took.items():
        assert count <= available[channel], (
            f"invariants 7, 10: {channel!r} released {count}, its policy allows {available[channel]}"
        )
    if model.is_settled() and _is_free(model, ask.lanes):
        assert took.total() == min(room, sum(available.values())), (
            f"invariant 13: {dict(took)} of {available} available, room for {room}: it should have taken more"
        )
    deliveries.note_costs(model, before)
    ids = [row.id for row in rows]
    if model.settings.max_concurrency is None and model.is_settled():
        deliveries.add_shares(model, ids, before)
        _check_shares(deliveries)
    else:
        deliveries.note_skipped(model, ids, before)
    for row in rows:
        model.lease(row.id, row.token, ask.lease_ms, ask.consumer)
        deliveries.tokens.add(row.token)
    deliveries.is_fresh = deliveries.is_fresh and not rows
    _check_again_at(model, deliveries, again_at, count=len(rows), limit=ask.limit)


def _is_free(model: QueueModel, lanes: list[str] | None) -> bool:
    """Whether no slots of a limit can be used up by entries of other lanes."""
    if lanes is None:
        return True
    others = {message.channel for message in model.waiting() if message.lane not in lanes}
    return model.settings.max_concurrency is None and all(is_unlimited(model, channel) for channel in others)


def _check_rows(model: QueueModel, deliveries: Deliveries, rows: list[Delivery], ask: Ask) -> None:
    assert len(rows) <= ask.limit
    assert len({row.id for row in rows}) == len(rows), "invariant 4: a message twice in one dequeue"
    for row in rows:
        assert row.id in model.messages, f"invariants 2, 3: message {row.id} was never created, or has ended"
        message = model.messages[row.id]
        assert message.token is None, f"invariant 4: message {row.id} is leased already"
        assert model.is_due(message), f"invariant 9: message {row.id} came before its time"
        assert ask.lanes is None or message.lane in ask.lanes, f"message {row.id} is of lane {message.lane}"
        assert row[1:5] == (message.channel, message.content, message.headers, message.state), "invariant 3"
        assert row.attempts == message.attempts + 1, "invariant 14"
        assert row.lease_end_at == model.now + ask.lease_ms
        assert row.token not in deliveries.tokens, "invariant 5: a token was given twice"


def _check_order(model: QueueModel, rows: list[Delivery], before: dict[Line, list[int]]) -> None:
    """Invariant 11: from the head of each line, in order, and nothing that was not dispatched."""
    picked: dict[Line, list[int]] = {}
    for row in rows:
        picked.setdefault(Line(model.messages[row.id].lane, row.channel), []).append(row.id)
    for line, ids in picked.items():
        expected = before.get(line, [])[: len(ids)]
        assert ids == expected, f"invariant 11: {line} gave {ids}, it has {before.get(line)}"


def _check_shares(deliveries: Deliveries) -> None:
    """Invariant 21: costs by weight differ by no more than one message of each, and what was removed or
    skipped.
    """
    for (a, b), lead in deliveries.leads.items():
        most = deliveries.skipped.get(a.lane, Fraction(0))
        most += sum(deliveries.steps[line] + deliveries.lost.get(line, 0) for line in (a, b))
        assert abs(lead) <= most, (
            f"invariant 21: while both had a backlog, {a} was given {float(lead)} more than {b}; "
            f"one message of each, and what was cancelled or skipped, is {float(most)}"
        )


def _check_again_at(
    model: QueueModel, deliveries: Deliveries, again_at: int | None, *, count: int, limit: int
) -> None:
    assert (again_at is not None) == (count < limit), (
        "again_at comes with fewer than asked for, and only then"
    )
    if again_at is None:
        return
    assert model.now <= again_at <= model.now + 1000, f"again_at is {again_at - model.now} ms ahead"
    if not model.is_settled():
        return
    next_at = model.next_at()
    if next_at is not None and next_at > model.now:
        assert again_at <= max(model.now + 5, next_at), (
            f"invariant 13: due in {next_at - model.now} ms, again_at in {again_at - model.now} ms"
        )
    if not count and not model.waiting() and deliveries.is_fresh and model.room(1) and not model.had_limits:
        assert again_at == model.now + 1000, f"nothing waits, yet again_at is {again_at - model.now} ms ahead"
