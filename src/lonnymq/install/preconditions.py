"""Statements that stop an installation before it changes anything, each with a LonnyMQ SQLSTATE."""

# ruff: noqa: S608 - what goes into the SQL was quoted by lonnymq.install.sql_text

from __future__ import annotations

from lonnymq.install.files import SqlFiles
from lonnymq.install.sql_text import do_block, literal, namespace, text_array


def refuse_isolation() -> str:
    """Above READ COMMITTED, the work of an installation that this one waited for would stay invisible."""
    return do_block("""
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION USING ERRCODE = 'LM009',
            MESSAGE = 'an installation must run in READ COMMITTED',
            HINT = 'run it in a separate transaction';
    END IF;
END""")


def refuse_closed(schema: str) -> str:
    """A role without USAGE on the schema cannot see whether anything is in it."""
    return do_block(f"""
BEGIN
    IF EXISTS (
        SELECT FROM pg_catalog.pg_namespace n
        WHERE n.nspname = {literal(schema)} AND NOT has_schema_privilege(n.oid, 'USAGE')
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = format('permission denied for schema %I', {literal(schema)});
    END IF;
END""")


def is_installed(schema: str) -> str:
    """An expression: whether the schema has the tables of the installer."""
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


def refuse_occupied_installer_tables(schema: str) -> str:
    """The installer's tables must be LonnyMQ's, or not exist."""
    taken = f"""
        SELECT 'relation "' || c.relname || '"' AS taken
        FROM pg_catalog.pg_class c
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = {literal(schema)}
          AND c.relname IN ('installation', 'migration')
          AND NOT {is_installed(schema)}"""
    return _refuse_taken(schema, taken)


def refuse_missing(schema: str) -> str:
    return do_block(f"""
BEGIN
    IF NOT {is_installed(schema)} THEN
        RAISE EXCEPTION USING ERRCODE = 'LM101',
            MESSAGE = format('LonnyMQ is not installed in schema %I', {literal(schema)}),
            HINT = 'run `lonnymq install`, or give the schema that it is installed in';
    END IF;
END""")


def refuse_newer(schema: str, last_step: int, release: str, contract: int) -> str:
    def number(text: str) -> str:
        return f"CAST(string_to_array(substring({text} FROM '^[0-9]+(?:[.][0-9]+)*'), '.') AS INT[])"

    return do_block(f"""
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
            MESSAGE = format(
                'schema %I has LonnyMQ %s, newer than %s', {literal(schema)}, v_release, {literal(release)}
            ),
            HINT = format('upgrade the lonnymq package to >= %s', v_release);
    END IF;
END""")


def refuse_occupied(schema: str, sql_files: SqlFiles) -> str:
    """Names that are created for the first time must be free, so that no object of the user is replaced."""
    steps = [f"({step.number}, {text_array(step.relations)})" for step in sql_files.steps]
    pending = ", ".join(steps) or f"(0, {text_array([])})"
    taken = f"""
        SELECT 'relation "' || c.relname || '"' AS taken
        FROM (VALUES {pending}) AS s (step, relations)
        CROSS JOIN unnest(s.relations) AS r (relation)
        JOIN pg_catalog.pg_class c
          ON c.relname = r.relation AND c.relnamespace = {namespace(schema)}
        WHERE NOT EXISTS (SELECT FROM migration m WHERE m.step = s.step OR r.relation = ANY (m.relations))
        UNION ALL
        SELECT 'relation "' || c.relname || '"'
        FROM pg_catalog.pg_class c
        WHERE c.relname = ANY ({text_array([view.name for view in sql_files.views])})
          AND c.relnamespace = {namespace(schema)}
          AND NOT EXISTS (SELECT FROM installation i WHERE c.relname = ANY (i.views))
          AND NOT EXISTS (SELECT FROM migration m WHERE c.relname = ANY (m.relations))
        UNION ALL
        SELECT 'function "' || p.proname || '"'
        FROM pg_catalog.pg_proc p
        WHERE p.proname = ANY ({text_array([function.name for function in sql_files.functions])})
          AND p.pronamespace = {namespace(schema)}
          AND NOT EXISTS (SELECT FROM installation i WHERE p.proname = ANY (i.functions))"""
    return _refuse_taken(schema, taken)


def _refuse_taken(schema: str, taken: str) -> str:
    return do_block(f"""
DECLARE
    v_taken TEXT;
BEGIN
    SELECT t.taken INTO v_taken FROM ({taken}
    ) t LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'LM104',
            MESSAGE = format('schema %I has a %s that is not LonnyMQ''s', {literal(schema)}, v_taken),
            HINT = 'install into another schema';
    END IF;
END""")
