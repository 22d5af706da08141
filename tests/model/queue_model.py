"""The whole contract of docs/sql.md in plain Python: what each call returns, and what is stored after it.

One caller, no waiting, no indexes: where the engine is clever, the model is obvious. Two things are left to
the engine, and handed to the model as they happened: the ids and tokens it makes up, and which of the due
channels it visits (see `deliveries`, which judges that).
"""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

RAN_OUT = "the lease ran out"
NOTICE_MS = 100


@dataclass
class Settings:
    content_max_bytes: int = 1_048_576
    lease_max_ms: int = 86_400_000
    max_attempts: int = 5


@dataclass
class Policy:
    max_concurrency: int | None = None
    release_interval_ms: int = 0
    paused: bool = False


@dataclass(frozen=True)
class Draft:
    """What a producer gives."""

    channel: str
    content: bytes
    dequeue_at: int | None = None
    headers: dict[str, Any] | None = None
    max_attempts: int | None = None


@dataclass
class Message:
    id: int
    channel: str
    content: bytes
    headers: dict[str, Any] | None
    max_attempts: int | None
    created_at: int
    dequeue_at: int
    attempts: int = 0  # used up, the running one not counted
    state: bytes | None = None
    error: str | None = None
    consumer: str | None = None
    token: UUID | None = None  # of its lease
    lease_end_at: int | None = None
    dead_at: int | None = None
    is_announced: bool = False  # leased under a concurrency limit: the end of the lease is announced

    @property
    def place(self) -> tuple[int, int]:
        return self.dequeue_at, self.id


