"""Whether a message is admitted: dedupe keys, and how many messages a channel may have."""

from collections.abc import Container
from dataclasses import dataclass, field
from typing import NamedTuple

RECOUNT_MS = 1000


class Key(NamedTuple):
    holder: int
    unique_for_ms: int | None  # None: the message holds it while it waits
    until_at: int | None  # None while the message exists


@dataclass
class Admission:
    keys: dict[tuple[str, str], Key] = field(default_factory=dict)
    # Messages that were created before there was a max_size, and have left: the channel, and when.
    unannounced: list[tuple[str, int]] = field(default_factory=list)

    def holder(self, channel: str, key: str | None, now: int, waiting: Container[int]) -> int | None:
        held = self.keys.get((channel, key)) if key is not None else None
        if held is None:
            return None
        if held.unique_for_ms is None:
            return held.holder if held.holder in waiting else None
        return held.holder if held.until_at is None or held.until_at > now else None

    def take(self, channel: str, key: str | None, message_id: int, unique_for_ms: int | None) -> None:
        if key is not None:
            self.keys[channel, key] = Key(message_id, unique_for_ms, None)

    def finish(self, channel: str, key: str | None, message_id: int, now: int) -> None:
        held = self.keys.get((channel, key)) if key is not None else None
        if key is not None and held is not None and held.holder == message_id:
            self.keys[channel, key] = held._replace(until_at=now + (held.unique_for_ms or 0))

    def answers(self, channel: str, size: int, max_size: int | None, now: int) -> set[str]:
        """The results that a create may get if no other message has its key.

        It never exceeds the limit. Messages from before the limit append no departure when they leave,
        so up to a second may pass before their room is used again.
        """
        if max_size is None or size < max_size - self._missed(channel, now):
            return {"created"}
        return {"full"} if size >= max_size else {"full", "created"}

    def forget(self, channel: str) -> None:
        self.keys = {place: key for place, key in self.keys.items() if place[0] != channel}

    def _missed(self, channel: str, now: int) -> int:
        return sum(1 for left, at in self.unannounced if left == channel and at > now - RECOUNT_MS)
