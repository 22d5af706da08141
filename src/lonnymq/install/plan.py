"""The statements of an installation: plain SQL, built without a connection.

They run in one transaction, so a failure leaves the schema as it was. They start with a lock, so the second
of two simultaneous installations finds the work of the first done. The installer has two tables:
`migration` has the steps that ran, and `installation` (one row) has the release of the functions, which
versions of clients may call them, and the names of functions and views.
"""

# ruff: noqa: S608 - what goes into the SQL was quoted by lonnymq.install.sql_text

from __future__ import annotations

from collections.abc import Sequence

from lonnymq.install.files import SqlFiles, Step, View, read
from lonnymq.install.grants import grant, protect
from lonnymq.install.preconditions import (
    is_installed,
    refuse_closed,
    refuse_isolation,
    refuse_missing,
    refuse_newer,
    refuse_occupied,
    refuse_occupied_installer_tables,
    refuse_shared,
)
from lonnymq.install.roles import check_role_names
from lonnymq.install.sql_text import (
    do_block,
    dollar_quoted,
    literal,
    namespace,
    text_array,
)
from lonnymq.schema_name import check_schema_name
from lonnymq.statement import identifier
from lonnymq.version import __version__

CONTRACT = 3
"""The version of the SQL functions that a client of this release calls. Raise it with every change, also when
a function is only added.
"""

OLDEST_CONTRACT = 3
"""The oldest version of clients that may call the functions of this release. Raise it when a function is
changed or removed.
"""

LOCK_TIMEOUT_MS = 800
"""How long a statement waits for a lock. Meanwhile later calls wait behind it. It is less than PostgreSQL's
default deadlock_timeout of a second, so that in a deadlock this transaction gives up first.
"""

INSTALLER_TABLES = {"migration", "installation"}
_NOW = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"


def plan(
    schema: str = "lonnymq",
    sql_files: SqlFiles | None = None,
    *,
    release: str = __version__,
    contract: int = CONTRACT,
    oldest_contract: int = OLDEST_CONTRACT,
    must_exist: bool = False,
    roles: bool = False,
) -> Sequence[str]:
    """The statements that install into the schema, or upgrade what is there to this release. With `roles`
    they create its roles. Once the roles exist, every later plan grants them their privileges again.
    """
    check_schema_name(schema)
    if roles:
        check_role_names(schema)
    sql_files = sql_files or read()
    return [
        *opening(schema),
        refuse_shared(schema),
        *(
            [refuse_missing(schema)]
            if must_exist
            else [refuse_occupied_installer_tables(schema), _create_installer_tables(schema)]
        ),
        refuse_shared(schema, is_new=True),  # somebody may have made the schema meanwhile
        f"SET LOCAL search_path TO {identifier(schema)}, pg_temp",
        "SET LOCAL check_function_bodies TO off",
        refuse_newer(schema, sql_files.last_step, release, contract),
        _add_installer_columns(schema),
        refuse_occupied(schema, sql_files),
        *(_run_step(step, release) for step in sql_files.steps),
        *(function.text for function in sql_files.functions),
        *(_replace_view(view) for view in sql_files.views),
        _record(sql_files, release, contract, oldest_contract, roles=roles),
        *([sql_files.settings] if sql_files.settings else []),
        protect(schema),
        *grant(schema, sql_files),
    ]


def script(statements: Sequence[str]) -> str:
    """The statements as a file for psql."""
    head = [
        "BEGIN ISOLATION LEVEL READ COMMITTED",
        "SET LOCAL client_encoding TO 'UTF8'",
        f"SET LOCAL lock_timeout TO {LOCK_TIMEOUT_MS}",
    ]
    return "".join(f"{statement};\n\n" for statement in [*head, *statements]) + "COMMIT;\n"


def opening(schema: str) -> Sequence[str]:
    """Wait for other installations of the same schema, to see what they did. The search_path makes sure
    that no function or operator of another schema is called.
    """
    wait = f"\nBEGIN\n    PERFORM pg_advisory_xact_lock({lock_key(schema)});\nEND"
    return [
        "SET LOCAL search_path TO pg_catalog, pg_temp",
        refuse_isolation(),
        do_block(wait),
        refuse_closed(schema),
    ]


def lock_key(schema: str) -> str:
    """An expression for the key of the advisory lock that an installation of the schema holds."""
    return f"pg_catalog.hashtextextended({literal(f'lonnymq install {schema}')}, 0)"


def _create_installer_tables(schema: str) -> str:
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


def _add_installer_columns(schema: str) -> str:
    """Add the columns that earlier releases do not have. The table is locked only if they are missing. Its
    row is always locked, to wait for credential_bind, which alters a function too.
    """
    return do_block(f"""
BEGIN
    PERFORM FROM installation FOR UPDATE;
    IF NOT EXISTS (
        SELECT FROM pg_catalog.pg_attribute a
        JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
        WHERE c.relnamespace = {namespace(schema)} AND c.relname = 'installation' AND a.attname = 'roles'
    ) THEN
        ALTER TABLE installation
            ADD COLUMN IF NOT EXISTS views TEXT[] NOT NULL DEFAULT '{{}}',
            ADD COLUMN IF NOT EXISTS roles BOOLEAN NOT NULL DEFAULT FALSE;
    END IF;
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


def _replace_view(view: View) -> str:
    """Replace a view only if it has changed, because that blocks its readers and waits for them. To compare,
    create a second view with the same text, and drop it.
    """
    name, other = identifier(view.name), identifier(f"{view.name} (new)")
    return do_block(f"""
BEGIN
    IF to_regclass({literal(name)}) IS NOT NULL THEN
        EXECUTE {dollar_quoted(view.renamed(other), "view")};
        IF (
            SELECT count(DISTINCT (pg_catalog.pg_get_viewdef(c.oid), c.reloptions)) = 1
            FROM pg_catalog.pg_class c
            WHERE c.oid IN (CAST({literal(name)} AS REGCLASS), CAST({literal(other)} AS REGCLASS))
        ) THEN
            DROP VIEW {other};
            RETURN;
        END IF;
        DROP VIEW {other};
    END IF;
    EXECUTE {dollar_quoted(view.text, "view")};
END""")


def _record(sql_files: SqlFiles, release: str, contract: int, oldest_contract: int, *, roles: bool) -> str:
    """The names of earlier releases stay in the lists, so that an uninstall drops what no step dropped."""
    functions = text_array([function.name for function in sql_files.functions])
    views = text_array([view.name for view in sql_files.views])
    return f"""UPDATE installation
SET contract = {contract},
    oldest_contract = {oldest_contract},
    release = {literal(release)},
    functions = ARRAY(SELECT DISTINCT f FROM unnest(functions || {functions}) f ORDER BY f),
    views = ARRAY(SELECT DISTINCT v FROM unnest(views || {views}) v ORDER BY v),
    roles = roles OR {str(roles).upper()},
    applied_at = {_NOW}"""
