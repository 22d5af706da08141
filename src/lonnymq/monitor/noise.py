"""Which channels are noisy. This is the only definition; `lonnymq top` and the metrics of workers use it.

The load of a channel is what it has in flight, plus what it has due, unless a pause or a limit of its own
holds that back: then it does not stand in anybody's way. A channel is noisy while another one waits, and its
load is

- more than a tenth of the load of all channels (as Amazon SQS has it for fair queues), and
- by a quarter and ten messages more than its part: the load of all channels, divided by weight among those
  that have a load.

The second condition is for the night, when few tenants are active: each of three equal tenants has more than
a tenth, and none of them is noisy. The ten messages are for a queue that is nearly empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

NOISY_SHARE = 0.1
NOISY_EXCESS = 1.25
NOISY_MESSAGES = 10


class Load(NamedTuple):
    """`is_waiting`: something is due that no limit of its own holds back."""

    channel: str
    messages: int
    weight: float
    is_waiting: bool


def noisy_channels(loads: Iterable[Load]) -> frozenset[str]:
    """The names of the noisy channels.

    >>> sorted(noisy_channels([Load("acme", 900, 1, True), Load("shop", 1, 1, True)]))
    ['acme']
    >>> noisy_channels([Load("acme", 900, 1, True)])  # nobody else waits
    frozenset()
    >>> noisy_channels([Load("acme", 500, 1, True), Load("shop", 500, 1, True)])  # none stands out
    frozenset()
    """
    active = [load for load in loads if load.messages > 0]
    total = sum(load.messages for load in active)
    weights = sum(load.weight for load in active)
    waiting = sum(load.is_waiting for load in active)
    return frozenset(
        load.channel
        for load in active
        if waiting > load.is_waiting
        and load.messages > NOISY_SHARE * total
        and load.messages > NOISY_EXCESS * total * load.weight / weights + NOISY_MESSAGES
    )
