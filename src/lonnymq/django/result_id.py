"""The id of a result is a UUID of version 4 that contains the id of the message and 60 random bits.

A web site may show results to whoever has their id. The ids of messages are consecutive numbers, so random
bits keep others from guessing one. They are stored with the message, and compared when a result is read.

    3f8a91c2-5be1-4d07-8000-00000000002a   message 42 (2a), random bits 3f8a91c25be1 and d07
"""

from __future__ import annotations

import secrets
from uuid import UUID

KEY_BITS = 60
KEY_LOW_BITS = 12
MESSAGE_BITS = 62
VERSION = 4
VARIANT = 0b10


def new_key() -> str:
    """Random bits for a new result, in hexadecimal."""
    return f"{secrets.randbits(KEY_BITS):015x}"


def result_id(message_id: int, key: str) -> str:
    """
    >>> result_id(42, "3f8a91c25be1d07")
    '3f8a91c2-5be1-4d07-8000-00000000002a'
    """
    high, low = divmod(int(key, 16), 1 << KEY_LOW_BITS)
    number = ((high << 4 | VERSION) << KEY_LOW_BITS | low) << 64 | VARIANT << MESSAGE_BITS | message_id
    return str(UUID(int=number))


def parts_of(given: object) -> tuple[int, str] | None:
    """The id of the message and the key; None if it is not the id of a result.

    >>> parts_of("3f8a91c2-5be1-4d07-8000-00000000002a")
    (42, '3f8a91c25be1d07')
    >>> parts_of("123")
    """
    try:
        found = UUID(str(given))
    except ValueError:
        return None
    if found.version != VERSION:
        return None
    high, low = found.int >> 80, found.int >> 64 & (1 << KEY_LOW_BITS) - 1
    return found.int & (1 << MESSAGE_BITS) - 1, f"{high << KEY_LOW_BITS | low:015x}"


def message_id_of(given: str) -> int:
    """The id of the message of a result, as the command line and the dashboard show it.

    >>> message_id_of("3f8a91c2-5be1-4d07-8000-00000000002a")
    42
    """
    if (found := parts_of(given)) is None:
        raise ValueError(f"{given!r} is not the id of a result of LonnyMQ")
    return found[0]
