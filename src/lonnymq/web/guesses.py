"""Limits how often a password can be guessed."""

from __future__ import annotations

import ipaddress
import time
from collections import Counter

WRONG_MAX = 20
"""So many wrong passwords per minute and network. More would be somebody who tries a list of them."""
MINUTE_S = 60.0
SITE_BITS = 48
NETWORKS_MAX = 10_000
"""The others are counted together, so that the counts do not fill the memory."""


class WrongPasswords:
    """Counts the wrong passwords of the last minute, by the network that they came from."""

    def __init__(self) -> None:
        self._count: Counter[str] = Counter()
        self._began = time.monotonic()

    def add(self, host: str | None) -> None:
        network = _network(host)
        is_known = network in self._count or len(self._count) < NETWORKS_MAX
        self._count[network if is_known else ""] += 1

    def wait_s(self, host: str | None) -> int:
        """For how long no further password of this network is looked at; 0: it is."""
        age = time.monotonic() - self._began
        if age >= MINUTE_S:
            self._count.clear()
            self._began, age = time.monotonic(), 0.0
        is_full = len(self._count) >= NETWORKS_MAX
        network = _network(host)
        counted = "" if is_full and network not in self._count else network
        return int(MINUTE_S - age) + 1 if self._count[counted] >= WRONG_MAX else 0


def _network(host: str | None) -> str:
    """One person can have all IPv6 addresses of a site, which may have 65,536 networks. Were these counted
    apart, they could guess from each, and fill the counts, so that all others are refused. A socket for both
    versions shows IPv4 addresses as IPv6 addresses of one network.

    >>> [_network(host) for host in ("10.0.0.7", "::ffff:10.0.0.7", "2001:db8::7", None)]
    ['10.0.0.7', '10.0.0.7', '2001:db8::/48', 'unknown']
    """
    try:
        address = ipaddress.ip_address(host or "")
    except ValueError:
        return "unknown"
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return str(ipaddress.ip_network((address, SITE_BITS), strict=False))
        address = address.ipv4_mapped
    return str(address)
