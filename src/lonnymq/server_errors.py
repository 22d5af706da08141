"""Which error an answer of the server means, by its SQLSTATE or its text. This module imports no driver."""

from __future__ import annotations

import re

from lonnymq.errors import (
    LonnyMQError,
    NotPermitted,
    ReadOnlyDatabase,
    RetryTransaction,
    SchemaMissing,
    SchemaOutdated,
)


def _subclasses(base: type[LonnyMQError]) -> list[type[LonnyMQError]]:
    found = []
    for child in base.__subclasses__():
        found += [child, *_subclasses(child)]
    return found


BY_SQLSTATE: dict[str, type[LonnyMQError]] = {
    cls.sqlstate: cls for cls in _subclasses(LonnyMQError) if cls.sqlstate is not None
}


def from_sqlstate(code: str | None, message: str, hint: str | None = None) -> LonnyMQError | None:
    """The error for a SQLSTATE, or None if the SQLSTATE is not one of `BY_SQLSTATE`."""
    cls = BY_SQLSTATE.get(code or "")
    if cls is not None and hint is not None:
        hint = in_python(hint)
    if cls is not None and issubclass(cls, RetryTransaction):
        hint = "run the transaction again"
    if cls is ReadOnlyDatabase:
        hint = "connect to the primary; with target_session_attrs=read-write in the address, libpq finds it"
    return cls(message, hint) if cls else None


def in_python(hint: str) -> str:
    """A hint of a SQL function with the names that Python has: parameters without their prefix, durations
    without their unit.
    """
    return re.sub(r"\bp_(\w+?)(?:_ms)?\b", r"\1", hint).replace(" => TRUE", "=True").replace(" => ", "=")


def hint_to_connect(message: str) -> str:
    """What to do if a connection could not be opened, for this message of the server or of libpq."""
    if found := re.search(r'permission denied for database ("[^\n]+")', message):
        return f"have its owner run: GRANT CONNECT ON DATABASE {found[1]} TO this login;"
    if "authentication failed" in message:
        return "check the user and the password in the address"
    return "check that the database is up and that its address is right"


_INSTALL = "call queue.install() or run `lonnymq install`, or give the schema that it is installed in"
# The SQLSTATEs of a missing schema, table, function or privilege.
_MISSING: dict[str, tuple[type[LonnyMQError], str]] = {
    "3F000": (SchemaMissing, _INSTALL),
    "42P01": (SchemaMissing, _INSTALL),
    "42883": (SchemaOutdated, "run `lonnymq upgrade`, or `lonnymq install` if this schema has no queue"),
    "42501": (NotPermitted, "log in as a member of one of the queue's roles, or grant one to this login"),
}


def from_call(code: str, message: str, hint: str | None = None) -> LonnyMQError | None:
    """Like from_sqlstate, for the error of a call to the queue: what is missing is then part of the queue."""
    if code in _MISSING:
        cls, what_to_do = _MISSING[code]
        return cls(message, what_to_do)
    return from_sqlstate(code, message, hint)
