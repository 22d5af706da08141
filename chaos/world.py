"""The channels of a run, with their shares of the messages and their policies."""

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b

SCHEMA = "lonnymq"
TASK_LANE, SPARK_LANE = "task", "spark"
POISON_ATTEMPTS = 3
PATIENT_ATTEMPTS = 10_000  # leases that run out under faults must not use these up
POISON_PER_MILLE = 20  # of the messages in mixed channels
FILLER = 40  # bytes
KEYS_PER_PRODUCER = 100_000_000
OPERATOR_KEYS = 5_000_000_000_000  # above those of all producers


@dataclass(frozen=True)
class Channel:
    """`family` says how its messages are made and judged. `share` is its part of all messages."""

    name: str
    family: str
    share: float
    weight: float = 1.0
    max_concurrency: int = 0
    interval_us: int = 0
    burst: int = 1
    max_size: int = 0

    @property
    def lane(self) -> str:
        return {"task": TASK_LANE, "spark": SPARK_LANE}.get(self.family, "default")


@dataclass(frozen=True)
class World:
    """`messages` within `seconds`: rates are chosen so that they bind, and still let everything through."""

    messages: int
    seconds: float
    lease_ms: int
    channels: list[Channel] = field(default_factory=list)

    @cached_property
    def names(self) -> list[str]:
        return [channel.name for channel in self.channels]

    @cached_property
    def shares(self) -> list[float]:
        return [channel.share for channel in self.channels]


def make_world(messages: int, seconds: float, lease_ms: int, *, with_spark: bool = False) -> World:
    """Eight channels compete and have most of the messages; the others are limited in one way each."""
    fair = [Channel(f"fair-{i}", "fair", 0.072, weight=(1, 1, 1, 1, 1, 1, 2, 3)[i]) for i in range(8)]
    mixed = [Channel(f"mixed-{i}", "mixed", 0.035) for i in range(4)]
    limited = [
        Channel(f"limited-{limit}", "limited", share, max_concurrency=limit)
        for limit, share in ((1, 0.001), (5, 0.01), (40, 0.04))
    ]
    rated = [
        Channel(
            f"rated-{i}", "rated", share, interval_us=_interval_us(messages * share, seconds), burst=burst
        )
        for i, (share, burst) in enumerate(((0.01, 1), (0.02, 30)))
    ]
    sized = [Channel("sized", "sized", 0.02, max_size=max(50, messages // 2000))]
    quiet = [Channel(f"quiet-{i}", "quiet", 0.0006) for i in range(20)]
    changed = [Channel(f"changed-{i}", "changed", 0.02) for i in range(4)]
    task = [Channel(f"task-{i}", "task", 0.01) for i in range(3)]
    spark = [Channel(f"spark-{i}", "spark", 0.015) for i in range(2 * with_spark)]
    channels = [*fair, *mixed, *limited, *rated, *sized, *quiet, *changed, *task, *spark]
    return World(messages, seconds, lease_ms, channels)


def _interval_us(messages: float, seconds: float) -> int:
    """A rate at which so many messages take half of the run."""
    return max(1000, int(seconds * 0.5 * 1_000_000 / max(messages, 1)))


def content(key: int) -> bytes:
    """The key of a message, a checksum, and bytes that follow from the key."""
    body = b"%d " % key + blake2b(b"%d" % key, digest_size=FILLER).digest()
    return b"%08x " % zlib.crc32(body) + body


def key_of(received: bytes) -> int | None:
    """The key, or None if the bytes are not those that were sent."""
    try:
        checksum, body = received[:8], received[9:]
        if int(checksum, 16) != zlib.crc32(body):
            return None
        return int(body.split(b" ", 1)[0])
    except ValueError:
        return None


def is_poison(channel: Channel, key: int) -> bool:
    return channel.family == "mixed" and zlib.crc32(b"poison %d" % key) % 1000 < POISON_PER_MILLE


def chosen(world: World, chance: random.Random, count: int) -> Sequence[int]:
    """The positions of the channels for so many messages."""
    return chance.choices(range(len(world.channels)), world.shares, k=count)
