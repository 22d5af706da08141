"""Health: the checks of `lonnymq doctor`, and the numbers and versions that go with them."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from fastapi import APIRouter

from lonnymq.adapters.address import conninfo
from lonnymq.doctor.checks import CheckStatus, Database, Finding
from lonnymq.doctor.measures import Measures, measure
from lonnymq.doctor.run_checks import SCHEMA_CHECK, run_checks
from lonnymq.errors import DatabaseUnreachable
from lonnymq.server_errors import hint_to_connect
from lonnymq.version import __version__
from lonnymq.web.view import CurrentView

router = APIRouter(prefix="/health", tags=["health"])

TIMEOUT_MS = 10_000


@dataclass(frozen=True, slots=True)
class Health:
    """`status` is the worst of all findings."""

    status: CheckStatus
    findings: list[Finding]
    measures: Measures | None
    server: str
    package: str


@router.get("")
def read_health(view: CurrentView) -> Health:
    """Check the queue and its database. Changes nothing."""
    view.check()
    address = conninfo(view.queue.address() or "")
    options = f"-c statement_timeout={TIMEOUT_MS}"
    try:
        with psycopg.connect(address, autocommit=True, connect_timeout=5, options=options) as conn:
            db = Database(conn, view.queue.schema)
            findings = run_checks(db)
            has_schema = (
                next(one for one in findings if one.check == SCHEMA_CHECK).status != CheckStatus.PROBLEM
            )
            measures = measure(db) if has_schema else None
            server = db.setting("server_version")
    except psycopg.OperationalError as error:
        raise DatabaseUnreachable(str(error), hint_to_connect(str(error))) from error
    return Health(_worst(findings), findings, measures, server, __version__)


def _worst(findings: list[Finding]) -> CheckStatus:
    order = list(CheckStatus)
    return max((finding.status for finding in findings), key=order.index)
