"""The statements of an installation: plain SQL, made without a connection.

They are one transaction, so whatever stops it leaves the schema as it was. They begin with a lock, so of two
installations at once the second finds the work of the first done. Two tables keep the books: `migration` has
the steps that ran, `installation` (one row) the release of the functions and the clients that they serve.
"""

# ruff: noqa: S608 - what goes into the SQL was quoted by lonnymq.install.naming

from __future__ import annotations

from collections.abc import Sequence

import lonnymq
from lonnymq.install.files import Function, SqlFiles, Step, read
from lonnymq.install.naming import (
    check_schema_name,
    do_block,
    dollar_quoted,
    identifier,
    literal,
    text_array,
)
from lonnymq.install.refusals import (
    is_installed,
    refuse_isolation,
    refuse_missing,
    refuse_newer,
    refuse_occupied,
    refuse_occupied_books,
)

CONTRACT = 1
"""What a client of this release calls. It rises with every change of the SQL contract, additions too."""

OLDEST_CONTRACT = 1
"""The oldest client that the functions of this release serve. It rises when a call changes or goes away."""

_NOW = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"


def plan(
    schema: str = "lonnymq",
    sql_files: SqlFiles | None = None,
    *,
    release: str = lonnymq.__version__,
    contract: int = CONTRACT,
    oldest_contract: int = OLDEST_CONTRACT,
    must_exist: bool = False,
) -> Sequence[str]:
    """The statements that install into the schema, or bring what is there up to this release."""
    check_schema_name(schema)
    sql_files = sql_files or read()
    return [
        *opening(schema),
        *([refuse_missing(schema)] if must_exist else [refuse_occupied_books(schema), _create_books(schema)]),
        f"SET LOCAL search_path TO {identifier(schema)}, pg_temp",
        "SET LOCAL check_function_bodies TO off",
        refuse_newer(schema, sql_files.last_step, release, contract),
        refuse_occupied(schema, sql_files),
        *(_run_step(step, release) for step in sql_files.steps),
        *(function.text for function in sql_files.functions),
        _record(sql_files.functions, release, contract, oldest_contract),
    ]


def script(statements: Sequence[str]) -> str:
    """The statements as a file for psql."""
    head = ["BEGIN ISOLATION LEVEL READ COMMITTED", "SET LOCAL client_encoding TO 'UTF8'"]
    return "".join(f"{statement};\n\n" for statement in [*head, *statements]) + "COMMIT;\n"


def opening(schema: str) -> Sequence[str]:
    """Wait for other installations of the same schema, so as to see what they did."""
    lock = literal(f"lonnymq install {schema}")
    wait = f"\nBEGIN\n    PERFORM pg_advisory_xact_lock(hashtextextended({lock}, 0));\nEND"
    return [refuse_isolation(), do_block(wait)]


def _create_books(schema: str) -> str:
    name = identifier(schema)
    return do_block(f"""
DECLARE
    v_schema_created BOOLEAN := FALSE;
BEGIN
    IF {is_installed(schema)} THEN
        RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = {literal(schema)}) THEN
        CREATE SCHEMA {name};
        v_schema_created := TRUE;
    END IF;
    CREATE TABLE {name}.migration (
        step INT PRIMARY KEY,
        name TEXT NOT NULL,
        relations TEXT[] NOT NULL,
        release TEXT NOT NULL,
        applied_at BIGINT NOT NULL
    );
    CREATE TABLE {name}.installation (
        one BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (one),
        contract INT NOT NULL,
        oldest_contract INT NOT NULL,
        release TEXT NOT NULL,
        functions TEXT[] NOT NULL,
        schema_created BOOLEAN NOT NULL,
        applied_at BIGINT NOT NULL
    );
    INSERT INTO {name}.installation
        (contract, oldest_contract, release, functions, schema_created, applied_at)
    VALUES (0, 0, '0', '{{}}', v_schema_created, 0);
END""")


def _run_step(step: Step, release: str) -> str:
    return do_block(f"""
BEGIN
    IF NOT EXISTS (SELECT FROM migration WHERE step = {step.number}) THEN
        EXECUTE {dollar_quoted(chr(10) + step.text + chr(10), "step")};
        INSERT INTO migration (step, name, relations, release, applied_at)
        VALUES (
            {step.number}, {literal(step.name)}, {text_array(step.relations)}, {literal(release)},
            {_NOW}
        );
    END IF;
END""")


def _record(functions: Sequence[Function], release: str, contract: int, oldest_contract: int) -> str:
    """The functions of earlier releases stay on the list: what a step dropped, a removal does not find."""
    names = text_array([function.name for function in functions])
    return f"""UPDATE installation
SET contract = {contract},
    oldest_contract = {oldest_contract},
    release = {literal(release)},
    functions = ARRAY(SELECT DISTINCT f FROM unnest(functions || {names}) f ORDER BY f),
    applied_at = {_NOW}"""
