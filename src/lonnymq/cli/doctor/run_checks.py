"""All checks, one after the other. They read, and change nothing."""

from __future__ import annotations

from lonnymq.cli.doctor.checks import Check, Finding, Patient, Status, warning
from lonnymq.cli.doctor.queue_checks import QUEUE_CHECKS, schema_version
from lonnymq.cli.doctor.server_checks import SERVER_CHECKS
from lonnymq.cli.failure import sentence
from lonnymq.errors import LonnyMQError

SCHEMA_CHECK = "schema"


def examine(patient: Patient) -> list[Finding]:
    """Run all the checks; those of the queue only where there is one that this package works with."""
    found = [_run(name, check, patient) for name, check in SERVER_CHECKS.items()]
    schema = _run(SCHEMA_CHECK, schema_version, patient)
    found.append(schema)
    if schema.status != Status.PROBLEM:
        found += [_run(name, check, patient) for name, check in QUEUE_CHECKS.items()]
    return found


def _run(name: str, check: Check, patient: Patient) -> Finding:
    """What a login may not look at, it is told; the other checks go on."""
    from psycopg import DatabaseError, OperationalError

    try:
        verdict = check(patient)
    except OperationalError:
        raise
    except (DatabaseError, LonnyMQError) as error:
        verdict = warning(f"not looked at: {sentence(error)}", "run doctor as the owner of the schema")
    return Finding(name, verdict.status, verdict.says, verdict.advice)
