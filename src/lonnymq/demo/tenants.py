"""The tenants of the demo and what each of them wants done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tenant:
    """A channel: what waits in it at the beginning, how many more come a second, and its limits."""

    channel: str
    backlog: int = 0
    rate: float = 0
    urgent_rate: float = 0
    failing: int = 0
    max_concurrency: int = 0
    release_interval: float = 0
    remark: str = ""


NOISY = Tenant("megacorp", backlog=20_000, remark="sends 20,000 at once, before anybody else")
SHOPS = ("acme", "bakery", "bluebird", "bookshop", "dentist", "florist", "garage", "gym")
OFFICES = ("hotel", "laundry", "library", "museum", "optician", "school", "tailor")

TENANTS = (
    NOISY,
    Tenant("corner-shop", backlog=40, rate=2, max_concurrency=1, remark="one at a time"),
    Tenant("newsletter", backlog=30, rate=1, release_interval=0.2, remark="at most five a second"),
    Tenant("pharmacy", backlog=400, rate=5, urgent_rate=4, remark="some of it is urgent"),
    Tenant("startup", backlog=40, rate=3, failing=10, remark="some of it fails, and is tried again"),
    *(Tenant(name, backlog=10, rate=4) for name in SHOPS),
    *(Tenant(name, rate=3) for name in OFFICES),
)
