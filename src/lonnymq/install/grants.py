"""Statements that grant and revoke privileges, so that those of lonnymq.install.roles remain."""

# ruff: noqa: S608 - what goes into the SQL was quoted by lonnymq.install.sql_text

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lonnymq.install.files import SqlFiles
from lonnymq.install.owned_objects import grantable_objects, own_relations, own_routines
from lonnymq.install.rights import stray_rights
from lonnymq.install.roles import (
    APPENDS_TO_STAGING,
    EXECUTES,
    MEMBER_OF_ALL,
    READS_VIEWS,
    ROLES,
    STAGING_COLUMNS,
    STAGING_TABLES,
    role_name,
    role_names,
)
from lonnymq.install.sql_text import do_block, literal, text_array
from lonnymq.statement import identifier


def protect(schema: str) -> str:
    """Revoke the privileges that lonnymq.install.rights calls stray, whether they come from PostgreSQL's
    defaults, the owner's default privileges or a GRANT. A GRANT on a public function or view stays. Also
    revoke the use of types from PUBLIC.
    """
    return do_block(f"""
DECLARE
    v_statement TEXT;
BEGIN
    FOR v_statement IN
        SELECT pg_catalog.format('REVOKE %s ON %s %s FROM %s CASCADE',
            s.privilege, s.kind, string_agg(s.object, ', '), s.grantee)
        FROM ({stray_rights(schema)}
        ) s
        WHERE (s.is_by_default OR NOT s.is_direct)
          AND (s.kind <> 'SCHEMA' OR (SELECT i.schema_created FROM installation i))
        GROUP BY s.kind, s.privilege, s.grantee
    LOOP
        EXECUTE v_statement;
    END LOOP;
    -- PostgreSQL lets everybody use the row type of a table for a column of a table of their own. The queue's
    -- table could then not be changed, and a partition not be dropped, until theirs is gone.
    FOR v_statement IN
        SELECT pg_catalog.format('REVOKE ALL ON TYPE %I.%I FROM PUBLIC', {literal(schema)}, t.typname)
        FROM ({grantable_objects(schema)}
            UNION
            SELECT r.relation FROM ({own_relations(schema)}
            ) r WHERE r.kind = 'c'
        ) g
        JOIN pg_catalog.pg_type t ON t.typrelid = g.relation
        WHERE EXISTS (
            SELECT FROM pg_catalog.aclexplode(COALESCE(t.typacl, pg_catalog.acldefault('T', t.typowner))) a
            WHERE a.grantee = 0)
    LOOP
        EXECUTE v_statement;
    END LOOP;
END""")


def grant(schema: str, sql_files: SqlFiles) -> Sequence[str]:
    """If roles are installed: create those that are missing, and grant all of them their privileges again."""
    if not role_names(schema):
        return []
    return [_create_roles(schema), _grant(schema, sql_files)]


def drop_roles(schema: str) -> str:
    """Part of a DO block: drop the roles, except those that another object, in any database, depends on."""
    return f"""
    FOR v_role IN SELECT r.rolname FROM pg_catalog.pg_roles r WHERE r.rolname = ANY ({_names(schema)}) LOOP
        IF EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = {literal(schema)}) THEN
            EXECUTE format('REVOKE ALL ON SCHEMA %I FROM %I', {literal(schema)}, v_role);
        END IF;
        BEGIN
            EXECUTE format('DROP ROLE %I', v_role);
        EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege OR object_in_use THEN
            NULL;
        END;
    END LOOP;"""


def _names(schema: str) -> str:
    return text_array(role_names(schema))


def _identifiers(names: Iterable[str]) -> str:
    return ", ".join(identifier(name) for name in names)


def _revoke_all(schema: str, grantees: str) -> str:
    """ON TABLE includes views and sequences, and revoking on a table also revokes on its columns."""
    return f"""
    FOR v_statement IN
        SELECT 'REVOKE ALL ON TABLE ' || string_agg(CAST(g.relation AS TEXT), ', ') || ' FROM '
        FROM ({grantable_objects(schema)}
        ) g
        UNION ALL
        SELECT 'REVOKE ALL ON ROUTINE ' || string_agg(CAST(r.routine AS TEXT), ', ') || ' FROM '
        FROM ({own_routines(schema)}
        ) r
        HAVING count(*) > 0
    LOOP
        EXECUTE v_statement || {literal(grantees)};
    END LOOP;"""


