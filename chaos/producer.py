"""A producer: creates messages in bulk, in transactions of many kinds, until its quota is used up."""

import time
from typing import Any, LiteralString

from chaos.client import Client, Failed, RolledBack, Settings
from chaos.journal import wall_ms
from chaos.world import KEYS_PER_PRODUCER, PATIENT_ATTEMPTS, POISON_ATTEMPTS, chosen, content, is_poison

CREATE: LiteralString = (
    "SELECT result FROM message_create_many(%s::text[], %s::bytea[], %s::bigint[], NULL, %s::int[],"
    " %s::text[], FALSE, NULL, %s::int[], NULL, %s::text[], NULL, %s::bigint[])"
)
KEEP_KEY_MS = 3_600_000
DELAY_MAX_MS = 4000
OPEN_MAX_S = 1.5
TRIES, AGAIN_S = 500, 0.05  # of a create that is repeated until there is an answer


class Producer(Client):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.made = 0
        self._next_key = settings.number * KEYS_PER_PRODUCER
        self._started = time.monotonic()

    def step(self) -> None:
        if self.made >= self.settings.quota:
            self.is_stopping = True
            return
        self._keep_pace()
        chance = self.random.random()
        size = self.random.randint(self.settings.batch // 3, self.settings.batch)
        count = min(size, self.settings.quota - self.made)
        if chance < 0.08:
            self._create(count, is_keyed=True)
        elif chance < 0.2:
            self._create_in_transaction(count)
        else:
            self._create(count)

    def _keep_pace(self) -> None:
        """Sleep if this is ahead. A pause is made up for within seconds, not at once."""
        ahead = self.made / self.settings.per_second - (time.monotonic() - self._started)
        if ahead > 0:
            self.pause(min(ahead, 1.0))
        elif ahead < -5:
            self._started += -ahead - 5

    def _plan(self, count: int, *, is_keyed: bool) -> tuple[dict[str, Any], tuple[Any, ...]]:
        """What to note about these messages, and the parameters of the call that creates them."""
        first = self._next_key
        self._next_key += count
        keys = range(first, first + count)
        now = wall_ms()
        indexes = list(chosen(self.world, self.random, count))
        channels = [self.world.channels[i] for i in indexes]
        is_mixed = [channel.family == "mixed" for channel in channels]
        ats = [now + self._delay() if mixed else None for mixed in is_mixed]
        priorities = [self.random.choice((-5, 0, 0, 7)) if mixed else 0 for mixed in is_mixed]
        attempts = [
            POISON_ATTEMPTS if is_poison(channel, key) else PATIENT_ATTEMPTS
            for channel, key in zip(channels, keys, strict=True)
        ]
        facts = {"first": first, "channels": indexes, "ats": ats, "priorities": priorities, "keyed": is_keyed}
        parameters = (
            [channel.name for channel in channels],
            [content(key) for key in keys],
            ats,
            attempts,
            [f"key {key}" if is_keyed else None for key in keys],
            priorities,
            [channel.lane for channel in channels],
            [KEEP_KEY_MS if is_keyed else None] * count,
        )
        return facts, parameters

    def _delay(self) -> int:
        return self.random.choice((0, 0, -60_000, self.random.randrange(DELAY_MAX_MS)))

    def _create(self, count: int, *, is_keyed: bool = False) -> None:
        """With keys, repeat the call until there is an answer: each message must exist once."""
        facts, parameters = self._plan(count, is_keyed=is_keyed)
        tries = TRIES
        while True:
            try:
                with self.call("create", **facts) as call:
                    self._send(call.facts, parameters)
            except Failed:
                tries -= 1
                if not is_keyed or self.is_stopping or not tries:
                    raise
                self.pause(AGAIN_S)
                continue
            self.made += call.facts["made"]
            return

    def _create_in_transaction(self, count: int) -> None:
        """Commit, roll back, or stay open for a while first."""
        facts, parameters = self._plan(count, is_keyed=False)
        chance = self.random.random()
        with self.call("create", in_transaction=True, **facts) as call:
            self._send(call.facts, parameters)
            if chance < 0.2:
                self.pause(self.random.uniform(0.2, OPEN_MAX_S))
            if 0.1 < chance < 0.6:
                raise RolledBack
        if call.outcome == "ok":
            self.made += call.facts["made"]

    def _send(self, facts: dict[str, Any], parameters: tuple[Any, ...]) -> None:
        results = [result for (result,) in self.rows(CREATE, parameters)]
        facts["made"] = sum(result != "full" for result in results)
        facts["results"] = results[0] if len(set(results)) == 1 else results


def main() -> None:
    producer = Producer(Settings.from_arguments())
    producer.run(producer.step)


if __name__ == "__main__":
    main()
