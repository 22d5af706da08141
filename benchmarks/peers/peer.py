"""What a queue must offer to be measured."""

import random
import string
from dataclasses import dataclass
from typing import Literal, Protocol

import psycopg

SMALL = 11
LEASE_SECONDS = 30
MISSES = 50
PAUSE = "\\sleep 5 ms"  # of a consumer that got nothing

Commit = Literal["durable", "async"]
"""How a dequeue commits. Creates and completes are durable always."""


@dataclass(frozen=True)
class Script:
    """A pgbench script, and the variables that must stand before its first line."""

    text: str
    variables: tuple[tuple[str, str], ...] = ()

    def until_empty(self) -> "Script":
        """The same for a consumer that stops, by an error, once it got nothing many times in a row."""
        stop = f"\\set misses :misses + 1\n\\if :misses >= {MISSES}\nSELECT 1 / 0;\n\\endif\n{PAUSE}"
        text = self.text.replace(f"\\else\n{PAUSE}", f"\\set misses 0\n\\else\n{stop}")
        return Script(text, (*self.variables, ("misses", "0")))


class Peer(Protocol):
    name: str
    is_limited: bool
    """Every channel has a limit that does not bind."""
    meets_snapshot: bool
    """Somebody holds a snapshot open while it runs."""
    search_path: str
    table: str
    """Holds one row a message that is not finished; finishing one deletes its row."""
    sequence: str
    """Counts the messages that were created."""

    def install(self, dsn: str) -> None: ...

    def open_channels(self, conn: psycopg.Connection, channels: int) -> None:
        """Make what must be there before the first message of a channel."""

    def create(self, channels: int, content_bytes: int) -> Script:
        """One message, in its own transaction."""

    def create_many(self, channels: int, size: int, content_bytes: int) -> Script | None: ...

    def consume(self, size: int, commit: Commit) -> Script | None:
        """Dequeue, read the contents, complete; each a transaction of its own. None: it has no such call."""

    def fill(self, conn: psycopg.Connection, channels: int, messages: int, content_bytes: int) -> None: ...


def content(size: int) -> str:
    """Text that does not compress: else PostgreSQL would store large contents as small ones."""
    chance = random.Random(size)
    return "hello world" if size == SMALL else "".join(chance.choices(string.ascii_letters, k=size))


def commit_mode(commit: Commit) -> str:
    """A FROM item `mode` that sets how this very transaction commits, before what reads it is called."""
    setting = "on" if commit == "durable" else "off"
    return f"(SELECT set_config('synchronous_commit', '{setting}', TRUE) AS set OFFSET 0) mode"
