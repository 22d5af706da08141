"""Lists the channels whose names have a prefix, from pages that are in the order of names."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lonnymq.commands import ChannelStatistics

SURROGATES = range(0xD800, 0xE000)
"""Code points that are not characters."""


def cursor_before(prefix: str) -> str:
    """A cursor just before the first name with this prefix, in the order of code points.

    >>> cursor_before("acme") < "acme"
    True
    """
    last = ord(prefix[-1])
    if last <= 1:  # only the shorter text comes before it
        return prefix[:-1]
    before = SURROGATES.start - 1 if last - 1 in SURROGATES else last - 1
    return f"{prefix[:-1]}{chr(before)}{chr(sys.maxunicode)}"


def having_prefix(page: Iterable[ChannelStatistics], prefix: str) -> list[ChannelStatistics]:
    return [channel for channel in page if channel.channel.startswith(prefix)]
