"""Runs all checks, one after the other. They only read."""

from __future__ import annotations

from lonnymq.doctor.checks import Check, CheckStatus, Database, Finding, warning
from lonnymq.doctor.queue_checks import QUEUE_CHECKS, schema_version
from lonnymq.doctor.server_checks import SERVER_CHECKS
from lonnymq.errors import LonnyMQError
from lonnymq.formatting import error_text

SCHEMA_CHECK = "schema"


def run_checks(db: Database) -> list[Finding]:
    """Run all checks. Those of the queue need a schema that this package works with."""
    found = [_run(name, check, db) for name, check in SERVER_CHECKS.items()]
    schema = _run(SCHEMA_CHECK, schema_version, db)
    found.append(schema)
    if schema.status != CheckStatus.PROBLEM:
        found += [_run(name, check, db) for name, check in QUEUE_CHECKS.items()]
    return found


def _run(name: str, check: Check, db: Database) -> Finding:
    """A check that fails for lack of privileges becomes a warning; the other checks continue."""
    from psycopg import DatabaseError, OperationalError

    try:
        result = check(db)
    except OperationalError:
        raise
    except (DatabaseError, LonnyMQError) as error:
        result = warning(f"not checked: {error_text(error)}", "run doctor as the owner of the schema")
    return Finding(name, result.status, result.message, result.advice)