@dataclass
class QueueModel:
    now: int
    settings: Settings = field(default_factory=Settings)
    policies: dict[str, Policy] = field(default_factory=dict)
    messages: dict[int, Message] = field(default_factory=dict)
    dead: dict[int, Message] = field(default_factory=dict)
    completed: set[int] = field(default_factory=set)
    released_at: dict[str, int] = field(default_factory=dict)
    unfolded: set[int] = field(default_factory=set)  # messages that came to wait since the last fold
    is_folded: bool = False  # nothing was appended since the last fold
    noticed_at: dict[str, int] = field(
        default_factory=dict
    )  # when a free slot is found out about at the latest

    # Producers

    def create(self, ids: list[int], drafts: list[Draft], transaction_at: int) -> None:
        self.is_folded = False
        for message_id, draft in zip(ids, drafts, strict=True):
            at = transaction_at if draft.dequeue_at is None else draft.dequeue_at
            self.messages[message_id] = Message(
                message_id,
                draft.channel,
                draft.content,
                draft.headers,
                draft.max_attempts,
                transaction_at,
                at,
            )
            self.unfolded.add(message_id)

    # Consumers

    def fold(self) -> None:
        """Leases that ran out come back, each to its place."""
        for message in self.leases():
            if message.lease_end_at is not None and message.lease_end_at <= self.now:
                self._fail(message, RAN_OUT)
        self.unfolded.clear()
        self.is_folded = True

    def available(self, channel: str) -> int:
        """How many messages the channel may release now. Leases count until they end, however late."""
        policy = self.policy(channel)
        if policy.paused or self.ready_at(channel) > self.now:
            return 0
        available = len(self.due(channel))
        if policy.max_concurrency is not None:
            available = min(available, max(0, policy.max_concurrency - len(self.leases(channel))))
        return min(available, 1) if policy.release_interval_ms else available

    def lease(self, message_id: int, token: UUID, lease_ms: int, consumer: str | None) -> Message:
        message = self.messages[message_id]
        message.token = token
        message.lease_end_at = self.now + lease_ms
        message.consumer = consumer
        message.is_announced = self.policy(message.channel).max_concurrency is not None
        self.released_at[message.channel] = self.now
        self.unfolded.discard(message_id)
        return message

    def complete(self, message_id: int | None, token: UUID | None) -> str:
        message = self._held(message_id, token)
        if message is None:
            return self._missed(message_id)
        self.is_folded = False
        self._end_lease(message)
        del self.messages[message.id]
        self.completed.add(message.id)
        return "completed"

    def defer(
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
        self.is_folded = False
        if state is not None:
            message.state = state
        if error is not None:
            self._fail(message, error)
        else:
            self._end_lease(message)
            self.unfolded.add(message.id)
        if message.dead_at is not None:
            return "dead"
        if dequeue_at is not None:
            message.dequeue_at = dequeue_at
        return "deferred"

    def extend(self, message_id: int | None, token: UUID | None, lease_ms: int) -> tuple[str, int | None]:
        message = self._held(message_id, token)
        if message is None:
            return self._missed(message_id), None
        self.is_folded = False
        message.lease_end_at = max(message.lease_end_at or 0, self.now + lease_ms)
        return "extended", message.lease_end_at

    # Settings

    def channel_set(
        self, channel: str, max_concurrency: int | None, release_interval_ms: int | None, paused: bool | None
    ) -> None:
        self.is_folded = False
        policy = self.policies.setdefault(channel, Policy())
        if max_concurrency is not None:
            policy.max_concurrency = max_concurrency or None
        if release_interval_ms is not None:
            policy.release_interval_ms = release_interval_ms
        if paused is not None:
            policy.paused = paused

    def queue_set(
        self, content_max_bytes: int | None, lease_max_ms: int | None, max_attempts: int | None
    ) -> None:
        self.settings = Settings(
            content_max_bytes or self.settings.content_max_bytes,
            lease_max_ms or self.settings.lease_max_ms,
            max_attempts or self.settings.max_attempts,
        )

    def rebuild(self) -> None:
        """Changes nothing that a caller sees, but leaves all of it to be folded again."""
        self.is_folded = False

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

    def due(self, channel: str) -> list[Message]:
        return [message for message in self.waiting(channel) if message.dequeue_at <= self.now]

    def ready_at(self, channel: str) -> int:
        """When the release interval is over."""
        interval_ms = self.policy(channel).release_interval_ms
        if not interval_ms or channel not in self.released_at:
            return self.now
        return self.released_at[channel] + interval_ms

    def is_noticed(self, channel: str) -> bool:
        return self.noticed_at.get(channel, self.now) <= self.now

    def is_settled(self) -> bool:
        """Whether a dequeue now knows all there is to know."""
        return self.is_folded and all(map(self.is_noticed, self.noticed_at))

    def next_at(self) -> int | None:
        """When time alone lets a channel release something: a message's time, or the end of an interval."""
        times = [
            max(self.waiting(channel)[0].dequeue_at, self.ready_at(channel), self.now)
            for channel in self.channels()
            if self.waiting(channel) and not self.policy(channel).paused and not self.is_full(channel)
        ]
        return min(times, default=None)

    def is_full(self, channel: str) -> bool:
        limit = self.policy(channel).max_concurrency
        return limit is not None and len(self.leases(channel)) >= limit

    def _held(self, message_id: int | None, token: UUID | None) -> Message | None:
        message = None if message_id is None else self.messages.get(message_id)
        return message if message is not None and token is not None and message.token == token else None

    def _missed(self, message_id: int | None) -> str:
        return "lost" if message_id in self.messages or message_id in self.dead else "not_found"

    def _end_lease(self, message: Message) -> None:
        """A lease older than the limit it counts against ends unannounced. That is found out by looking."""
        message.token = message.lease_end_at = None
        if not message.is_announced and self.policy(message.channel).max_concurrency is not None:
            self.noticed_at[message.channel] = self.now + NOTICE_MS

    def _fail(self, message: Message, error: str) -> None:
        """The attempt is used up; after the last one the message is parked."""
        self._end_lease(message)
        message.attempts += 1
        message.error = error
        if message.attempts >= (message.max_attempts or self.settings.max_attempts):
            message.dead_at = self.now
            self.dead[message.id] = self.messages.pop(message.id)
        else:
            self.unfolded.add(message.id)
