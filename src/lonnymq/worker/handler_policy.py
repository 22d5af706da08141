"""The options of a handler."""

from __future__ import annotations

from dataclasses import dataclass, field

from lonnymq.client.times import milliseconds
from lonnymq.errors import InvalidArgument, InvalidMaxAttempts
from lonnymq.message_options import DEFAULT_CHANNEL, Duration
from lonnymq.worker.backoff import Backoff, Delays


@dataclass(frozen=True)
class HandlerPolicy:
    """`channel` and `max_attempts` are put on new messages, unless the call gives its own."""

    channel: str = DEFAULT_CHANNEL
    max_attempts: int | None = None
    backoff: Delays = field(default_factory=Backoff)
    timeout: Duration | None = None
    lease: Duration | None = None

    def __post_init__(self) -> None:
        if self.max_attempts is not None and (type(self.max_attempts) is not int or self.max_attempts < 1):
            raise InvalidMaxAttempts(
                f"max_attempts: {self.max_attempts!r} is not a whole number of 1 or more", "give 1 or more"
            )
        if not callable(self.backoff):
            milliseconds(self.backoff)
        for name in ("timeout", "lease"):
            given: Duration | None = getattr(self, name)
            if given is not None and milliseconds(given) <= 0:
                raise InvalidArgument(
                    f"{name}: {given!r} is not a positive duration", "give more than 0 seconds"
                )

    @property
    def timeout_s(self) -> float | None:
        return None if self.timeout is None else milliseconds(self.timeout) / 1000

    @property
    def lease_s(self) -> float | None:
        return None if self.lease is None else milliseconds(self.lease) / 1000
