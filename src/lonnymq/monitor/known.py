"""Whether anything is known of a channel. A channel needs no creation: any name has statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lonnymq.channel_policy import POLICIES

if TYPE_CHECKING:
    from lonnymq.commands import ChannelStatistics


def is_known(found: ChannelStatistics) -> bool:
    """It has messages or a policy of its own, or something of it was served."""
    has_policy = found.paused or any(
        getattr(found, name) != part.usual and name not in found.inherited for name, part in POLICIES.items()
    )
    return bool(has_policy or found.waiting or found.leased or found.dead or found.served)
