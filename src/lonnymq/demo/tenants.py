"""The tenants of the demo, and the messages each of them sends."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DemoTenant:
    """A channel: its backlog at the start, how many messages per second follow, how many of both fail, and
    its limits.
    """

    channel: str
    backlog: int = 0
    rate: float = 0
    urgent_rate: float = 0
    failing: int = 0
    failing_rate: float = 0
    max_concurrency: int = 0
    rate_limit: str = ""
    remark: str = ""


NOISY = DemoTenant("megacorp", backlog=20_000, remark="sends 20,000 at once, before the others")
SHOPS = ("acme", "bakery", "bluebird", "bookshop", "dentist", "florist", "garage", "gym")
OFFICES = ("hotel", "laundry", "library", "museum", "optician", "school", "tailor")

TENANTS = (
    NOISY,
    DemoTenant("corner-shop", backlog=40, rate=2, max_concurrency=1, remark="one at a time"),
    DemoTenant("newsletter", backlog=30, rate=1, rate_limit="5/s", remark="at most five per second"),
    DemoTenant("pharmacy", backlog=400, rate=5, urgent_rate=4, remark="some messages are urgent"),
    DemoTenant("startup", backlog=40, rate=3, failing=10, remark="some messages fail and are retried"),
    *(DemoTenant(name, backlog=10, rate=4) for name in SHOPS),
    *(DemoTenant(name, rate=3) for name in OFFICES),
)
