"""Judges what a dequeue gave, by what the model says it might, and hands it to the model."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from uuid import UUID

from tests.judge import Delivery
from tests.model.queue_model import QueueModel


@dataclass
class Line:
    """Who stood in the line of channels since when, in calls counted from the start, and what they got."""

    calls: int = 0
    is_fresh: bool = False  # nothing was leased since the last fold
    folds: set[int] = field(default_factory=set)  # when there was one
    since: dict[str, int] = field(default_factory=dict)  # the call that surely found it in the line
    served: dict[str, int] = field(default_factory=dict)  # the last call that served it
    released: set[int] = field(default_factory=set)  # messages that were delivered before
    leads: dict[tuple[str, str], int] = field(default_factory=dict)  # how much more the first one was given
    tokens: set[UUID] = field(default_factory=set)
    # Channels that may stand in the line for messages that went, or are read in two goes.
    hollow: set[str] = field(default_factory=set)

    def stepped(self, model: QueueModel) -> None:
        """After every call: a channel that cannot release anything may have lost its place."""
        self.calls += 1
        for channel in list(self.since):
            if not model.available(channel):
                del self.since[channel]

    def folded(self, model: QueueModel) -> None:
        """After a full fold: whoever can release something stands in the line."""
        self.is_fresh = True
        self.folds.add(model.now)
        for channel in model.channels():
            if model.available(channel) and model.is_noticed(channel):
                self.since.setdefault(channel, self.calls)

    def is_plain(self, channel: str, model: QueueModel) -> bool:
        """Whether the messages wait in the order they came: none is urgent, none has come back."""
        ids = [message.id for message in model.waiting(channel)]
        return ids == sorted(ids) and self.released.isdisjoint(ids) and channel not in self.hollow

    def rebuilt(self) -> None:
        self.since.clear()
        self.leads.clear()
        self.hollow.clear()

    def shared(self, took: Counter[str], available: dict[str, int]) -> None:
        """Sums up what pairs of channels were given, from when on both always had more to give."""
        hungry = [channel for channel, count in available.items() if took[channel] < count]
        pairs = combinations(hungry, 2)
        self.leads = {(a, b): self.leads.get((a, b), 0) + took[a] - took[b] for a, b in pairs}

    def visited(self, rows: list[Delivery], model: QueueModel) -> None:
        self.is_fresh = self.is_fresh and not rows
        for row in rows:
            self.tokens.add(row.token)
            self.released.add(row.id)
        for channel in {row.channel for row in rows}:
            self.served[channel] = self.calls
            self.since.pop(channel, None)
            if model.is_settled() and model.available(channel):
                self.since[channel] = self.calls


def take(
    model: QueueModel,
    line: Line,
    rows: list[Delivery],
    again_at: int | None,
    limit: int,
    lease_ms: int,
    consumer: str | None,
) -> None:
    available = {channel: model.available(channel) for channel in model.channels()}
    due = {channel: [message.id for message in model.due(channel)] for channel in model.channels()}
    room = model.room(limit)
    idlers = {channel for channel, ids in due.items() if ids and not available[channel]}
    idlers |= {channel for channel in line.hollow if not available.get(channel)}
    _judge_rows(model, line, rows, limit, lease_ms)
    _judge_order(model, rows, due)
    assert len(rows) <= room, f"the queue released {len(rows)}, and may {room}"
    took = Counter(row.channel for row in rows)
    for channel, count in took.items():
        assert count <= available[channel], (
            f"invariants 7, 10: {channel!r} released {count}, its policy allows {available[channel]}"
        )
    if model.is_settled():
        _judge_total(took, available, room, len(idlers))
        _judge_turns(line, took, available)
    if model.is_settled() and not idlers and all(line.is_plain(channel, model) for channel in available):
        _judge_shares(line, took, available)
    else:
        line.leads.clear()
    for row in rows:
        model.lease(row.id, row.token, lease_ms, consumer)
    _judge_again_at(model, line, again_at, count=len(rows), limit=limit)
    line.visited(rows, model)


def _judge_rows(model: QueueModel, line: Line, rows: list[Delivery], limit: int, lease_ms: int) -> None:
    assert len(rows) <= limit
    assert len({row.id for row in rows}) == len(rows), "invariant 4: a message twice in one dequeue"
    for row in rows:
        assert row.id in model.messages, f"invariants 2, 3: message {row.id} was never created, or has ended"
        message = model.messages[row.id]
        assert message.token is None, f"invariant 4: message {row.id} is leased already"
        assert message.dequeue_at <= model.now, f"invariant 9: message {row.id} came before its time"
        assert row[1:5] == (message.channel, message.content, message.headers, message.state), "invariant 3"
        assert row.attempts == message.attempts + 1, "invariant 14"
        assert row.lease_end_at == model.now + lease_ms
        assert row.token not in line.tokens, "invariant 5: a token was given twice"


def _judge_order(model: QueueModel, rows: list[Delivery], due: dict[str, list[int]]) -> None:
    """Invariant 11. What was appended since the last fold may come in its place, or not yet."""
    nth: Counter[str] = Counter()
    ranks = []
    for row in rows:
        nth[row.channel] += 1
        ranks.append(nth[row.channel])
    assert ranks == sorted(ranks), "the first of each channel comes before the second of any"
    for channel in nth:
        picked = [row.id for row in rows if row.channel == channel]
        upto = due[channel].index(picked[-1]) + 1
        expected = [i for i in due[channel][:upto] if i in picked or i not in model.unfolded]
        assert picked == expected, f"invariant 11: {channel!r} gave {picked}, its line is {due[channel]}"


def _judge_total(took: Counter[str], available: dict[str, int], room: int, idlers: int) -> None:
    """Everything asked for that can be given is given, by as many channels as can.

    An idler has messages due and no right to release one, or had messages that were given up. It may still
    stand in the line; the call that finds it there gives its share to the others.
    """
    able = [channel for channel, count in available.items() if count]
    assert len(took) >= min(len(able), room - idlers), (
        f"invariant 13: {able} were due, {room} to be had, only {dict(took)} came"
    )
    assert took.total() == min(room, sum(available.values())), (
        f"invariant 13: {dict(took)} of {available}, {room} to be had: not all that was there"
    )


def _judge_shares(line: Line, took: Counter[str], available: dict[str, int]) -> None:
    """Equal shares within a call, and over the calls: nobody gets the odd message every time.

    Only where no channel idles and all messages wait in the order they came. Where newcomers stand before
    what was there already, a channel is read in two goes and may fall short of its share.
    """
    for channel, count in took.items():
        if count < available[channel]:
            most = max(took.values())
            assert most <= count + 1, f"invariant 12: {dict(took)} of {available} are no equal shares"
    line.shared(took, available)
    unfair = {pair: lead for pair, lead in line.leads.items() if abs(lead) > 2}
    assert not unfair, f"invariant 12: over several calls, some were given more than others: {unfair}"


def _judge_turns(line: Line, took: Counter[str], available: dict[str, int]) -> None:
    passed_over = [channel for channel, count in available.items() if count and channel not in took]
    for waiting in passed_over:
        for served in took:
            assert line.since.get(waiting, line.calls) >= line.served.get(served, -1), (
                f"invariants 12, 13: {served!r} was served again while {waiting!r} stood in the line"
            )


def _judge_again_at(model: QueueModel, line: Line, again_at: int | None, *, count: int, limit: int) -> None:
    assert (again_at is not None) == (count < limit), (
        "again_at comes with fewer than asked for, and only then"
    )
    if again_at is None:
        return
    assert model.now <= again_at <= model.now + 1000, f"again_at is {again_at - model.now} ms ahead"
    if not model.is_settled():
        return
    next_at = model.next_at()
    if next_at is not None:
        assert again_at <= max(model.now + 5, next_at), (
            f"invariant 13: due in {next_at - model.now} ms, again_at in {again_at - model.now} ms"
        )
    if not count and not model.waiting() and line.is_fresh and model.room(1) and not line.hollow:
        is_left_to_next_call = again_at - 5 in line.folds and 1 <= model.now - (again_at - 5) <= 4
        assert again_at == model.now + 1000 or is_left_to_next_call, (
            f"nothing waits, yet again_at is {again_at - model.now} ms ahead"
        )
