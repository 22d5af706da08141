"""Whether a message is admitted: dedupe keys, and how many messages a channel may have."""

from dataclasses import dataclass, field
from typing import NamedTuple

RECOUNT_MS = 1000


class Key(NamedTuple):
    holder: int
    until_at: int | None  # None while the message exists


@dataclass
class Admission:
    keys: dict[tuple[str, str], Key] = field(default_factory=dict)
    # Messages that were created before there was a max_size, and have left: the channel, and when.
    unannounced: list[tuple[str, int]] = field(default_factory=list)

    def holder(self, channel: str, key: str | None, now: int) -> int | None:
        held = self.keys.get((channel, key)) if key is not None else None
        return held.holder if held and (held.until_at is None or held.until_at > now) else None

    def take(self, channel: str, key: str | None, message_id: int) -> None:
        if key is not None:
            self.keys[channel, key] = Key(message_id, None)

    def finish(self, channel: str, key: str | None, message_id: int, until_at: int) -> None:
        if key is not None and self.keys[channel, key].holder == message_id:
            self.keys[channel, key] = Key(message_id, until_at)

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
