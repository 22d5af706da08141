"""What a bench measures with, and how much it writes at the most."""

from __future__ import annotations

from dataclasses import dataclass

BATCHES = (1, 50, 500)
"""Messages a call."""
ROUNDS = 3
"""Each rate is measured so often, in turns with the others; the median counts."""
MESSAGES, OCTETS = 200_000, 256 * 1024 * 1024
"""That the rates are measured with, whichever is reached first. A call is always made whole."""
COMMITS, LONE, NOISY, QUIET = 200, 200, 1_000, 30
BRIEFLY_S = 0.3
STARTING_S, STARTING_POOLED_S = 3, 13
"""To install and remove; through a pooler a lone message, and there are a few, takes its time."""
MOST_OCTETS = 1024**3


@dataclass(frozen=True)
class Terms:
    clients: int = 2
    channels: int = 20
    seconds: float = 2.0
    content_bytes: int = 100

    @property
    def turn_s(self) -> float:
        """How long one rate is measured in one round."""
        return self.seconds / ROUNDS

    @property
    def brief_s(self) -> float:
        """How long something that needs no load is measured in one round."""
        return min(BRIEFLY_S, self.turn_s)

    def about_s(self, *, is_pooled: bool) -> int:
        rates, once = 2 * len(BATCHES) * self.seconds, 2 * self.seconds
        return round(
            rates + once + 2 * ROUNDS * self.brief_s + (STARTING_POOLED_S if is_pooled else STARTING_S)
        )

    def most_of_a_turn(self, batch: int) -> int:
        """Messages that a client creates in one."""
        turns = ROUNDS * len(BATCHES) * self.clients
        return max(batch, min(MESSAGES, OCTETS // max(1, self.content_bytes)) // turns)

    @property
    def most_messages(self) -> int:
        rates = sum(self.clients * (batch + ROUNDS * self.most_of_a_turn(batch)) for batch in BATCHES)
        return rates + (1 + ROUNDS) * COMMITS + (LONE + 1) + NOISY + QUIET

    @property
    def most_bytes(self) -> int:
        return self.most_messages * self.content_bytes
