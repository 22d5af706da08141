"""Dispatch new messages, and wait for them."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.answers import OneRecord, YesOrNo
from lonnymq.statement import BigInt, Int, Text, Texts, command


@command
class Dispatch(YesOrNo):
    """Place new messages and decide what is served next. True means that there is more to do.

    Call it in a transaction of its own. Its commit does not wait for the disk: whatever builds on it commits
    later, so a crash undoes both.
    """

    function = "dispatch"
    is_harmless = True

    limit: Int = 1000
    quiet_ms: Int = 0


@command
class ChannelsDispatch(YesOrNo):
    """Make ready the next messages of certain channels, for a consumer of these channels only. Give their
    names, or a regular expression for whole names. True means that there is more to do.
    """

    function = "channels_dispatch"
    is_harmless = True

    channels: Texts | None
    pattern: Text | None = None
    lanes: Texts | None = None
    limit: Int = 1000


@dataclass(frozen=True, slots=True)
class Awaited:
    """Unless `is_sure`, look again and call again after a few milliseconds."""

    generation: int
    is_sure: bool


@command
class SleepBegin(OneRecord[Awaited]):
    """Register that a consumer is about to sleep."""

    function = "sleep_begin"
    is_harmless = True
    record = Awaited

    generation: BigInt | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """If nothing `is_due`, sleep until `again_at`. Producers notify only if `is_awaited`."""

    is_due: bool
    again_at: int
    is_awaited: bool
    now_at: int


@command
class SleepLook(OneRecord[Look]):
    """Tell a sleeping consumer whether there is something to do. Without `lanes`, all lanes count."""

    function = "sleep_look"
    is_harmless = True
    record = Look

    generation: BigInt | None = None
    lanes: Texts | None = None
