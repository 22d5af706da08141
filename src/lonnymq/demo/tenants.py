"""The tenants of the demo and what each of them wants done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Connection

POISON = b"card declined"
POISON_ATTEMPTS = 2


@dataclass(frozen=True)
class Tenant:
    """A channel, how much it sends at once, and how many of its messages may be worked on at a time."""

    channel: str
    messages: int
    max_concurrency: int = 0
    poisoned: int = 0

    def contents(self) -> Iterator[bytes]:
        """The messages; a poisoned one fails at every attempt."""
        for number in range(self.messages):
            yield POISON if number < self.poisoned else f"{self.channel} {number}".encode()


TENANTS = (
    Tenant("acme", 300),
    Tenant("bluebird", 60, poisoned=1),
    Tenant("corner-shop", 30, max_concurrency=1),
)


def send(conn: Connection[Any], tenants: Sequence[Tenant]) -> None:
    """Send everything, one tenant after the other: a plain queue would serve it in this order."""
    for tenant in tenants:
        if tenant.max_concurrency:
            conn.execute(
                "SELECT channel_set(%s, p_max_concurrency => %s)", [tenant.channel, tenant.max_concurrency]
            )
        contents = list(tenant.contents())
        conn.execute(
            "SELECT message_create_many(%s::TEXT[], %s::BYTEA[], p_max_attempts => %s::INT[])",
            [[tenant.channel] * len(contents), contents, [POISON_ATTEMPTS] * len(contents)],
        )
