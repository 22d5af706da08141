"""The statements that remove an installation: what it made, as its books say, and nothing else."""

# ruff: noqa: S608 - what goes into the SQL was quoted by lonnymq.install.naming

from __future__ import annotations

from collections.abc import Sequence

from lonnymq.install.naming import check_schema_name, do_block, identifier, namespace
from lonnymq.install.plan import opening
from lonnymq.install.refusals import refuse_missing


def removal(schema: str = "lonnymq") -> Sequence[str]:
    """The statements that remove what an installation, of whichever release, has made, and nothing else."""
    check_schema_name(schema)
    return [*opening(schema), refuse_missing(schema), _remove(schema)]


def _remove(schema: str) -> str:
    """A table may lean on a function as a function on a table: what cannot go first goes after the tables."""
    name = identifier(schema)
    functions = f"""ARRAY(
        SELECT CAST(p.oid AS REGPROCEDURE)
        FROM pg_catalog.pg_proc p
        WHERE p.pronamespace = {namespace(schema)} AND p.proname = ANY (v_names)
        ORDER BY 1
    )"""
    return do_block(f"""
DECLARE
    v_names TEXT[];
    v_schema_created BOOLEAN;
    v_function REGPROCEDURE;
    v_drops TEXT[];
    v_drop TEXT;
BEGIN
    SELECT i.functions, i.schema_created INTO STRICT v_names, v_schema_created FROM {name}.installation i;
    v_drops := ARRAY(
        SELECT format('DROP %s IF EXISTS ', k.kind) || string_agg(CAST(CAST(c.oid AS REGCLASS) AS TEXT), ', ')
        FROM pg_catalog.pg_class c
        JOIN (VALUES ('v', 1, 'VIEW'), ('r', 2, 'TABLE'), ('p', 2, 'TABLE'), ('S', 3, 'SEQUENCE'))
          AS k (relkind, rank, kind) ON k.relkind = CAST(c.relkind AS TEXT)
        WHERE c.relnamespace = {namespace(schema)}
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
