"""The errors of the command line, and its exit codes.

0: success. 1: failure. 2: wrong usage. 3: the database could not be reached. 4: the schema is missing, or
this package does not work with it.
"""

from __future__ import annotations

from lonnymq import errors
from lonnymq.formatting import error_text


class NoAddress(errors.LonnyMQError):
    """No database was named."""


class BadAddress(errors.LonnyMQError):
    """The address of the database is malformed."""


class Unreachable(errors.LonnyMQError):
    """The database did not answer."""


class BadTarget(errors.LonnyMQError):
    """The argument does not name an app."""


class BrokenModule(errors.LonnyMQError):
    """The module of the app raised an exception when it was imported."""


class BadValue(errors.LonnyMQError):
    """The command does not accept this value of an argument or option."""


class BadLine(errors.LonnyMQError):
    """A line of the file cannot be enqueued. None of its lines was."""


class NotThere(errors.LonnyMQError):
    """The named channel or message does not exist, or the command does not apply to it."""


class NotConfirmed(errors.LonnyMQError):
    """The command needs a confirmation, and there is no terminal to ask for it."""


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
    "pyiceberg": "iceberg",
    **dict.fromkeys(("cron_descriptor", "fastapi", "jinja2", "starlette", "uvicorn"), "web"),
}
_CONNECTION_LOST = ("08", "57P")


def exit_code(error: Exception) -> int:
    """The exit code for an error that ended a command."""
    sqlstate = getattr(error, "sqlstate", None) or ""
    if sqlstate.startswith(_CONNECTION_LOST) or type(error).__name__ == "OperationalError":
        return UNREACHABLE
    return _CODES.get(type(error), FAILURE)


def sentence(error: Exception) -> str:
    """The error as one line."""
    if isinstance(error, ModuleNotFoundError) and error.name in _EXTRAS:
        return f"this needs {error.name} (pip install 'lonnymq[{_EXTRAS[error.name]}]')"
    return error_text(error)