def _create_roles(schema: str) -> str:
    admin = role_name(schema, MEMBER_OF_ALL)
    return do_block(f"""
DECLARE
    v_role TEXT;
    v_statements TEXT[];
    v_statement TEXT;
BEGIN
    IF NOT (SELECT i.roles FROM installation i) THEN
        RETURN;
    END IF;
    SELECT r.rolname INTO v_role FROM pg_catalog.pg_roles r
    WHERE r.rolname = ANY ({_names(schema)}) AND (r.rolcanlogin OR r.rolsuper) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'LM105',
            MESSAGE = format('the role %I can log in or is a superuser', v_role),
            HINT = format(
                'rename it, or install into another schema: the roles of %I must not be able to log in',
                {literal(schema)}
            );
    END IF;
    v_statements := ARRAY(
        SELECT format('CREATE ROLE %I NOLOGIN', n.name)
        FROM unnest({_names(schema)}) WITH ORDINALITY AS n (name, place)
        WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = n.name)
        ORDER BY n.place
    ) || ARRAY(
        SELECT format('GRANT %I TO %I', n.name, {literal(admin)})
        FROM unnest({_names(schema)}) WITH ORDINALITY AS n (name, place)
        WHERE n.name <> {literal(admin)} AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_auth_members m
            JOIN pg_catalog.pg_roles r ON r.oid = m.roleid
            JOIN pg_catalog.pg_roles a ON a.oid = m.member
            WHERE r.rolname = n.name AND a.rolname = {literal(admin)}
        )
        ORDER BY n.place
    );
    FOREACH v_statement IN ARRAY v_statements LOOP
        BEGIN
            EXECUTE v_statement;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN
                NULL; -- roles are shared by all databases: another installation has just created it
            WHEN insufficient_privilege THEN
                RAISE EXCEPTION USING ERRCODE = 'LM105',
                    MESSAGE = format(
                        'role %I may not create the roles of schema %I', current_user, {literal(schema)}
                    ),
                    HINT = format('have an administrator run: %s;', array_to_string(v_statements, '; '));
        END;
    END LOOP;
END""")


def _grant(schema: str, sql_files: SqlFiles) -> str:
    roles = _identifiers(role_names(schema))
    return do_block(f"""
DECLARE
    v_statement TEXT;
BEGIN
    IF NOT (SELECT i.roles FROM installation i) THEN
        RETURN;
    END IF;{_revoke_all(schema, roles)}
    FOR v_statement IN
        SELECT format('GRANT EXECUTE ON ROUTINE %s TO %I', string_agg(CAST(r.routine AS TEXT), ', '), g.role)
        FROM (VALUES {_executes(schema, sql_files)}) AS g (role, functions)
        JOIN ({own_routines(schema)}
        ) r ON r.name = ANY (g.functions)
        GROUP BY g.role
    LOOP
        EXECUTE v_statement;
    END LOOP;
{_grant_views(schema, sql_files)}{_grant_staging(schema, sql_files)}
    GRANT USAGE ON SCHEMA {identifier(schema)} TO {roles};
    -- For a role that does not own the schema this is a warning, not an error.
    IF NOT (
        SELECT bool_and(has_schema_privilege(n.name, {literal(schema)}, 'USAGE'))
        FROM unnest({_names(schema)}) AS n (name)
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'LM105',
            MESSAGE = format('role %I may not grant rights on schema %I', current_user, {literal(schema)}),
            HINT = {literal(f"have its owner run: GRANT USAGE ON SCHEMA {identifier(schema)} TO {roles};")};
    END IF;
END""")


def _executes(schema: str, sql_files: SqlFiles) -> str:
    existing = {function.name for function in sql_files.functions}
    granted = {role: [name for name in EXECUTES[role] if name in existing] for role in ROLES}
    return ", ".join(
        f"({literal(role_name(schema, role))}, {text_array(names)})" for role, names in granted.items()
    )


def _grant_views(schema: str, sql_files: SqlFiles) -> str:
    if not sql_files.views:
        return ""
    views = _identifiers(view.name for view in sql_files.views)
    return f"    GRANT SELECT ON TABLE {views} TO {identifier(role_name(schema, READS_VIEWS))};\n"


def _grant_staging(schema: str, sql_files: SqlFiles) -> str:
    producer = identifier(role_name(schema, APPENDS_TO_STAGING))
    return "".join(
        f"    GRANT INSERT ({_identifiers(STAGING_COLUMNS)}) ON TABLE {table} TO {producer};\n"
        for table in STAGING_TABLES
        if any(table in step.relations for step in sql_files.steps)
    )
