"""Where a page of names begins that has those with a prefix."""

from __future__ import annotations

import sys

SURROGATES = range(0xD800, 0xE000)
"""Code points that are no characters."""


def just_before(prefix: str) -> str:
    """A text after which the names with this prefix come, and next to nothing else; by code points.

    >>> just_before("acme") < "acme"
    True
    """
    last = ord(prefix[-1])
    if last <= 1:  # nothing comes before it but the shorter text
        return prefix[:-1]
    before = SURROGATES.start - 1 if last - 1 in SURROGATES else last - 1
    return f"{prefix[:-1]}{chr(before)}{chr(sys.maxunicode)}"
