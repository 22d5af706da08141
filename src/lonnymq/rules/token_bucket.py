"""The rate of a channel is a token bucket: each release takes a token, and one comes back per interval.

The bucket is described by the time at which it is full again. All times are in microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class TokenBucket:
    interval_us: int
    full_at_us: int = 0
    released_at_us: int | None = None

    def tokens(self, burst: int, at_us: int) -> int:
        """
        >>> TokenBucket(100, full_at_us=150).tokens(burst=3, at_us=0)
        1
        """
        missing_us = self.full_at_us - at_us
        return burst if missing_us <= 0 else burst - -(-missing_us // self.interval_us)

    def take(self, at_us: int) -> None:
        self.full_at_us = max(self.full_at_us, at_us) + self.interval_us
        self.released_at_us = at_us

    def token_at_us(self, burst: int) -> int:
        """From when on it has a token.

        >>> TokenBucket(100, full_at_us=350).token_at_us(burst=3)
        150
        """
        return self.full_at_us - (burst - 1) * self.interval_us


def changed_bucket(
    old: TokenBucket | None,
    interval_us: int | None,
    burst: int,
    last_us: int | None,
    now_us: int,
    *,
    is_own: bool,
) -> TokenBucket | None:
    """The bucket after the policy has changed. As many tokens are missing now as before, at most the burst;
    if the channel sets its limits itself, at least one since its last release. `last_us`: when the channel
    last released a message, with or without a rate.
    """
    known = [old.released_at_us if old else None, last_us]
    released_us = max((at for at in known if at is not None), default=None)
    if interval_us is None or released_us is None:
        return None
    if old is not None and old.interval_us == interval_us:
        return TokenBucket(interval_us, min(old.full_at_us, released_us + burst * interval_us), released_us)
    full_at_us = released_us + is_own * interval_us
    if old is not None:
        missing_us = -(-(old.full_at_us - now_us) * interval_us // old.interval_us)
        full_at_us = max(full_at_us, now_us + min(burst * interval_us, missing_us))
    return TokenBucket(interval_us, full_at_us, released_us)
