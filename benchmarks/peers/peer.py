"""What a queue must provide to be compared."""

import random
import string
from dataclasses import dataclass
from typing import Literal, Protocol

import psycopg

SMALL = 11
LEASE_SECONDS = 30
MISSES = 50
PAUSE = "\\sleep 5 ms"  # after a dequeue that found nothing

Commit = Literal["durable", "async"]
"""How a dequeue commits. Creates and completes always commit durably."""


@dataclass(frozen=True)
class Script:
    """A pgbench script, and the initial values of its variables."""

    text: str
    variables: tuple[tuple[str, str], ...] = ()

    def until_empty(self) -> "Script":
        """The same script, but it stops with an error after it found nothing many times in a row."""
        stop = f"\\set misses :misses + 1\n\\if :misses >= {MISSES}\nSELECT 1 / 0;\n\\endif\n{PAUSE}"
        text = self.text.replace(f"\\else\n{PAUSE}", f"\\set misses 0\n\\else\n{stop}")
        return Script(text, (*self.variables, ("misses", "0")))


class Peer(Protocol):
    name: str
    has_limits: bool
    """Whether every channel has a limit, one that is never reached."""
    has_held_snapshot: bool
    """Whether another session holds a snapshot open during the run."""
    search_path: str
    table: str
    """Has one row per unfinished message."""
    sequence: str
    """The sequence of message ids, which counts the created messages."""

    def install(self, dsn: str) -> None: ...

    def open_channels(self, conn: psycopg.Connection, channels: int) -> None:
        """Create what a channel needs before its first message."""

    def create(self, channels: int, content_bytes: int) -> Script:
        """Create one message, in its own transaction."""

    def create_many(self, channels: int, size: int, content_bytes: int) -> Script | None: ...

    def consume(self, size: int, commit: Commit) -> Script | None:
        """Dequeue, read the content, complete, each in its own transaction. None if it has no such call."""

    def fill(self, conn: psycopg.Connection, channels: int, messages: int, content_bytes: int) -> None: ...


def content(size: int) -> str:
    """Text that does not compress; otherwise PostgreSQL would store large content as small."""
    chance = random.Random(size)
    return "hello world" if size == SMALL else "".join(chance.choices(string.ascii_letters, k=size))


def commit_mode(commit: Commit) -> str:
    """A FROM item `mode` that sets how this transaction commits, before the call that refers to it."""
    setting = "on" if commit == "durable" else "off"
    return f"(SELECT set_config('synchronous_commit', '{setting}', TRUE) AS set OFFSET 0) mode"
