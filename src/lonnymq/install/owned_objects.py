"""What the books of an installation call its own, as queries. They work with books of whichever release."""

# ruff: noqa: S608 - what goes into the SQL was quoted by lonnymq.install.sql_text

from __future__ import annotations

from lonnymq.install.sql_text import namespace
from lonnymq.statement import identifier


def our_routines(schema: str) -> str:
    """The routines: every overload of a name that this or an earlier release gave a function."""
    return f"""
        SELECT CAST(p.oid AS REGPROCEDURE) AS routine, CAST(p.proname AS TEXT) AS name
        FROM pg_catalog.pg_proc p
        WHERE p.pronamespace = {namespace(schema)}
          AND EXISTS (SELECT FROM {identifier(schema)}.installation i WHERE p.proname = ANY (i.functions))"""


def our_relations(schema: str) -> str:
    """The tables, types, sequences and views that were made by name. What hangs on them (indexes, partitions
    made at run time, the sequences of identity columns) goes with them.
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


def our_grantables(schema: str) -> str:
    """Everything of ours in pg_class that rights can be given on, partitions and owned sequences included."""
    return f"""
        WITH RECURSIVE ours (relation) AS (
            SELECT r.relation FROM ({our_relations(schema)}
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
