"""The parameters of a benchmark, and how much it writes at most."""

from __future__ import annotations

from dataclasses import dataclass

BATCHES = (1, 50, 500)
"""Messages per call."""
ROUNDS = 3
"""Each rate is measured this often, taking turns with the others; the result is the median."""
RATE_MESSAGES, RATE_BYTES = 200_000, 256 * 1024 * 1024
"""Limits for measuring the rates: whichever is reached first. A call is never cut short."""
COMMIT_MESSAGES, LATENCY_MESSAGES, NOISY_BACKLOG, QUIET_MESSAGES = 200, 200, 1_000, 30
BRIEF_S = 0.3
SETUP_S, SETUP_POOLED_S = 3, 13
"""Time to install and uninstall. Through a pooler, the few messages that latency is measured with take
longer.
"""
MAX_BYTES = 1024**3


@dataclass(frozen=True)
class Parameters:
    clients: int = 2
    channels: int = 20
    seconds: float = 2.0
    payload_bytes: int = 100

    @property
    def turn_s(self) -> float:
        """How long one rate is measured per round."""
        return self.seconds / ROUNDS

    @property
    def brief_s(self) -> float:
        """How long a measurement without load takes per round."""
        return min(BRIEF_S, self.turn_s)

    def estimated_s(self, *, is_pooled: bool) -> int:
        rates, once = 2 * len(BATCHES) * self.seconds, 2 * self.seconds
        return round(rates + once + 2 * ROUNDS * self.brief_s + (SETUP_POOLED_S if is_pooled else SETUP_S))

    def messages_per_turn(self, batch: int) -> int:
        """Messages that each client may create while one rate is measured in one round."""
        turns = ROUNDS * len(BATCHES) * self.clients
        return max(batch, min(RATE_MESSAGES, RATE_BYTES // max(1, self.payload_bytes)) // turns)

    @property
    def max_messages(self) -> int:
        rates = sum(self.clients * (batch + ROUNDS * self.messages_per_turn(batch)) for batch in BATCHES)
        return (
            rates + (1 + ROUNDS) * COMMIT_MESSAGES + (LATENCY_MESSAGES + 1) + NOISY_BACKLOG + QUIET_MESSAGES
        )

    @property
    def max_bytes(self) -> int:
        return self.max_messages * self.payload_bytes
