"""The whole contract in plain Python: what each call returns, and what is stored after it.

One caller, no waiting, no indexes: where the engine is clever, the model is obvious. What the contract
leaves to the engine is passed to the model as it happened: ids and tokens, which of the channels with a
backlog is served (`deliveries` checks that), and results that the contract leaves open (see
`admission`).
"""

import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from lonnymq.rules.room import channel_room, queue_room
from lonnymq.rules.token_bucket import TokenBucket, changed_bucket
from lonnymq.rules.turns import place
from tests.model.admission import Admission

RAN_OUT = "the lease ran out"
NOTICE_MS = 1000
PAST_ERRORS = 10


@dataclass(frozen=True)
class Settings:
    """As queue_get returns them."""

    content_max_bytes: int = 1_048_576
    lease_ms: int = 30_000
    lease_max_ms: int = 86_400_000
    max_attempts: int = 5
    max_concurrency: int | None = None
    paused: bool = False
    history: bool = False
    history_content: bool = False
    history_keep_ms: int = 2_592_000_000
    batch_keep_ms: int = 604_800_000
    audit_keep_ms: int = 7_776_000_000
    notify: bool = True
    channel_max_concurrency: int | None = None
    channel_release_interval_us: int | None = None
    channel_burst: int = 1
    channel_max_size: int | None = None


@dataclass(frozen=True)
class Policy:
    """As channel_get returns it."""

    max_concurrency: int | None = None
    release_interval_us: int | None = None
    burst: int = 1
    paused: bool = False
    max_size: int | None = None
    weight: Decimal = Decimal(1)
    inherited: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class OwnPolicy:
    """What was set for a channel. A limit of None is inherited from the queue, 0 means no limit."""

    max_concurrency: int | None = None
    release_interval_us: int | None = None
    burst: int | None = None
    paused: bool = False
    max_size: int | None = None
    weight: Decimal = Decimal(1)


LIMITS = ("max_concurrency", "release_interval_us", "burst", "max_size")


@dataclass(frozen=True)
class Draft:
    """What a producer gives."""

    channel: str
    content: bytes
    dequeue_at: int | None = None
    headers: dict[str, Any] | None = None
    max_attempts: int | None = None
    dedupe_key: str | None = None
    delay_ms: int | None = None
    priority: int | None = None
    cost: int | None = None
    lane: str | None = None
    unique_for_ms: int | None = None


@dataclass
class Message:
    id: int
    channel: str
    content: bytes
    headers: dict[str, Any] | None
    max_attempts: int | None
    dedupe_key: str | None
    created_at: int
    dequeue_at: int
    attempts: int = 0  # used up, without the running one
    state: bytes | None = None
    error: str | None = None
    consumer: str | None = None
    token: UUID | None = None  # of its lease
    lease_end_at: int | None = None
    dead_at: int | None = None
    first_dequeued_at: int | None = None
    dequeued_at: int | None = None
    is_cancelled: bool = False
    past_errors: list[dict[str, Any]] | None = None
    priority: int = 0
    cost: int = 1
    lane: str = "default"
    unique_for_ms: int | None = None
    past_runs: list[int] | None = None
    is_announced: bool = False  # leased under a concurrency limit: its end appends a notice
    is_counted: bool = False  # created while its channel had a max_size

    @property
    def place(self) -> tuple[int, int, int]:
        return place(self.priority, self.dequeue_at, self.id)

    @property
    def stored(self) -> tuple[Any, ...]:
        """Everything of it that a caller can see, up to its past runs."""
        return tuple(vars(self).values())[:24]


class Finished(NamedTuple):
    """A row of the history."""

    id: int
    finished_at: int
    outcome: str
    attempts: int
    channel: str
    created_at: int
    dequeue_at: int
    first_dequeued_at: int | None
    dequeued_at: int | None
    error: str | None
    consumer: str | None
    dedupe_key: str | None
    headers: dict[str, Any] | None
    content_bytes: int
    content: bytes | None
    past_runs: list[int] | None


