"""The statements of an installation: plain SQL, made without a connection.

They are one transaction, so whatever stops it leaves the schema as it was. The first statement takes a lock, so of
two installations at once the second finds the work of the first done. Two tables keep the books: `migration` has
the steps that ran, `installation` (one row) says which release the functions are of and which clients it serves.
"""

from __future__ import annotations

from collections.abc import Sequence

import lonnymq
from lonnymq.install.files import Function, SqlFiles, Step, read
from lonnymq.install.naming import check_schema_name, dollar_quoted, identifier, literal, text_array

CONTRACT = 1
"""What a client of this release calls. It rises with every change of the SQL contract, additions too."""

OLDEST_CONTRACT = 1
"""The oldest client that the functions of this release still serve. It rises when a call changes or goes away."""

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
        _refuse_missing(schema) if must_exist else _create_books(schema),
        f"SET LOCAL search_path TO {identifier(schema)}, pg_temp",
        "SET LOCAL check_function_bodies TO off",
        _refuse_newer(schema, sql_files.last_step, release, contract),
        _refuse_occupied(schema, sql_files),
        *(_run_step(step, release) for step in sql_files.steps),
        *(function.text for function in sql_files.functions),
        _record(sql_files.functions, release, contract, oldest_contract),
    ]


def removal(schema: str = "lonnymq") -> Sequence[str]:
    """The statements that remove what an installation, of whichever release, has made, and nothing else."""
    check_schema_name(schema)
    return [*opening(schema), _refuse_missing(schema), _remove(schema)]


def script(statements: Sequence[str]) -> str:
    """The statements as a file for psql."""
    head = ["BEGIN ISOLATION LEVEL READ COMMITTED", "SET LOCAL client_encoding TO 'UTF8'"]
    return "".join(f"{statement};\n\n" for statement in [*head, *statements]) + "COMMIT;\n"


def opening(schema: str) -> Sequence[str]:
    """Wait for other installations of the same schema, and see what they did."""
    isolation = """
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION USING ERRCODE = 'LM009',
            MESSAGE = 'an installation runs in READ COMMITTED only',
            HINT = 'run it in a transaction of its own';
    END IF;
END"""
    return [
        _do(isolation),
        f"SELECT pg_advisory_xact_lock(hashtextextended({literal('lonnymq install ' + schema)}, 0))",
    ]


def is_installed(schema: str) -> str:
    """An expression: whether the schema holds the books of an installation."""
    return f"""(
        SELECT count(*) = 6
        FROM pg_catalog.pg_attribute a
        JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = {literal(schema)}
          AND c.relkind = 'r'
          AND (c.relname, a.attname) IN (
              ('installation', 'contract'), ('installation', 'functions'), ('installation', 'schema_created'),
              ('migration', 'step'), ('migration', 'relations'), ('migration', 'release')
          )
    )"""


def _do(body: str) -> str:
    return f"DO {dollar_quoted(body + chr(10), 'lonnymq')}"


def _namespace(schema: str) -> str:
    return f"CAST({literal(identifier(schema))} AS REGNAMESPACE)"


def _create_books(schema: str) -> str:
    name = identifier(schema)
    return _do(f"""
DECLARE
    v_schema_created BOOLEAN := FALSE;
    v_taken TEXT;
BEGIN
    IF {is_installed(schema)} THEN
        RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = {literal(schema)}) THEN
        CREATE SCHEMA {name};
        v_schema_created := TRUE;
    END IF;
    SELECT c.relname INTO v_taken
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = {literal(schema)} AND c.relname IN ('installation', 'migration')
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'LM104',
            MESSAGE = format('schema %I has a relation "%s" that is not LonnyMQ''s', {literal(schema)}, v_taken),
            HINT = 'install into a schema of its own';
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
    INSERT INTO {name}.installation (contract, oldest_contract, release, functions, schema_created, applied_at)
    VALUES (0, 0, '0', '{{}}', v_schema_created, 0);
END""")


def _refuse_missing(schema: str) -> str:
    return _do(f"""
BEGIN
    IF NOT {is_installed(schema)} THEN
        RAISE EXCEPTION USING ERRCODE = 'LM101',
            MESSAGE = format('there is no LonnyMQ in schema %I', {literal(schema)}),
            HINT = 'run `lonnymq install`, or name the schema it was installed into';
    END IF;
END""")


def _refuse_newer(schema: str, last_step: int, release: str, contract: int) -> str:
    def number(text: str) -> str:
        return f"CAST(string_to_array(substring({text} FROM '^[0-9]+(?:[.][0-9]+)*'), '.') AS INT[])"

    return _do(f"""
DECLARE
    v_release TEXT;
BEGIN
    SELECT i.release INTO v_release
    FROM installation i
    WHERE i.contract > {contract}
       OR {number("i.release")} > {number(literal(release))}
       OR EXISTS (SELECT FROM migration m WHERE m.step > {last_step});
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'LM103',
            MESSAGE = format('schema %I is of LonnyMQ %s, newer than %s', {literal(schema)}, v_release, {literal(release)}),
            HINT = format('upgrade the lonnymq package to >= %s', v_release);
    END IF;
END""")


