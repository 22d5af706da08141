"""The whole contract in plain Python: what each call returns, and what is stored after it.

One caller, no waiting, no indexes: where the engine is clever, the model is obvious. What the contract
leaves to the engine is passed to the model as it happened: ids and tokens, which of the channels with a
backlog is served (`deliveries` checks that), and results that the contract leaves open (see
`admission`).
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

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
    dedupe_keep_ms: int = 600_000
    history: bool = False
    history_content: bool = False
    history_keep_ms: int = 2_592_000_000
    notify: bool = True


@dataclass(frozen=True)
class Policy:
    """As channel_get returns it."""

    max_concurrency: int | None = None
    release_interval_ms: int = 0
    paused: bool = False
    max_size: int | None = None
    weight: Decimal = Decimal(1)


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
    is_announced: bool = False  # leased under a concurrency limit: its end appends a notice
    is_counted: bool = False  # created while its channel had a max_size

    @property
    def place(self) -> tuple[int, int, int]:
        return -self.priority, self.dequeue_at, self.id

    @property
    def stored(self) -> tuple[Any, ...]:
        """Everything of it that a caller can see, up to its lane."""
        return tuple(vars(self).values())[:22]


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


@dataclass
class QueueModel:
    now: int
    settings: Settings = field(default_factory=Settings)
    policies: dict[str, Policy] = field(default_factory=dict)
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

    # Producers

    def create(self, answers: list[tuple[int | None, str]], drafts: list[Draft], transaction_at: int) -> None:
        """One after the other, even if the engine got all at once."""
        self.is_dispatched = False
        for (message_id, result), draft in zip(answers, drafts, strict=True):
            holder = self.admission.holder(draft.channel, draft.dedupe_key, self.now)
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
        )
        self._enter(message)

    def _check_answer(self, channel: str, key: str | None, message_id: int | None, result: str) -> None:
        holder = self.admission.holder(channel, key, self.now)
        if holder not in {None, message_id}:
            allowed = {"duplicate"}
        else:
            size, limit = self.size(channel), self.policy(channel).max_size
            allowed = self.admission.answers(channel, size, limit, self.now)
        assert result in allowed, (
            f"{result!r}: {channel!r} has {self.size(channel)} of {self.policy(channel).max_size}, "
            f"key {key!r} is held by {holder}: only {allowed}"
        )

    def _enter(self, message: Message) -> None:
        message.is_counted = self.policy(message.channel).max_size is not None
        self.messages[message.id] = message
        self.admission.take(message.channel, message.dedupe_key, message.id)

    # Consumers

    def dispatch(self) -> None:
        """Messages of expired leases come back, except cancelled ones. Everything that is due is placed."""
        for message in self.leases():
            if message.lease_end_at is not None and message.lease_end_at <= self.now:
                self._give_up(message, RAN_OUT) if message.is_cancelled else self._fail(message, RAN_OUT)
        self.placed = {message.id for message in self.waiting() if self.is_due(message)}
        self.is_dispatched = True
        self.dispatched_at = self.now
        self.uncounted.clear()

    def available(self, channel: str, lanes: list[str] | None = None) -> int:
        """How many messages the channel may release now. Leases count until they end, however late."""
        policy = self.policy(channel)
        if policy.paused or self.ready_at(channel) > self.now:
            return 0
        available = len(self.next(channel, lanes))
        if policy.max_concurrency is not None:
            available = min(available, max(0, policy.max_concurrency - len(self.leases(channel))))
        return min(available, 1) if policy.release_interval_ms else available

    def room(self, limit: int) -> int:
        """How many of `limit` messages the queue may release now, over all channels."""
        if self.settings.paused:
            return 0
        most = self.settings.max_concurrency
        return limit if most is None else min(limit, max(0, most - len(self.leases())))

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
            self._fail(message, error)
        else:
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
        release_interval_ms: int | None = None,
        paused: bool | None = None,
        max_size: int | None = None,
        weight: Decimal | None = None,
    ) -> None:
        self.is_dispatched = False
        given = {
            "max_concurrency": max_concurrency,
            "release_interval_ms": release_interval_ms,
            "paused": paused,
            "max_size": max_size,
            "weight": weight,
        }
        self.policies[channel] = _changed(self.policy(channel), given)
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

    def rebuild(self) -> None:
        """Changes nothing that a caller sees, but everything must be dispatched again."""
        self.is_dispatched = False
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
        return self.policies.get(channel, Policy())

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
        """When the release interval is over."""
        interval_ms = self.policy(channel).release_interval_ms
        if not interval_ms or channel not in self.released_at:
            return self.now
        return self.released_at[channel] + interval_ms

    def is_slot_found(self, channel: str) -> bool:
        return self.slot_found_at.get(channel, self.now) <= self.now

    def is_settled(self) -> bool:
        """Whether a dequeue now knows everything. Only a dispatch sees that an interval is over."""
        is_placed = all(message.id in self.placed for message in self.waiting() if self.is_due(message))
        intervals = [channel for channel in self.released_at if self.policy(channel).release_interval_ms]
        is_seen = all(self.ready_at(channel) <= self.dispatched_at for channel in intervals)
        is_told = all(map(self.is_slot_found, self.slot_found_at))
        return self.is_dispatched and is_placed and is_seen and is_told

    def next_at(self) -> int | None:
        """When time alone lets a channel release something: the time of a message, or the end of an
        interval.
        """
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

    def _fail(self, message: Message, error: str) -> None:
        """The attempt is used up; after the last one the message is a dead letter."""
        if message.attempts + 1 >= (message.max_attempts or self.settings.max_attempts):
            self._leave(message, "dead", error)
            message.dead_at = self.now
            self.dead[message.id] = self.messages.pop(message.id)
        self._end_lease(message)
        message.attempts += 1
        message.error = error

    def _leave(self, message: Message, outcome: str, error: str | None) -> None:
        """It no longer waits and is no longer leased: update the history, its key and its channel's
        size.
        """
        if self.settings.history:
            self.finished.append(self._history_row(message, outcome, error))
        until_at = self.now + self.settings.dedupe_keep_ms
        self.admission.finish(message.channel, message.dedupe_key, message.id, until_at)
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
        )

    def _forget(self, channel: str) -> None:
        """What no dispatch has counted yet is counted later."""
        self.policies.pop(channel, None)
        self.served[channel] = self.uncounted[channel]
        if not self.uncounted[channel]:
            self.released_at.pop(channel, None)
        self.slot_found_at.pop(channel, None)
        self.admission.forget(channel)


def _changed(before: Any, given: dict[str, Any]) -> Any:
    """What is omitted keeps its value; a limit of 0 is removed."""
    limits = {"max_concurrency", "max_size"}
    return replace(
        before,
        **{
            name: None if name in limits and value == 0 else value
            for name, value in given.items()
            if value is not None
        },
    )
