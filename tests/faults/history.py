"""A record of what clients saw, and a checker of the invariants that it must satisfy.

The checker calls no function of the engine. Every time is Unix milliseconds of the server's clock, read by
the client before and after a call, which took effect between the two. If the connection dropped, the outcome
is `UNKNOWN`: the checker then assumes whichever outcome is in the engine's favour.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Any, Self
from uuid import UUID


class Outcome(Enum):
    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Create:
    content: bytes  # identifies the message, even if its id is not known
    channel: str
    outcome: Outcome
    id: int | None = None
    dequeue_at: int | None = None
    headers: dict[str, Any] | None = None
    max_attempts: int = 5
    result: str = "created"  # or duplicate, full; unknown: there was no answer
    holder: int | None = None  # for a duplicate: the message that has the key
    dedupe_key: str | None = None
    called_at: int = 0
    answered_at: int = 0
    done_at: int = 0  # when its commit was known


@dataclass(frozen=True)
class Delivery:
    client: str
    call: int
    place: int  # within the call's rows
    id: int
    channel: str
    content: bytes
    headers: dict[str, Any] | None
    state: bytes | None
    attempts: int
    token: UUID
    lease_end_at: int
    lease_ms: int
    outcome: Outcome
    called_at: int
    done_at: int  # when its commit was known

    @classmethod
    def from_row(
        cls,
        row: tuple[Any, ...],
        client: str,
        call: int,
        place: int,
        lease_ms: int,
        outcome: Outcome,
        between: tuple[int, int],
    ) -> Self:
        """A row of `message_dequeue`."""
        id_, channel, content, headers, state, attempts, token, lease_end_at = row[:8]
        return cls(
            client=client,
            call=call,
            place=place,
            id=id_,
            channel=channel,
            content=content,
            headers=headers,
            state=state,
            attempts=attempts,
            token=token,
            lease_end_at=lease_end_at,
            lease_ms=lease_ms,
            outcome=outcome,
            called_at=between[0],
            done_at=between[1],
        )

    @property
    def released_at(self) -> int:
        return self.lease_end_at - self.lease_ms


@dataclass(frozen=True)
class Finish:
    kind: str  # complete, release, fail, extend
    id: int
    token: UUID
    result: str
    outcome: Outcome
    called_at: int
    done_at: int
    lease_end_at: int | None = None
    dequeue_at: int | None = None
    state: bytes | None = None

    @property
    def is_end(self) -> bool:
        """Whether the call may have ended the lease, as far as the client knows."""
        ends = {"completed", "retried", "dead", "cancelled"}
        return self.outcome is not Outcome.FAIL and self.kind != "extend" and self.result in ends


@dataclass(frozen=True)
class Act:
    """What an operator did to a message, or to a whole channel (with id 0)."""

    kind: str  # cancel, reschedule, retry, discard; retry all, delete
    id: int
    result: str
    called_at: int
    done_at: int
    channel: str = ""
    dequeue_at: int | None = None
    count: int = 0


@dataclass(frozen=True)
class Pause:
    channel: str | None  # None: the queue
    from_at: int  # when the pause was known to be in effect
    to_at: int  # when the call that ended it had not begun


@dataclass(frozen=True)
class Policy:
    max_concurrency: int | None = None
    release_interval_ms: int = 0
    burst: int = 1


@dataclass(frozen=True)
class Dead:
    id: int
    attempts: int
    max_attempts: int | None
    content: bytes


@dataclass(frozen=True)
class Finished:
    """A row of the history."""

    id: int
    outcome: str
    channel: str
    finished_at: int
    attempts: int
    dedupe_key: str | None
    content: bytes


@dataclass
class History:
    creates: list[Create] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    finishes: list[Finish] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    audits: list[str] = field(default_factory=list)  # what the audit queries found
    hidden_dequeues: int = 0  # calls without an answer, which may have leased messages
    deadlocks: int = 0
    notes: Counter[str] = field(default_factory=Counter)

    def __iadd__(self, other: "History") -> Self:
        self.creates += other.creates
        self.deliveries += other.deliveries
        self.finishes += other.finishes
        self.pauses += other.pauses
        self.acts += other.acts
        self.audits += other.audits
        self.hidden_dequeues += other.hidden_dequeues
        self.deadlocks += other.deadlocks
        self.notes += other.notes
        return self


class HistoryChecker:
    """Finds what a history breaks. `stored` are the contents queued at the end, `dead` the dead letters."""

    def __init__(
        self,
        history: History,
        *,
        stored: Iterable[bytes] = (),
        dead: Iterable[Dead] = (),
        policies: dict[str, Policy] | None = None,
        queue_limit: int | None = None,
        finished: Sequence[Finished] = (),
    ) -> None:
        self._history = history
        self._queue_limit = queue_limit
        self._finished_ats: dict[int, list[int]] = defaultdict(list)
        for row in sorted(finished, key=lambda row: row.finished_at):
            self._finished_ats[row.id].append(row.finished_at)
        self._stored = Counter(stored)
        self._dead = {letter.id: letter for letter in dead}
        self._policies = policies or {}
        self._created = {create.content: create for create in history.creates}
        # A dequeue with an unknown outcome did commit if a call with its token succeeded.
        proven = {
            finish.token for finish in history.finishes if finish.is_end and finish.outcome is Outcome.OK
        }
        self._deliveries = [d for d in history.deliveries if d.outcome is Outcome.OK or d.token in proven]
        self._doubtful = {d.id for d in history.deliveries if d.outcome is Outcome.UNKNOWN}
        self._deleted = {act.channel for act in history.acts if act.kind == "delete"}
        self._retried_or_discarded = {
            act.id for act in history.acts if act.result in {"retried", "discarded"}
        }
        if any(act.kind == "retry all" for act in history.acts):
            self._retried_or_discarded |= {
                finish.id for finish in history.finishes if finish.result == "dead"
            }
            self._retried_or_discarded |= {row.id for row in finished if row.outcome == "dead"}
        self._rescheduled: dict[int, list[int]] = defaultdict(list)
        for act in history.acts:
            if act.result == "rescheduled":
                self._rescheduled[act.id].append(act.called_at if act.dequeue_at is None else act.dequeue_at)
        self._of_message: dict[int, list[Delivery]] = {}
        # Not by time: a dequeue reads the clock before it chooses messages, which may be released in between.
        for delivery in sorted(self._deliveries, key=lambda d: (d.attempts, d.done_at)):
            self._of_message.setdefault(delivery.id, []).append(delivery)
        # Attempts of a retried dead letter start again at 1.
        self._ordered = {
            id_: d for id_, d in self._of_message.items() if id_ not in self._retried_or_discarded
        }
        self._finishes: dict[tuple[int, UUID], list[Finish]] = defaultdict(list)
        for finish in sorted(history.finishes, key=lambda f: f.done_at):
            self._finishes[finish.id, finish.token].append(finish)

    def violations(self) -> list[str]:
        rules = (
            self._nothing_vanishes,
            self._nothing_unexpected,
            self._one_lease_per_message,
            self._one_end_per_token,
            self._limits,
            self._never_early,
            self._rates,
            self._order,
            self._attempts,
            self._dead_at_the_limit,
            self._pauses,
            self._cancelled,
            self._deadlocks,
            self._audits,
        )
        return [broken for rule in rules for broken in rule()]

    def _ended(self, delivery: Delivery) -> Finish | None:
        return next((f for f in self._finishes[delivery.id, delivery.token] if f.is_end), None)

    def _lease_end(self, delivery: Delivery) -> int:
        """The latest end of the lease that its holder knows of."""
        extended = [
            f.lease_end_at
            for f in self._finishes[delivery.id, delivery.token]
            if f.kind == "extend" and f.outcome is Outcome.OK and f.lease_end_at is not None
        ]
        return max([delivery.lease_end_at, *extended])

    def _nothing_vanishes(self) -> Iterator[str]:
        gone, maybe = self._gone()
        for create in self._history.creates:
            if create.id is None or create.channel in self._deleted:
                continue
            ends = gone[create.id] + (create.id in self._dead) + self._stored[create.content]
            if create.outcome is Outcome.OK and ends == 0 and create.id not in maybe:
                yield f"1: message {create.id} in {create.channel} vanished"
            if ends > 1:
                yield f"1: message {create.id} ended {ends} times"
            if create.outcome is Outcome.FAIL and ends:
                yield f"2: message {create.id} was rolled back and is there"

    def _gone(self) -> tuple[Counter[int], set[int]]:
        """How often each message certainly finished, and which ones may have."""
        gone: Counter[int] = Counter()
        maybe = {act.id for act in self._history.acts if act.result == "marked"}
        for finish in self._history.finishes:
            if finish.kind == "complete" and finish.outcome is Outcome.UNKNOWN:
                maybe.add(finish.id)
            elif finish.is_end and finish.outcome is Outcome.OK:
                gone[finish.id] += finish.result in {"completed", "cancelled"}
        for act in self._history.acts:
            gone[act.id] += act.result in {"cancelled", "discarded"}
        return gone, maybe

    def _nothing_unexpected(self) -> Iterator[str]:
        states: dict[int, set[bytes | None]] = defaultdict(lambda: {None})
        for finish in self._history.finishes:
            if finish.kind in {"release", "fail"} and finish.outcome is not Outcome.FAIL:
                states[finish.id].add(finish.state)
        for delivery in self._history.deliveries:
            create = self._created.get(delivery.content)
            if create is None:
                yield f"3: no client created the content of message {delivery.id}"
            elif create.outcome is Outcome.FAIL:
                yield f"2: message {delivery.id} was rolled back and delivered"
            elif create.id not in {None, delivery.id} or (create.channel, create.headers) != (
                delivery.channel,
                delivery.headers,
            ):
                yield f"3: message {delivery.id} differs from how it was created: {delivery}, {create}"
            elif delivery.state not in states[delivery.id]:
                yield f"3: message {delivery.id} has a state that no client set"

    def _one_lease_per_message(self) -> Iterator[str]:
        pairs = Counter((d.id, d.token) for d in self._history.deliveries)
        yield from (
            f"4: message {pair[0]} was delivered twice with one token" for pair, n in pairs.items() if n > 1
        )
        for id_, deliveries in self._ordered.items():
            for first, second in pairwise(deliveries):
                ended = self._ended(first)
                if ended is None and second.done_at < self._lease_end(first):
                    until = self._lease_end(first)
                    yield f"4: message {id_} was delivered by {second.done_at}, leased until {until}"
                if (
                    ended is not None
                    and ended.result in {"completed", "dead", "cancelled"}
                    and ended.outcome is Outcome.OK
                ):
                    yield f"5: message {id_} was delivered after it was {ended.result}"

    def _one_end_per_token(self) -> Iterator[str]:
        known = {(d.id, d.token) for d in self._history.deliveries}
        for (id_, token), finishes in self._finishes.items():
            if (id_, token) not in known:
                yield f"5: message {id_} was finished with a token that was not given out"
            ends = [f for f in finishes if f.is_end and f.outcome is Outcome.OK]
            if len(ends) > 1:
                yield f"5: message {id_} was finished {len(ends)} times with one token"
            for finish in (f for f in finishes if f.outcome is Outcome.OK):
                taken_over = any(d.done_at < finish.called_at for d in self._after(id_, token))
                if taken_over and finish.result not in {"lost", "not_found"}:
                    yield f"5: a zombie {finish.result} message {id_} after it was taken over"
                after = [f for f in ends if f.done_at < finish.called_at]
                expected = {
                    "completed": {"not_found"},
                    "cancelled": {"not_found"},
                    "dead": {"lost"} | ({"not_found"} if id_ in self._retried_or_discarded else set()),
                    "retried": {"lost", "not_found"},
                }
                if after and finish not in ends and finish.result not in expected[after[0].result]:
                    yield f"6: message {id_} was {after[0].result}, and then a call returned {finish.result}"
                if finish.result in {"lost", "not_found"} and not any(
                    f is not finish and f.is_end for f in finishes
                ):
                    yield from self._lost_too_soon(id_, token, finish)

    def _after(self, id_: int, token: UUID) -> list[Delivery]:
        """The deliveries of the message after the one with this token."""
        deliveries = self._ordered.get(id_, [])
        tokens = [d.token for d in deliveries]
        return deliveries[tokens.index(token) + 1 :] if token in tokens else []

    def _lost_too_soon(self, id_: int, token: UUID, finish: Finish) -> Iterator[str]:
        for delivery in self._of_message.get(id_, []):
            if delivery.token != token or delivery.channel in self._deleted:
                continue
            if finish.done_at < self._lease_end(delivery):
                yield f"5: the holder of message {id_} got {finish.result} before its lease ended"

    def _limits(self) -> Iterator[str]:
        limits: dict[str | None, int | None] = {None: self._queue_limit}
        limits |= {channel: policy.max_concurrency for channel, policy in self._policies.items()}
        for channel, limit in limits.items():
            if limit is None:
                continue
            leases = (self._certain_lease(d) for d in self._deliveries if channel in {None, d.channel})
            running, at = busiest(leases)
            if running > limit:
                yield f"7: {running} ran in {channel or 'the queue'} at {at}, more than {limit}"

    def _certain_lease(self, delivery: Delivery) -> tuple[int, float]:
        """From when the commit was known until the lease ended, or until its end was requested."""
        ended = self._ended(delivery)
        until = self._lease_end(delivery)
        if ended is not None:
            until = ended.called_at if ended.outcome is Outcome.OK else min(until, ended.called_at)
        gone = [at for at in self._finished_ats.get(delivery.id, []) if at >= delivery.released_at]
        return delivery.done_at, min([until, *gone])

    def _never_early(self) -> Iterator[str]:
        for id_, deliveries in self._ordered.items():
            create = self._created.get(deliveries[0].content)
            times = [None if create is None else create.dequeue_at]
            if id_ in self._rescheduled and times != [None]:
                times += self._rescheduled[id_]
            for delivery in deliveries:
                # None: it may be released at any time. So it may if a retry with a delay has perhaps not
                # happened, and its lease has ended.
                wanted = [at for at in times if at is not None]
                if len(wanted) == len(times) and delivery.released_at < min(wanted):
                    yield f"9: message {id_} was released at {delivery.released_at}, not before {min(wanted)}"
                ended = self._ended(delivery)
                if ended is not None and ended.dequeue_at is not None:
                    # If the release is not known to have happened, either time may apply.
                    times = [ended.dequeue_at, *(times if ended.outcome is Outcome.UNKNOWN else [])]
                    times += self._rescheduled.get(id_, [])

    def _rates(self) -> Iterator[str]:
        for channel, policy in self._policies.items():
            released_ats = sorted(d.released_at for d in self._deliveries if d.channel == channel)
            interval_ms, full_at = policy.release_interval_ms, 0
            for at in released_ats if interval_ms else []:
                if full_at > at + (policy.burst - 1) * interval_ms:
                    most = f"{policy.burst} and one per {interval_ms} ms"
                    yield f"10: {channel} released one at {at}, and before that as many as allowed: {most}"
                full_at = max(full_at, at) + interval_ms

    def _order(self) -> Iterator[str]:
        """Messages of one call are in order. A message's time is known if no end of a lease is in doubt."""
        at: dict[tuple[int, UUID], int] = {}
        for id_, deliveries in self._ordered.items():
            if id_ in self._rescheduled:
                continue
            create = self._created.get(deliveries[0].content)
            place = None if create is None else create.dequeue_at
            for delivery in deliveries:
                if place is not None:
                    at[delivery.id, delivery.token] = place
                ended = self._ended(delivery)
                if ended is not None and ended.outcome is Outcome.UNKNOWN:
                    break
                if ended is not None and ended.dequeue_at is not None:
                    place = ended.dequeue_at
        last: dict[tuple[str, int, str], tuple[int, int]] = {}
        for delivery in sorted(self._deliveries, key=lambda d: (d.client, d.call, d.place)):
            if (delivery.id, delivery.token) in at and delivery.id not in self._doubtful:
                group = (delivery.client, delivery.call, delivery.channel)
                place_now = (at[delivery.id, delivery.token], delivery.id)
                if group in last and place_now < last[group]:
                    yield f"11: message {delivery.id} came after one that sorts behind it"
                last[group] = place_now

    def _attempts(self) -> Iterator[str]:
        hidden = 0
        for id_, deliveries in self._ordered.items():
            least = most = 1
            for delivery in deliveries:
                if delivery.attempts < least:
                    yield f"14: message {id_} was at attempt {least}, now at {delivery.attempts}"
                hidden += max(0, delivery.attempts - most) if id_ not in self._doubtful else 0
                ended = self._ended(delivery)
                is_free = ended is not None and ended.kind == "release"
                is_sure = ended is not None and ended.outcome is Outcome.OK
                least = delivery.attempts + (0 if is_free else 1)
                # If the release is not known to have happened, the lease may have run out.
                most = delivery.attempts + (0 if is_free and is_sure else 1)
        # A dequeue without an answer uses up an attempt of each message that it took.
        if hidden > 100 * self._history.hidden_dequeues:
            yield f"14: {hidden} attempts were used up without a known dequeue"

    def _dead_at_the_limit(self) -> Iterator[str]:
        for letter in self._dead.values():
            create = self._created.get(letter.content)
            limit = None if create is None else create.max_attempts
            if letter.attempts != limit:
                yield f"14: message {letter.id} is dead after {letter.attempts} attempts of {limit}"
            last = max((d.attempts for d in self._of_message.get(letter.id, [])), default=0)
            if last != limit and not self._history.hidden_dequeues and letter.id not in self._doubtful:
                yield f"14: message {letter.id} is dead and was last delivered for attempt {last} of {limit}"
        for id_, deliveries in self._of_message.items():
            create = self._created.get(deliveries[0].content)
            if create is not None and any(d.attempts > create.max_attempts for d in deliveries):
                yield f"14: message {id_} was delivered more often than {create.max_attempts} times"

    def _pauses(self) -> Iterator[str]:
        for pause in self._history.pauses:
            for delivery in self._deliveries:
                is_within = pause.from_at < delivery.called_at and delivery.released_at < pause.to_at
                if pause.channel in {None, delivery.channel} and is_within:
                    where, at = delivery.channel, delivery.released_at
                    yield f"paused: {where} released message {delivery.id} at {at}"

    def _cancelled(self) -> Iterator[str]:
        """A cancelled message is not delivered again, and its worker learns of it at its next call."""
        known_at: dict[int, int] = {}
        for act in self._history.acts:
            if act.result in {"marked", "cancelled"}:
                known_at[act.id] = min(act.done_at, known_at.get(act.id, act.done_at))
        for delivery in self._deliveries:
            if delivery.called_at > known_at.get(delivery.id, delivery.called_at):
                yield f"cancelled: message {delivery.id} was delivered after it was cancelled"
        for finish in self._history.finishes:
            is_late = finish.called_at > known_at.get(finish.id, finish.called_at)
            learns_of_it = finish.result in {"cancelled", "lost", "not_found"}
            if is_late and finish.outcome is Outcome.OK and not learns_of_it:
                yield f"cancelled: message {finish.id} was {finish.result} after it was cancelled"

    def _deadlocks(self) -> Iterator[str]:
        if self._history.deadlocks:
            yield f"{self._history.deadlocks} deadlocks"

    def _audits(self) -> Iterator[str]:
        yield from (f"audit: {found}" for found in self._history.audits)


def busiest(spans: Iterable[tuple[int, float]]) -> tuple[int, float]:
    """The largest number of intervals that overlap, and where."""
    changes = [change for start, end in spans if start < end for change in ((start, 1), (end, -1))]
    running, most = 0, (0, 0.0)
    for at, change in sorted(changes):
        running += change
        most = max(most, (running, at), key=lambda found: found[0])
    return most
