"""Queries for the objects of an installation, as recorded in its tables, by whichever release."""

# ruff: noqa: S608 - what goes into the SQL was quoted by lonnymq.install.sql_text

from __future__ import annotations

from lonnymq.install.sql_text import namespace
from lonnymq.statement import identifier


def own_routines(schema: str) -> str:
    """All overloads of function names that this or an earlier release has used."""
    return f"""
        SELECT CAST(p.oid AS REGPROCEDURE) AS routine, CAST(p.proname AS TEXT) AS name
        FROM pg_catalog.pg_proc p
        WHERE p.pronamespace = {namespace(schema)}
          AND EXISTS (SELECT FROM {identifier(schema)}.installation i WHERE p.proname = ANY (i.functions))"""


def own_relations(schema: str) -> str:
    """The tables, types, sequences and views that were created by name. Objects that depend on them (indexes,
    partitions created at run time, the sequences of identity columns) are dropped with them.
    """
    name = identifier(schema)
    return f"""
        SELECT CAST(c.oid AS REGCLASS) AS relation, CAST(c.relname AS TEXT) AS name,
            CAST(c.relkind AS TEXT) AS kind
        FROM pg_catalog.pg_class c
        WHERE c.relnamespace = {namespace(schema)}
          AND (
              c.relname IN ('migration', 'installation')
              OR EXISTS (SELECT FROM {name}.migration m WHERE c.relname = ANY (m.relations))
              OR c.relkind = 'v' AND EXISTS (
                  SELECT FROM {name}.installation i
                  WHERE pg_catalog.jsonb_exists(pg_catalog.to_jsonb(i) -> 'views', c.relname)
              )
          )"""


def grantable_objects(schema: str) -> str:
    """All relations of the installation that privileges can be granted on, including partitions and
    sequences.
    """
    return f"""
        WITH RECURSIVE ours (relation) AS (
            SELECT r.relation FROM ({own_relations(schema)}
            ) r
            UNION
            SELECT CAST(d.objid AS REGCLASS)
            FROM ours o
            JOIN pg_catalog.pg_depend d
              ON d.refclassid = CAST('pg_catalog.pg_class' AS REGCLASS) AND d.refobjid = o.relation
             AND d.classid = d.refclassid AND d.deptype IN ('a', 'i')
        )
        SELECT o.relation
        FROM ours o
        JOIN pg_catalog.pg_class c ON c.oid = o.relation
        WHERE c.relkind IN ('r', 'p', 'v', 'S')"""
