"""What a command that failed says, and the code it ends with.

0 is success, 1 a failure, 2 a wrong use, 3 a database that was not reached, 4 a schema this package does not
work with.
"""

from __future__ import annotations

from lonnymq import errors


class NoAddress(errors.LonnyMQError):
    """No database was named."""


class BadAddress(errors.LonnyMQError):
    """The address of the database cannot be read."""


class Unreachable(errors.LonnyMQError):
    """The database did not answer."""


class BadTarget(errors.LonnyMQError):
    """What was named as an app is none."""


class BrokenModule(errors.LonnyMQError):
    """The module that should have an app raised something when it was imported."""


class BadValue(errors.LonnyMQError):
    """An argument or option is not one that the command takes."""


class BadLine(errors.LonnyMQError):
    """A line of a file cannot be queued. None of its lines was."""


class NotThere(errors.LonnyMQError):
    """What was named is not there, or is not what the command is for."""


class NotConfirmed(errors.LonnyMQError):
    """There was no one to ask."""


FAILURE, USAGE, UNREACHABLE, SCHEMA = 1, 2, 3, 4

_CODES: dict[type[Exception], int] = {
    NoAddress: UNREACHABLE,
    Unreachable: UNREACHABLE,
    errors.DatabaseUnreachable: UNREACHABLE,
    errors.ConnectionDropped: UNREACHABLE,
    errors.ReadOnlyDatabase: UNREACHABLE,
    BadAddress: USAGE,
    BadTarget: USAGE,
    BadValue: USAGE,
    NotConfirmed: USAGE,
    errors.InvalidSchemaName: USAGE,
    errors.SchemaMissing: SCHEMA,
    errors.SchemaOutdated: SCHEMA,
    errors.SchemaTooNew: SCHEMA,
}
_EXTRAS = {
    "typer": "cli",
    "rich": "cli",
    **dict.fromkeys(
        ("adbc_driver_postgresql", "deltalake", "matplotlib", "pgpq", "pyarrow", "pyspark"), "spark"
    ),
}
_CONNECTION_LOST = ("08", "57P")


def exit_code(error: Exception) -> int:
    """The code for an error that a command did not expect."""
    sqlstate = getattr(error, "sqlstate", None) or ""
    if sqlstate.startswith(_CONNECTION_LOST) or type(error).__name__ == "OperationalError":
        return UNREACHABLE
    return _CODES.get(type(error), FAILURE)


def sentence(error: Exception) -> str:
    """The error in one line."""
    if isinstance(error, ModuleNotFoundError) and error.name in _EXTRAS:
        return f"this needs {error.name} (pip install 'lonnymq[{_EXTRAS[error.name]}]')"
    diag = getattr(error, "diag", None)
    parts = [getattr(diag, f"message_{part}", None) for part in ("primary", "detail", "hint")]
    text = ". ".join(part for part in parts if part) or str(error)
    return " ".join(text.split()) or type(error).__name__
