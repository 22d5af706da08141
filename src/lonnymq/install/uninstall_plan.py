"""The statements that uninstall the queue: they drop what the installer's tables list, the tables of the
kombu transport, and nothing else.
"""

# ruff: noqa: S608 - what goes into the SQL was quoted by lonnymq.install.sql_text

from __future__ import annotations

from collections.abc import Sequence

from lonnymq.install.grants import drop_roles
from lonnymq.install.kombu_tables import drop_kombu_tables
from lonnymq.install.owned_objects import own_relations, own_routines
from lonnymq.install.plan import opening
from lonnymq.install.preconditions import refuse_missing
from lonnymq.install.sql_text import do_block
from lonnymq.schema_name import check_schema_name
from lonnymq.statement import identifier


def uninstall_plan(schema: str = "lonnymq") -> Sequence[str]:
    """The statements that drop what an installation of any release has created, and nothing else."""
    check_schema_name(schema)
    return [*opening(schema), refuse_missing(schema), *drop_kombu_tables(schema), _drop_all(schema)]


def _drop_all(schema: str) -> str:
    """Views use functions, functions use types and the row types of tables, and tables use types and may use
    functions. So before each kind of relation, the functions that nothing uses any more are dropped, and the
    rest at the end.
    """
    name = identifier(schema)
    return do_block(f"""
DECLARE
    v_schema_created BOOLEAN;
    v_roles BOOLEAN;
    v_routines REGPROCEDURE[];
    v_routine REGPROCEDURE;
    v_drops TEXT[];
    v_drop TEXT;
    v_role TEXT;
BEGIN
    SELECT i.schema_created, COALESCE(CAST(to_jsonb(i) ->> 'roles' AS BOOLEAN), FALSE)
    INTO STRICT v_schema_created, v_roles
    FROM {name}.installation i;
    v_routines := ARRAY(
        SELECT r.routine FROM ({own_routines(schema)}
        ) r ORDER BY r.routine
    );
    v_drops := ARRAY(
        SELECT format('DROP %s IF EXISTS ', k.name) || string_agg(CAST(r.relation AS TEXT), ', ')
        FROM ({own_relations(schema)}
        ) r
        JOIN (VALUES
            ('v', 1, 'VIEW'), ('r', 2, 'TABLE'), ('p', 2, 'TABLE'), ('c', 3, 'TYPE'), ('S', 4, 'SEQUENCE')
        ) AS k (kind, rank, name) ON k.kind = r.kind
        GROUP BY k.rank, k.name
        ORDER BY k.rank
    );
    FOREACH v_drop IN ARRAY v_drops LOOP
        FOR v_routine IN{_remaining_routines()} LOOP
            BEGIN
                EXECUTE 'DROP ROUTINE ' || v_routine;
            EXCEPTION WHEN dependent_objects_still_exist THEN
                NULL;
            END;
        END LOOP;
        EXECUTE v_drop;
    END LOOP;
    FOR v_routine IN{_remaining_routines()} LOOP
        EXECUTE 'DROP ROUTINE ' || v_routine;
    END LOOP;
    IF v_schema_created THEN
        BEGIN
            DROP SCHEMA {name};
        EXCEPTION WHEN dependent_objects_still_exist THEN
            NULL;
        END;
    END IF;
    IF v_roles THEN{drop_roles(schema)}
    END IF;
END""")


def _remaining_routines() -> str:
    return """
        SELECT p.oid FROM pg_catalog.pg_proc p WHERE p.oid = ANY (CAST(v_routines AS OID[])) ORDER BY p.oid"""
