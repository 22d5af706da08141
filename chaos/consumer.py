"""A consumer: leases batches and finishes them in every way there is, well and badly."""

import time
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

from chaos.client import Call, Client, RolledBack, Settings
from chaos.journal import wall_ms
from chaos.world import is_poison, key_of

DEQUEUE: LiteralString = (
    "SELECT id, channel, content, attempts, token, lease_end_at, again_at"
    " FROM message_dequeue(%s, %s, %s, '{default}', %s)"
)
COMPLETE_MANY: LiteralString = "SELECT result FROM message_complete_many(%s::bigint[], %s::uuid[])"
FORGOTTEN, LATE, EXTENDED = 0.01, 0.015, 0.03  # shares of the batches that are treated like this
IDLE_S = 0.03
LATE_S = 0.4  # how long after the end of its lease a stalled consumer goes on
SINGLES = 12  # how many messages are finished one by one


class Lease(NamedTuple):
    """The messages of one dequeue. `call` and `place` say in the journal which message is meant."""

    call: int
    place: int
    id: int
    token: UUID
    is_poison: bool


class Consumer(Client):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._indexes = {channel.name: i for i, channel in enumerate(self.world.channels)}
        self._free_at = time.monotonic()

    def step(self) -> None:
        self.attempt(lambda: self.rows("SELECT dispatch(2000)"))
        limit = self.random.choice((self.settings.batch, self.settings.batch, self.settings.batch, 10))
        leases = self._dequeue(limit)
        if not leases:
            self.pause(IDLE_S)
            return
        chance = 1.0 if self.is_draining else self.random.random()
        is_late = FORGOTTEN <= chance < FORGOTTEN + LATE
        if chance < FORGOTTEN:
            return  # the leases run out
        if is_late:
            self.pause(self.settings.lease_ms / 1000 + LATE_S)
        elif chance < FORGOTTEN + LATE + EXTENDED:
            self._extend(leases)
        self._finish(leases, is_late=is_late)
        self._keep_pace(len(leases))

    def _keep_pace(self, count: int) -> None:
        if self.is_draining:
            return
        self._free_at = max(self._free_at, time.monotonic() - 1) + count / self.settings.per_second
        ahead = self._free_at - time.monotonic()
        if ahead > 0:
            self.pause(min(ahead, 1.0))

    def _dequeue(self, limit: int) -> list[Lease]:
        """In a transaction that is rolled back or stays open now and then."""
        chance = 1.0 if self.is_draining else self.random.random()
        is_async = self.random.random() < 0.3
        facts = {"limit": limit, "lease_ms": self.settings.lease_ms, "async": is_async}
        leases: list[Lease] = []
        with self.call("dequeue", in_transaction=chance < 0.06, **facts) as call:
            leases = self._take(call, limit, is_async=is_async)
            if chance < 0.04:
                self.pause(self.random.uniform(0.05, 1.0))
            if chance < 0.03:
                raise RolledBack
        return leases if call.outcome == "ok" else []

    def _take(self, call: Call, limit: int, *, is_async: bool) -> list[Lease]:
        parameters = (limit, self.settings.lease_ms, self.settings.name, is_async)
        rows = [row for row in self.rows(DEQUEUE, parameters) if row[0] is not None]
        keys = [key_of(row[2]) for row in rows]
        channels = [self._indexes.get(row[1], -1) for row in rows]
        if rows:
            attempts = [row[3] for row in rows]
            call.facts |= {
                "got": len(rows),
                "lease_end": rows[0][5],
                "keys": keys,
                "ids": [row[0] for row in rows],
                "channels": channels,
                "attempts": 1 if set(attempts) == {1} else attempts,
            }
        return [
            Lease(call.number, place, row[0], row[4], self._is_poison(channels[place], keys[place]))
            for place, row in enumerate(rows)
        ]

    def _is_poison(self, channel: int, key: int | None) -> bool:
        return key is not None and channel >= 0 and is_poison(self.world.channels[channel], key)

    def _extend(self, leases: list[Lease]) -> None:
        """In the worst case just before the lease ends."""
        self.pause(self.random.uniform(0, self.settings.lease_ms / 1000))
        self._many(
            "extend",
            leases,
            "SELECT result FROM message_extend_many(%s::bigint[], %s::uuid[], %s)",
            self.settings.lease_ms,
            lease_ms=self.settings.lease_ms,
        )

    def _finish(self, leases: list[Lease], *, is_late: bool) -> None:
        poison = [lease for lease in leases if lease.is_poison]
        good = [lease for lease in leases if not lease.is_poison]
        if poison:
            self._many(
                "retry",
                poison,
                "SELECT result FROM message_retry_many(%s::bigint[], %s::uuid[], p_errors => %s::text[])",
                ["poison"] * len(poison),
                error=True,
            )
        is_single = is_late or (not self.is_draining and self.random.random() < 0.1)
        singles = good[:SINGLES] if is_single else []
        for lease in singles:
            self._finish_one(lease, is_late=is_late)
        many = good[len(singles) :]
        if many and not self.is_draining and self.random.random() < 0.02:
            self._complete_and_roll_back(many)
        if many:
            self._many("complete", many, COMPLETE_MANY)
        if many and self.random.random() < 0.02:
            self._many("complete", many, COMPLETE_MANY)  # a second time

    def _finish_one(self, lease: Lease, *, is_late: bool) -> None:
        chance = 1.0 if is_late else self.random.random()
        facts: dict[str, Any] = {"of": lease.call, "places": [lease.place]}
        if chance < 0.1:
            with self.call("retry", **facts) as call:
                [(call.facts["results"],)] = self.rows(
                    "SELECT message_retry(%s, %s)", (lease.id, lease.token)
                )
        elif chance < 0.2:
            at = wall_ms() + self.random.randint(0, 1000)
            with self.call("retry", retry_at=at, **facts) as call:
                [(call.facts["results"],)] = self.rows(
                    "SELECT message_retry(%s, %s, %s)", (lease.id, lease.token, at)
                )
        else:
            with self.call("complete", **facts) as call:
                [(call.facts["results"],)] = self.rows(
                    "SELECT message_complete(%s, %s)", (lease.id, lease.token)
                )

    def _complete_and_roll_back(self, leases: list[Lease]) -> None:
        ids, tokens = [lease.id for lease in leases], [lease.token for lease in leases]
        facts = {"of": leases[0].call, "places": [lease.place for lease in leases]}
        with self.call("complete", in_transaction=True, **facts) as call:
            call.facts["results"] = [row[0] for row in self.rows(COMPLETE_MANY, (ids, tokens))]
            raise RolledBack

    def _many(
        self, kind: str, leases: list[Lease], query: LiteralString, *parameters: Any, **facts: Any
    ) -> None:
        ids, tokens = [lease.id for lease in leases], [lease.token for lease in leases]
        places = [lease.place for lease in leases]
        with self.call(kind, of=leases[0].call, places=places, **facts) as call:
            results = [row[0] for row in self.rows(query, (ids, tokens, *parameters))]
            call.facts["results"] = results[0] if len(set(results)) == 1 else results


def main() -> None:
    consumer = Consumer(Settings.from_arguments())
    consumer.run(consumer.step)


if __name__ == "__main__":
    main()
