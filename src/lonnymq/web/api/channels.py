"""The list of channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from lonnymq.monitor.order import Order, page_in_order
from lonnymq.monitor.rates import ServedHistory
from lonnymq.monitor.state import ChannelState, QueueSnapshot
from lonnymq.web.access import Right
from lonnymq.web.api.parameters import Prefix
from lonnymq.web.channel_row import ChannelRow, own_row_of, own_snapshot, row_of
from lonnymq.web.errors import AccessDenied
from lonnymq.web.view import CurrentView, View

router = APIRouter(prefix="/channels", tags=["channels"])

NUL = "\0"
OWN_SORTED = 200
"""A person's own channels are read one by one. If there are more, they are only listed by name."""


@dataclass(frozen=True, slots=True)
class ChannelPage:
    """`found` is how many channels have the prefix. If `is_complete` is false, not all channels have been
    read yet, but `read` of them.
    """

    channels: list[ChannelRow]
    sort: Order
    found: int
    read: int
    is_complete: bool


@router.get("")
def list_channels(
    view: CurrentView,
    sort: Order = Order.NOISY,
    prefix: Prefix = "",
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> ChannelPage:
    """A page of channels, as of the last poll."""
    if view.access.channels is not None:
        return _own_channels(view, view.access.channels, sort, prefix, offset, limit)
    view.check()
    summary = view.live.summary()
    snapshot = summary.snapshot
    read = len(snapshot.channels)
    if prefix and not snapshot.is_complete and NUL not in prefix:
        snapshot = _with_prefix(view, snapshot, prefix, limit)
    found = page_in_order(snapshot, sort, limit, offset, prefix)
    names = snapshot.channels
    view.live.look_at([channel.name for channel in found])
    return ChannelPage(
        [row_of(summary, channel) for channel in found],
        sort,
        sum(name.startswith(prefix) for name in names) if prefix else len(names),
        read,
        snapshot.is_complete,
    )


def _with_prefix(view: View, snapshot: QueueSnapshot, prefix: str, limit: int) -> QueueSnapshot:
    """The polls have not read all channels yet: read some with this prefix now."""
    found = view.queue.channels(prefix=prefix, limit=limit)
    new = {
        stats.channel: ChannelState(stats, ServedHistory(), rate=None, is_backlogged=False) for stats in found
    }
    return QueueSnapshot(
        snapshot.poll,
        snapshot.at,
        snapshot.queue,
        snapshot.history,
        new | dict(snapshot.channels),
        snapshot.is_complete,
        snapshot.polls_per_pass,
    )


def _own_channels(
    view: View, own: frozenset[str], sort: Order, prefix: str, offset: int, limit: int
) -> ChannelPage:
    if Right.READ not in view.access.rights:
        raise AccessDenied(f"{view.access.who} may not see this: the right 'read' is missing", None)
    names = sorted(name for name in own if name.startswith(prefix))
    if len(names) > OWN_SORTED:
        sort = Order.NAME
        snapshot = own_snapshot(view, names[offset : offset + limit])
        found = page_in_order(snapshot, sort, limit)
    else:
        found = page_in_order(own_snapshot(view, names), sort, limit, offset)
    rows = [own_row_of(channel) for channel in found]
    return ChannelPage(rows, sort, len(names), len(own), is_complete=True)
