"""The options `lanes`, `channels` and `channelPattern`: PostgreSQL returns only the rows that they choose."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import psycopg
from psycopg.sql import Literal

from lonnymq.spark.source_options import InvalidOption, SourceOptions

if TYPE_CHECKING:
    from lonnymq.spark.changes.change_view import Cursor

CHANNEL_OPTIONS = ("channels", "channelPattern")
FILTER_OPTIONS = ("lanes", *CHANNEL_OPTIONS)
CASE_FLAG = "(?i)"


@dataclass(frozen=True)
class MessageFilter:
    """Which lanes and channels are read; None: all of them."""

    lanes: tuple[str, ...] | None = None
    channels: tuple[str, ...] | None = None
    pattern: str | None = None
    """A regular expression of PostgreSQL that matches the whole name of a channel."""

    @classmethod
    def of(cls, options: SourceOptions) -> Self:
        options.not_both("channels", "channelPattern")
        return cls(options.names("lanes"), options.names("channels"), options.pattern("channelPattern"))

    def conditions(self) -> tuple[str, ...]:
        """For WHERE, on the columns `lane` and `channel`."""
        found = []
        if self.lanes is not None:
            found.append(f"lane IN ({_literals(self.lanes)})")
        if self.channels is not None:
            found.append(f"channel IN ({_literals(self.channels)})")
        if self.pattern is not None:
            found.append(f"channel ~ {_literals([self.whole_pattern()])}")
        return tuple(found)

    def whole_pattern(self) -> str:
        """The pattern, so that it matches whole names only. As pattern_whole in SQL, it keeps a leading (?i),
        which PostgreSQL accepts only at the beginning.
        """
        pattern = self.pattern or ""
        flag = CASE_FLAG if pattern.startswith(CASE_FLAG) else ""
        return f"{flag}^(?:{pattern.removeprefix(flag)})$"

    def check(self, cursor: Cursor) -> None:
        """Raise InvalidOption if the pattern is not a regular expression. Nothing is asked without one.

        The pattern is checked as it was given too: `a)|(b` is valid only after we put it into parentheses.
        """
        if self.pattern is None:
            return
        try:
            cursor.execute(
                f"SELECT '' ~ {_literals([self.pattern])}, '' ~ {_literals([self.whole_pattern()])}"
            )
        except psycopg.errors.InvalidRegularExpression as error:
            raise InvalidOption(
                f"channelPattern is {self.pattern!r}: {error.diag.message_primary}",
                "give a regular expression of PostgreSQL that matches whole names, such as acme-.*",
            ) from None


def _literals(values: Iterable[str]) -> str:
    return ", ".join(Literal(value).as_string() for value in values)
