"""The options of a data source, given as `.option(name, value)`: unknown names and wrong values are refused.

Spark passes names in lower case and values as text, and shows both in plans and logs: see `connection`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from lonnymq.errors import InvalidArgument
from lonnymq.message_options import TEXT_MAX_BYTES

CONNECTION = (
    "service",
    "dsnEnv",
    "dsn",
    "passfile",
    "host",
    "port",
    "dbname",
    "user",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "schema",
)
OF_SPARK = ("checkpointLocation", "queryName")
SECRETS = {"password", "sslpassword", "oauth_client_secret", "pgpassword"}
WITHOUT_SECRETS = "name a libpq service, a passfile, or with dsnEnv a variable that holds the address"
BOOLEANS = {"true": True, "false": False}
MAX_INTEGER = 2**63 - 1
DELAY = re.compile(r"([0-9]{1,12}) ?(ms|s|m|min|h|d)")
UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class InvalidOption(InvalidArgument):
    """A data source got an option that it does not have, or a value that the option does not accept."""


class SourceOptions:
    """The options of one reader or writer, by name in upper or lower case."""

    def __init__(self, given: Mapping[str, str], known: Iterable[str] = ()) -> None:
        """Refuse options that are neither `known` nor common to all formats."""
        ours = sorted([*known, *CONNECTION])
        self.given = {name.lower(): str(value) for name, value in given.items()}
        refuse_secrets(self.given)
        unknown = sorted(set(self.given) - {name.lower() for name in (*ours, *OF_SPARK)})
        if unknown:
            raise InvalidOption(f"there is no option {' or '.join(unknown)}", _meant(unknown, ours))
        for name in (*ours, *OF_SPARK):
            if "\0" in self.given.get(name.lower(), ""):
                raise InvalidOption(
                    f"{name} contains a NUL character", "PostgreSQL stores none: leave it out"
                )

    def __contains__(self, name: str) -> bool:
        return name.lower() in self.given

    def text(self, name: str, default: str | None = None) -> str | None:
        return self.given.get(name.lower(), default)

    def required(self, name: str, hint: str) -> str:
        value = self.text(name)
        if not value:
            raise InvalidOption(f"the option {name} is missing", hint)
        return value

    def integer(
        self,
        name: str,
        default: int | None = None,
        *,
        at_least: int = 1,
        at_most: int = MAX_INTEGER,
        hint: str | None = None,
    ) -> int | None:
        """`hint`: what to give instead of a value that is not a number."""
        value = self.text(name)
        if value is None:
            return default
        try:
            number = int(value)
        except ValueError:
            raise InvalidOption(f"{name} is {value!r}, which is not a whole number", hint) from None
        if not at_least <= number <= at_most:
            up_to = (
                f"a number from {at_least} to {at_most}" if at_most < MAX_INTEGER else f"at least {at_least}"
            )
            raise InvalidOption(f"{name} is {number}, which is out of range", f"give {up_to}")
        return number

    def boolean(self, name: str, *, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in BOOLEANS:
            raise InvalidOption(f"{name} is {value!r}, which is not a boolean", "give true or false")
        return BOOLEANS[value.lower()]

    def names(self, name: str) -> tuple[str, ...] | None:
        """Names of channels or lanes, separated by commas; None if the option is not given."""
        given = self.text(name)
        if given is None:
            return None
        names = tuple(one.strip() for one in given.split(","))
        if not all(names):
            raise InvalidOption(f"{name} is {given!r}, with an empty name", "separate names by commas")
        if any(len(one.encode(errors="replace")) > TEXT_MAX_BYTES for one in names):
            raise InvalidOption(
                f"{name} has a name of more than {TEXT_MAX_BYTES} bytes", "no channel or lane has such a name"
            )
        return names

    def pattern(self, name: str) -> str | None:
        """A regular expression, which only the server can check."""
        given = self.text(name)
        if given is None:
            return None
        if not given:
            raise InvalidOption(f"{name} is empty", "leave it out to read all channels")
        return given

    def delay_ms(self, name: str) -> int | None:
        """A duration such as 10s or 15m, in milliseconds."""
        given = self.text(name)
        if given is None:
            return None
        found = DELAY.fullmatch(given.strip().lower())
        if found is None:
            raise InvalidOption(
                f"{name} is {given!r}, which is not a duration", "give one such as 500ms, 10s, 15m or 2h"
            )
        return int(found[1]) * UNITS_MS[found[2]]

    def not_both(self, one: str, other: str) -> None:
        if one in self and other in self:
            raise InvalidOption(f"{one} and {other} exclude each other", "give one of them")

    def choice(self, name: str, choices: Iterable[str], default: str) -> str:
        """One of the choices, in the spelling that `choices` has."""
        spelled = {choice.lower(): choice for choice in choices}
        value = self.text(name, default) or ""
        if value.lower() not in spelled:
            raise InvalidOption(
                f"{name} is {value!r}, which is not a choice", f"give {' or '.join(spelled.values())}"
            )
        return spelled[value.lower()]


def _meant(unknown: Iterable[str], known: Sequence[str]) -> str:
    """The options with the most similar names first: the list of all is long."""
    spelled = {name.lower(): name for name in known}
    near = [spelled[found] for name in unknown for found in get_close_matches(name, spelled, n=1)]
    question = f"did you mean {' and '.join(near)}? The" if near else "the"
    return f"{question} options are {', '.join(known)}"


def refuse_secrets(names: Iterable[str]) -> None:
    for name in names:
        if name.lower() in SECRETS:
            raise InvalidOption(
                f"{name} must not be an option: Spark shows options in plans and logs", WITHOUT_SECRETS
            )
