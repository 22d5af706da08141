"""The options of a handler."""

from __future__ import annotations

from dataclasses import dataclass, field

from lonnymq.client.produce import check_work_options
from lonnymq.client.times import milliseconds
from lonnymq.errors import InvalidArgument
from lonnymq.message_options import DEFAULT_CHANNEL, Duration, TaskOptions
from lonnymq.worker.backoff import Backoff, Delays


@dataclass(frozen=True)
class HandlerPolicy:
    """`channel` and `options` are put on new messages, unless the call gives its own.

    With `max_failures`, an attempt that raises is the last one if so many were made, whatever attempts the
    message has left: those are for workers that die.
    """

    channel: str = DEFAULT_CHANNEL
    options: TaskOptions = field(default_factory=TaskOptions)
    backoff: Delays = field(default_factory=Backoff)
    timeout: Duration | None = None
    lease: Duration | None = None
    max_running: int | None = None
    max_failures: int | None = None

    def __post_init__(self) -> None:
        check_work_options(self.options)
        if not callable(self.backoff):
            milliseconds(self.backoff)
        if self.max_running is not None and (type(self.max_running) is not int or self.max_running < 1):
            raise InvalidArgument(
                f"max_running: {self.max_running!r} is not a whole number of 1 or more",
                "give an int, such as 2",
            )
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