@dataclass
class QueueModel:
    now: int
    settings: Settings = field(default_factory=Settings)
    policies: dict[str, OwnPolicy] = field(default_factory=dict)
    buckets: dict[str, TokenBucket] = field(default_factory=dict)
    # Channels whose policy changed since the last dispatch; "": the limits of all channels.
    changed: set[str] = field(default_factory=set)
    messages: dict[int, Message] = field(default_factory=dict)
    dead: dict[int, Message] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)  # completed, cancelled or discarded
    finished: list[Finished] = field(default_factory=list)
    admission: Admission = field(default_factory=Admission)
    released_at: dict[str, int] = field(default_factory=dict)
    served: dict[str, int] = field(default_factory=dict)  # by channel
    served_total: int = 0
    uncounted: Counter[str] = field(default_factory=Counter)  # what was served since the last dispatch
    placed: set[int] = field(default_factory=set)  # waiting messages that a dispatch has found due
    is_dispatched: bool = False  # nothing was appended since the last dispatch
    dispatched_at: int = 0
    # When a free slot is found at the latest; "": one of the queue's.
    slot_found_at: dict[str, int] = field(default_factory=dict)
    had_limits: bool = False
    # Waiting messages that a dequeue took before it was rolled back, since the last dispatch. The contract
    # leaves open whether they hold a key that they hold while they wait.
    untaken: set[int] = field(default_factory=set)
    has_burst: bool = False  # the queue sets a burst for its channels

    # Producers

    def create(self, answers: list[tuple[int | None, str]], drafts: list[Draft], transaction_at: int) -> None:
        """One after the other, even if the engine got all at once."""
        self.is_dispatched = False
        for (message_id, result), draft in zip(answers, drafts, strict=True):
            holder = self._key_holder(draft.channel, draft.dedupe_key)
            self._check_answer(draft.channel, draft.dedupe_key, None, result)
            if result == "created":
                assert message_id is not None
                self._make(message_id, draft, transaction_at)
            else:
                assert message_id == holder, f"{result}: of {message_id}, the key is held by {holder}"

    def _make(self, message_id: int, draft: Draft, transaction_at: int) -> None:
        at = transaction_at if draft.dequeue_at is None else draft.dequeue_at
        if draft.delay_ms is not None:
            at = self.now + draft.delay_ms
        message = Message(
            message_id,
            draft.channel,
            draft.content,
            draft.headers,
            draft.max_attempts,
            draft.dedupe_key,
            transaction_at,
            at,
            priority=draft.priority or 0,
            cost=draft.cost or 1,
            lane=draft.lane or "default",
            unique_for_ms=draft.unique_for_ms,
        )
        self._enter(message)

    def _key_holder(self, channel: str, key: str | None) -> int | None:
        waiting = {message.id for message in self.messages.values() if message.token is None}
        return self.admission.holder(channel, key, self.now, waiting)

    def _check_answer(self, channel: str, key: str | None, message_id: int | None, result: str) -> None:
        holder = self._key_holder(channel, key)
        is_held = holder not in {None, message_id}
        allowed = {"duplicate"} if is_held else set()
        if not is_held or (holder in self.untaken and self.messages[holder].unique_for_ms is None):
            size, limit = self.size(channel), self.policy(channel).max_size
            allowed |= self.admission.answers(channel, size, limit, self.now)
        assert result in allowed, (
            f"{result!r}: {channel!r} has {self.size(channel)} of {self.policy(channel).max_size}, "
            f"key {key!r} is held by {holder}: only {allowed}"
        )

    def _enter(self, message: Message) -> None:
        message.is_counted = self.policy(message.channel).max_size is not None
        self.messages[message.id] = message
        self.admission.take(message.channel, message.dedupe_key, message.id, message.unique_for_ms)

    # Consumers

    def dispatch(self) -> None:
        """Messages of expired leases come back, except cancelled ones. Everything that is due is placed."""
        self.untaken.clear()
        for message in self.leases():
            if message.lease_end_at is not None and message.lease_end_at <= self.now:
                self._give_up(message, RAN_OUT) if message.is_cancelled else self._fail(message, RAN_OUT)
        self.placed = {message.id for message in self.waiting() if self.is_due(message)}
        self._apply_rates()
        self.is_dispatched = True
        self.dispatched_at = self.now
        self.uncounted.clear()

    def available(self, channel: str, lanes: list[str] | None = None) -> int:
        """How many messages the channel may release now. Leases count until they end, however late."""
        policy = self.policy(channel)
        room = channel_room(
            is_paused=policy.paused,
            max_concurrency=policy.max_concurrency,
            leased=len(self.leases(channel)),
            tokens=self.tokens(channel, self.now),
        )
        available = len(self.next(channel, lanes))
        return available if room is None else min(available, room)

    def tokens(self, channel: str, at: int) -> int:
        """How many messages the rate lets the channel release at this time."""
        policy, bucket = self.policy(channel), self.buckets.get(channel)
        if policy.release_interval_us is None:
            return sys.maxsize
        return policy.burst if bucket is None else bucket.tokens(policy.burst, 1000 * at)

    def room(self, limit: int) -> int:
        """How many of `limit` messages the queue may release now, over all channels."""
        if self.settings.paused:
            return 0
        room = queue_room(self.settings.max_concurrency, len(self.leases()))
        return limit if room is None else min(limit, room)

    def lease(self, message_id: int, token: UUID, lease_ms: int, consumer: str | None) -> Message:
        message = self.messages[message_id]
        message.token = token
        message.lease_end_at = self.now + lease_ms
        message.consumer = consumer
        message.dequeued_at = self.now
        if message.first_dequeued_at is None:
            message.first_dequeued_at = self.now
        limits = (self.policy(message.channel).max_concurrency, self.settings.max_concurrency)
        message.is_announced = limits != (None, None)
        self.released_at[message.channel] = self.now
        interval_us = self.policy(message.channel).release_interval_us
        if interval_us is not None:
            self.buckets.setdefault(message.channel, TokenBucket(interval_us)).take(1000 * self.now)
        self.served[message.channel] = self.served.get(message.channel, 0) + 1
        self.served_total += 1
        self.uncounted[message.channel] += 1
        self.placed.discard(message_id)
        return message

    def complete(self, message_id: int | None, token: UUID | None) -> str:
        message = self._held(message_id, token)
        if message is None:
            return self._missed(message_id)
        outcome = "cancelled" if message.is_cancelled else "completed"
        self._go(message, outcome)
        return outcome

    def retry(
        self,
        message_id: int | None,
        token: UUID | None,
        dequeue_at: int | None = None,
        state: bytes | None = None,
        error: str | None = None,
        *,
        is_final: bool = False,
    ) -> str:
        message = self._held(message_id, token)
        if message is None:
            return self._missed(message_id)
        self.is_dispatched = False
        if message.is_cancelled:
            self._give_up(message, error)
            return "cancelled"
        if state is not None:
            message.state = state
        if error is not None:
            self._fail(message, error, is_final=is_final)
        else:
            self._end_run(message)
            self._end_lease(message)
        if message.dead_at is not None:
            return "dead"
        if dequeue_at is not None:
            message.dequeue_at = dequeue_at
        return "retried"

    def extend(self, message_id: int | None, token: UUID | None, lease_ms: int) -> tuple[str, int | None]:
        message = self._held(message_id, token)
        if message is None:
            return self._missed(message_id), None
        if message.is_cancelled:
            return "cancelled", None
        self.is_dispatched = False
        message.lease_end_at = max(message.lease_end_at or 0, self.now + lease_ms)
        return "extended", message.lease_end_at

    # Operators

    def cancel(self, message_id: int) -> str:
        message = self.messages.get(message_id)
        if message is None:
            return self._elsewhere(message_id)
        if message.token is not None:
            message.is_cancelled = True
            return "marked"
        self._give_up(message)
        return "cancelled"

    def reschedule(self, message_id: int, dequeue_at: int | None) -> str:
        message = self.messages.get(message_id)
        if message is None:
            return self._elsewhere(message_id)
        if message.token is not None:
            return "leased"
        self.is_dispatched = False
        message.dequeue_at = self.now if dequeue_at is None else dequeue_at
        self.placed.discard(message_id)
        return "rescheduled"

    def dead_retry(self, answers: list[tuple[int, str]], dequeue_at: int | None) -> None:
        """In the order of their ids; a message that is given twice is no longer dead the second time."""
        first = dict(reversed(answers))
        for message_id in sorted(first):
            self._retry_dead(message_id, first[message_id], dequeue_at)
        seen = set()
        for message_id, result in answers:
            again = "not_found" if first[message_id] == "retried" else first[message_id]
            assert result == (again if message_id in seen else first[message_id])
            seen.add(message_id)

    def _retry_dead(self, message_id: int, result: str, dequeue_at: int | None) -> None:
        message = self.dead.get(message_id)
        if message is None:
            assert result == "not_found", f"a retry of {message_id}, which is not dead: {result!r}"
            return
        created = "created" if result == "retried" else result
        self._check_answer(message.channel, message.dedupe_key, message_id, created)
        if result == "retried":
            self._revive(message, self.now if dequeue_at is None else dequeue_at)

    def _revive(self, message: Message, dequeue_at: int) -> None:
        self.is_dispatched = False
        died = {"at": message.dead_at, "attempts": message.attempts, "error": message.error}
        message.past_errors = [*(message.past_errors or []), died][-PAST_ERRORS:]
        message.attempts = 0
        message.dead_at = None
        message.dequeue_at = dequeue_at
        del self.dead[message.id]
        self._enter(message)

    def dead_discard(self, message_id: int) -> str:
        if self.dead.pop(message_id, None) is None:
            return "not_found"
        self.gone.add(message_id)
        return "discarded"

    # Settings

    def channel_set(
        self,
        channel: str,
        max_concurrency: int | None = None,
        release_interval_us: int | None = None,
        burst: int | None = None,
        paused: bool | None = None,
        max_size: int | None = None,
        weight: Decimal | None = None,
        inherit: list[str] | None = None,
    ) -> None:
        self.is_dispatched = False
        given = {
            "max_concurrency": max_concurrency,
            "release_interval_us": release_interval_us,
            "burst": burst,
            "paused": paused,
            "max_size": max_size,
            "weight": weight,
        }
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        changes |= dict.fromkeys(inherit or [])
        self.policies[channel] = replace(self.policies.get(channel, OwnPolicy()), **changes)
        self.changed.add(channel)
        self.had_limits = True

    def channel_delete(
        self, channel: str, *, with_messages: bool, limit: int, answer: tuple[str, int], stored: set[int]
    ) -> None:
        """`stored`: the messages that still exist. Which ones are deleted first is up to the engine."""
        mine = {m.id: m for m in (*self.messages.values(), *self.dead.values()) if m.channel == channel}
        left = [message for message_id, message in mine.items() if message_id not in stored]
        went = min(limit, len(mine)) if with_messages else 0
        is_known = mine or channel in self.policies or self.served.get(channel)
        if len(mine) > went:
            expected = {("more" if with_messages else "not_empty", went)}
        else:
            expected = {("deleted", went)} if is_known else {("deleted", 0), ("not_found", 0)}
        assert answer in expected, f"{answer} of {len(mine)}: only {expected}"
        assert len(left) == went
        self.is_dispatched = False
        for message in left:
            self._give_up(message) if message.id in self.messages else self.dead_discard(message.id)
        if answer[0] == "deleted":
            self._forget(channel)

    def queue_set(self, given: dict[str, Any]) -> None:
        self.settings = _changed(self.settings, given)
        self.had_limits |= self.settings.max_concurrency is not None
        if given.keys() & {"paused", "max_concurrency"}:
            self.is_dispatched = False
        self.had_limits |= any(name.startswith("channel_") for name in given)
        self.has_burst |= "channel_burst" in given
        if given.keys() & {f"channel_{name}" for name in LIMITS if name != "max_size"}:
            self.is_dispatched = False
            self.changed.add("")

    def rebuild(self) -> None:
        """Changes nothing that a caller sees, but everything must be dispatched again."""
        self.is_dispatched = False
        self._apply_rates()
        self.placed.clear()
        self.uncounted.clear()

    def trim_history(self, kept: set[tuple[int, int]]) -> None:
        """`kept`: the ids and times that still exist. Only rows that are too old may be deleted."""
        keep_ms = self.settings.history_keep_ms
        for row in self.finished:
            is_old = keep_ms and row.finished_at < self.now - keep_ms
            assert is_old or row[:2] in kept, f"{row} left the history before its time"
        self.finished = [row for row in self.finished if row[:2] in kept]

    # Reading

    def policy(self, channel: str) -> Policy:
        own = self.policies.get(channel, OwnPolicy())
        limits: dict[str, Any] = {}
        inherited = []
        for name in LIMITS:
            value, default = getattr(own, name), getattr(self.settings, f"channel_{name}")
            if value is None and default is not None and not (name == "burst" and not self.has_burst):
                inherited.append(name)
            limits[name] = (default if value is None else value) or None
        return Policy(**limits, paused=own.paused, weight=own.weight, inherited=inherited)

    def channels(self) -> list[str]:
        return sorted({message.channel for message in self.messages.values()})

    def leases(self, channel: str | None = None) -> list[Message]:
        return [m for m in self.messages.values() if m.token is not None and channel in {None, m.channel}]

    def waiting(self, channel: str | None = None) -> list[Message]:
        waiting = [m for m in self.messages.values() if m.token is None and channel in {None, m.channel}]
        return sorted(waiting, key=lambda message: message.place)

    def is_due(self, message: Message) -> bool:
        """A message that a dispatch found due stays due."""
        return message.dequeue_at <= self.now or message.id in self.placed

    def due(self, channel: str) -> list[Message]:
        return [message for message in self.waiting(channel) if self.is_due(message)]

    def next(self, channel: str, lanes: list[str] | None = None) -> list[Message]:
        """What a dequeue may find, in order: due and dispatched. Lanes do not wait for each other."""
        return [
            m for m in self.waiting(channel) if m.id in self.placed and (lanes is None or m.lane in lanes)
        ]

    def size(self, channel: str) -> int:
        return len(self.leases(channel)) + len(self.waiting(channel))

    def ready_at(self, channel: str) -> int:
        """When the rate lets the channel release a message."""
        bucket, policy = self.buckets.get(channel), self.policy(channel)
        if bucket is None or self.tokens(channel, self.now) > 0:
            return self.now
        return -(-bucket.token_at_us(policy.burst) // 1000)

    def _apply_rates(self) -> None:
        """A dispatch applies changed policies."""
        for channel in self.changed | (self.buckets.keys() if "" in self.changed else set()):
            policy, own = self.policy(channel), self.policies.get(channel, OwnPolicy())
            released_at = self.released_at.get(channel)
            bucket = changed_bucket(
                self.buckets.pop(channel, None),
                policy.release_interval_us,
                policy.burst,
                None if released_at is None else 1000 * released_at,
                1000 * self.now,
                is_own=bool(own.max_concurrency or own.release_interval_us),
            )
            if bucket is not None:
                self.buckets[channel] = bucket
        self.changed.clear()

    def is_slot_found(self, channel: str) -> bool:
        return self.slot_found_at.get(channel, self.now) <= self.now

    def is_settled(self) -> bool:
        """Whether a dequeue now knows everything. Only a dispatch sees that there are more tokens."""
        is_placed = all(message.id in self.placed for message in self.waiting() if self.is_due(message))
        is_seen = all(
            self.tokens(channel, self.dispatched_at) == self.tokens(channel, self.now)
            for channel in self.buckets
        )
        is_told = all(map(self.is_slot_found, self.slot_found_at))
        return self.is_dispatched and is_placed and is_seen and is_told

    def next_at(self) -> int | None:
        """When time alone lets a channel release something: the time of a message, or the next token."""
        if not self.room(1):
            return None
        times = [
            max(min(m.dequeue_at for m in self.waiting(channel)), self.ready_at(channel), self.now)
            for channel in self.channels()
            if self.waiting(channel) and not self.policy(channel).paused and not self.is_full(channel)
        ]
        return min(times, default=None)

    def is_full(self, channel: str) -> bool:
        limit = self.policy(channel).max_concurrency
        return limit is not None and len(self.leases(channel)) >= limit

    # Helpers

    def _held(self, message_id: int | None, token: UUID | None) -> Message | None:
        message = None if message_id is None else self.messages.get(message_id)
        return message if message is not None and token is not None and message.token == token else None

    def _missed(self, message_id: int | None) -> str:
        return "lost" if message_id in self.messages or message_id in self.dead else "not_found"

    def _elsewhere(self, message_id: int) -> str:
        return "dead" if message_id in self.dead else "not_found"

    def _give_up(self, message: Message, error: str | None = None) -> None:
        self._go(message, "cancelled", error)

    def _go(self, message: Message, outcome: str, error: str | None = None) -> None:
        self.is_dispatched = False
        self._leave(message, outcome, error)
        if message.token is not None:
            self._end_lease(message)
        self.placed.discard(message.id)
        del self.messages[message.id]
        self.gone.add(message.id)

    def _end_lease(self, message: Message) -> None:
        """If a lease is older than the limit, its end appends no notice; a dispatch finds the free slot
        later.
        """
        message.token = message.lease_end_at = None
        if message.is_announced:
            return
        if self.policy(message.channel).max_concurrency is not None:
            self.slot_found_at[message.channel] = self.now + NOTICE_MS
        if self.settings.max_concurrency is not None:
            self.slot_found_at[""] = self.now + NOTICE_MS

    def _end_run(self, message: Message) -> None:
        if self.settings.history:
            assert message.dequeued_at is not None
            message.past_runs = [
                *(message.past_runs or []),
                message.dequeue_at,
                message.dequeued_at,
                self.now,
            ]

    def _fail(self, message: Message, error: str, *, is_final: bool = False) -> None:
        """The attempt is used up; after the last or a final one the message is a dead letter."""
        if is_final or message.attempts + 1 >= (message.max_attempts or self.settings.max_attempts):
            self._leave(message, "dead", error)
            message.dead_at = self.now
            message.past_runs = None
            self.dead[message.id] = self.messages.pop(message.id)
        else:
            self._end_run(message)
        self._end_lease(message)
        message.attempts += 1
        message.error = error

    def _leave(self, message: Message, outcome: str, error: str | None) -> None:
        """It no longer waits and is no longer leased: update the history, its key and its channel's
        size.
        """
        if self.settings.history:
            self.finished.append(self._history_row(message, outcome, error))
        self.admission.finish(message.channel, message.dedupe_key, message.id, self.now)
        if not message.is_counted:
            self.admission.unannounced.append((message.channel, self.now))

    def _history_row(self, message: Message, outcome: str, error: str | None) -> Finished:
        return Finished(
            message.id,
            self.now,
            outcome,
            message.attempts + (message.token is not None),
            message.channel,
            message.created_at,
            message.dequeue_at,
            message.first_dequeued_at,
            message.dequeued_at,
            message.error if error is None else error,
            message.consumer,
            message.dedupe_key,
            message.headers,
            len(message.content),
            message.content if self.settings.history_content else None,
            message.past_runs,
        )

    def _forget(self, channel: str) -> None:
        """What no dispatch has counted yet is counted later."""
        if self.policies.pop(channel, None) is not None:
            self.changed.add(channel)
        self.served[channel] = self.uncounted[channel]
        if not self.uncounted[channel]:
            self.released_at.pop(channel, None)
        self.slot_found_at.pop(channel, None)
        self.admission.forget(channel)


def _changed(before: Settings, given: dict[str, Any]) -> Settings:
    """What is omitted keeps its value; a limit of 0 is removed."""
    limits = {"max_concurrency", *(f"channel_{name}" for name in LIMITS)}
    changes: dict[str, Any] = {
        name: None if name in limits and value == 0 else value
        for name, value in given.items()
        if value is not None
    }
    return replace(before, **changes)