def _refuse_occupied(schema: str, sql_files: SqlFiles) -> str:
    """Names we are about to make for the first time must be free: nothing of the user's is replaced."""
    steps = [f"({step.number}, {text_array(step.relations)})" for step in sql_files.steps]
    pending = ", ".join(steps) or "(0, CAST(ARRAY[] AS TEXT[]))"
    return _do(f"""
DECLARE
    v_taken TEXT;
BEGIN
    SELECT t.taken INTO v_taken
    FROM (
        SELECT 'relation "' || c.relname || '"' AS taken
        FROM (VALUES {pending}) AS s (step, relations)
        CROSS JOIN unnest(s.relations) AS r (relation)
        JOIN pg_catalog.pg_class c
          ON c.relname = r.relation AND c.relnamespace = {_namespace(schema)}
        WHERE NOT EXISTS (SELECT FROM migration m WHERE m.step = s.step OR r.relation = ANY (m.relations))
        UNION ALL
        SELECT 'function "' || p.proname || '"'
        FROM pg_catalog.pg_proc p
        WHERE p.proname = ANY ({text_array([function.name for function in sql_files.functions])})
          AND p.pronamespace = {_namespace(schema)}
          AND NOT EXISTS (SELECT FROM installation i WHERE p.proname = ANY (i.functions))
    ) t
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'LM104',
            MESSAGE = format('schema %I has a %s that is not LonnyMQ''s', {literal(schema)}, v_taken),
            HINT = 'install into a schema of its own';
    END IF;
END""")


def _run_step(step: Step, release: str) -> str:
    return _do(f"""
BEGIN
    IF NOT EXISTS (SELECT FROM migration WHERE step = {step.number}) THEN
        EXECUTE {dollar_quoted(chr(10) + step.text + chr(10), "step")};
        INSERT INTO migration (step, name, relations, release, applied_at)
        VALUES ({step.number}, {literal(step.name)}, {text_array(step.relations)}, {literal(release)}, {_NOW});
    END IF;
END""")


def _record(functions: Sequence[Function], release: str, contract: int, oldest_contract: int) -> str:
    """Functions of earlier releases stay on the list: those that a step dropped are no longer found, no more."""
    return f"""UPDATE installation
SET contract = {contract},
    oldest_contract = {oldest_contract},
    release = {literal(release)},
    functions = ARRAY(
        SELECT DISTINCT f FROM unnest(functions || {text_array([function.name for function in functions])}) f ORDER BY f
    ),
    applied_at = {_NOW}"""


def _remove(schema: str) -> str:
    """A table may lean on a function and a function on a table: what cannot go at first goes after the tables."""
    name = identifier(schema)
    functions = f"""ARRAY(
        SELECT CAST(p.oid AS REGPROCEDURE)
        FROM pg_catalog.pg_proc p
        WHERE p.pronamespace = {_namespace(schema)} AND p.proname = ANY (v_names)
        ORDER BY 1
    )"""
    return _do(f"""
DECLARE
    v_names TEXT[];
    v_schema_created BOOLEAN;
    v_function REGPROCEDURE;
    v_drops TEXT[];
    v_drop TEXT;
BEGIN
    SELECT i.functions, i.schema_created INTO STRICT v_names, v_schema_created FROM {name}.installation i;
    v_drops := ARRAY(
        SELECT 'DROP ' || k.kind || ' IF EXISTS ' || string_agg(CAST(CAST(c.oid AS REGCLASS) AS TEXT), ', ')
        FROM pg_catalog.pg_class c
        JOIN (VALUES ('v', 1, 'VIEW'), ('r', 2, 'TABLE'), ('p', 2, 'TABLE'), ('S', 3, 'SEQUENCE'))
          AS k (relkind, rank, kind) ON k.relkind = CAST(c.relkind AS TEXT)
        WHERE c.relnamespace = {_namespace(schema)}
          AND (
              c.relname IN ('migration', 'installation')
              OR EXISTS (SELECT FROM {name}.migration m WHERE c.relname = ANY (m.relations))
          )
        GROUP BY k.rank, k.kind
        ORDER BY k.rank
    );
    FOREACH v_function IN ARRAY {functions} LOOP
        BEGIN
            EXECUTE 'DROP ROUTINE ' || v_function;
        EXCEPTION WHEN dependent_objects_still_exist THEN
            NULL;
        END;
    END LOOP;
    FOREACH v_drop IN ARRAY v_drops LOOP
        EXECUTE v_drop;
    END LOOP;
    FOREACH v_function IN ARRAY {functions} LOOP
        EXECUTE 'DROP ROUTINE ' || v_function;
    END LOOP;
    IF v_schema_created THEN
        BEGIN
            DROP SCHEMA {name};
        EXCEPTION WHEN dependent_objects_still_exist THEN
            NULL;
        END;
    END IF;
END""")
