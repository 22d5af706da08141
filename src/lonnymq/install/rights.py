"""Finds privileges on an installation that nobody should have. The installer revokes them, `verify` raises an
error for them, and `doctor` lists them.

Only the owner has privileges on tables, partitions, sequences and internal functions; the queue's roles
have those in lonnymq.install.roles. Users may also grant public functions and views to their own roles. The
installer leaves such a grant alone, unless it comes from the owner's default privileges, which nobody
granted on purpose.
"""

# ruff: noqa: S608 - what goes into the SQL was quoted by lonnymq.install.sql_text

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lonnymq.install.owned_objects import grantable_objects, own_routines
from lonnymq.install.roles import (
    APPENDS_TO_STAGING,
    EXECUTES,
    READS_VIEWS,
    ROLES,
    STAGING_COLUMNS,
    STAGING_TABLES,
    role_name,
    role_names,
)
from lonnymq.install.sql_text import literal, namespace, text_array
from lonnymq.statement import identifier

SHOWN_MAX = 3


@dataclass(frozen=True)
class StrayRight:
    """A row of stray_rights. `is_direct`: on a public object, to one of the user's roles. `is_by_default`:
    from the owner's default privileges.
    """

    kind: str
    object: str
    grantee: str
    privilege: str
    is_direct: bool
    is_by_default: bool

    def __str__(self) -> str:
        return f"{self.grantee} has {self.privilege} on {self.object}"


@dataclass(frozen=True)
class StrangeOwner:
    """A row of strange_owners."""

    kind: str
    object: str
    owner: str
    should_be: str

    def __str__(self) -> str:
        return f"{self.object} belongs to {self.owner}"


def remedy(rights: Iterable[StrayRight], owners: Iterable[StrangeOwner] = ()) -> str:
    """The statements that revoke the privileges and correct the owners."""
    objects: dict[tuple[str, str, str], list[str]] = {}
    for right in rights:
        objects.setdefault((right.privilege, right.kind, right.grantee), []).append(right.object)
    return "; ".join(
        [
            f"REVOKE {privilege} ON {kind} {', '.join(names)} FROM {grantee} CASCADE"
            for (privilege, kind, grantee), names in objects.items()
        ]
        + [f"ALTER {owner.kind} {owner.object} OWNER TO {owner.should_be}" for owner in owners]
    )


def some_of(found: Sequence[object]) -> str:
    """The first few, and how many more there are."""
    shown = ", ".join(map(str, found[:SHOWN_MAX]))
    return f"{shown} and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else shown


def stray_rights(schema: str) -> str:
    """A query for privileges that are neither the owner's nor in lonnymq.install.roles. A privilege on a
    column is written as in GRANT and REVOKE: SELECT (name).
    """
    return f"""
        WITH found (kind, objtype, object, name, is_public, owner, grantee, privilege) AS (
            SELECT 'TABLE', CASE c.relkind WHEN 'S' THEN 'S' ELSE 'r' END,
                pg_catalog.format('%I.%I', CAST({literal(schema)} AS TEXT), c.relname),
                CAST(c.relname AS TEXT),
                c.relkind = 'v' AND a.privilege = 'SELECT', c.relowner, a.grantee,
                a.privilege || COALESCE(' (' || pg_catalog.quote_ident(CAST(a.attname AS TEXT)) || ')', '')
            FROM ({grantable_objects(schema)}
            ) g
            JOIN pg_catalog.pg_class c ON c.oid = g.relation
            CROSS JOIN LATERAL (
                SELECT x.grantee, x.privilege_type AS privilege, CAST(NULL AS NAME) AS attname
                FROM pg_catalog.aclexplode(c.relacl) x
                UNION ALL
                SELECT x.grantee, x.privilege_type, t.attname
                FROM pg_catalog.pg_attribute t CROSS JOIN LATERAL pg_catalog.aclexplode(t.attacl) x
                WHERE t.attrelid = c.oid
            ) a
            UNION ALL
            SELECT 'ROUTINE', 'f',
                pg_catalog.format('%I.%I(%s)', CAST({literal(schema)} AS TEXT), p.proname,
                    pg_catalog.pg_get_function_identity_arguments(p.oid)),
                CAST(p.proname AS TEXT), p.proname = ANY ({text_array(_public_functions())}), p.proowner,
                a.grantee, a.privilege_type
            FROM ({own_routines(schema)}
            ) r
            JOIN pg_catalog.pg_proc p ON p.oid = r.routine
            CROSS JOIN LATERAL pg_catalog.aclexplode(
                COALESCE(p.proacl, pg_catalog.acldefault('f', p.proowner))) a
            UNION ALL
            SELECT 'SCHEMA', 'n', pg_catalog.quote_ident(CAST(n.nspname AS TEXT)), CAST(n.nspname AS TEXT),
                a.privilege_type = 'USAGE', n.nspowner, a.grantee, a.privilege_type
            FROM pg_catalog.pg_namespace n
            CROSS JOIN LATERAL pg_catalog.aclexplode(n.nspacl) a
            WHERE n.oid = {namespace(schema)}
              AND (a.privilege_type <> 'USAGE'
                   OR (SELECT i.schema_created FROM {identifier(schema)}.installation i))
        ), ours (owner) AS (
            SELECT c.relowner FROM pg_catalog.pg_class c
            WHERE c.relnamespace = {namespace(schema)} AND c.relname = 'installation'
        )
        SELECT f.kind, f.object,
            CASE f.grantee WHEN 0 THEN 'PUBLIC'
                ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(f.grantee)) END AS grantee,
            f.privilege,
            f.grantee <> 0 AND f.is_public
                AND pg_catalog.pg_get_userbyid(f.grantee) <> ALL ({text_array(role_names(schema))})
                AS is_direct,
            EXISTS (
                SELECT FROM pg_catalog.pg_default_acl d
                CROSS JOIN LATERAL pg_catalog.aclexplode(d.defaclacl) x
                WHERE d.defaclrole = f.owner AND d.defaclnamespace IN (0, {namespace(schema)})
                  AND d.defaclobjtype = f.objtype AND x.grantee = f.grantee AND x.privilege_type = f.privilege
            ) AS is_by_default
        FROM found f CROSS JOIN ours
        WHERE f.grantee NOT IN (f.owner, ours.owner)
          AND NOT EXISTS (
              SELECT FROM (VALUES {_expected(schema)}) AS e (role, kind, name, privilege)
              WHERE e.role = pg_catalog.pg_get_userbyid(f.grantee) AND e.kind = f.kind
                AND e.privilege = f.privilege AND (e.name = f.name OR e.name IS NULL AND f.is_public)
                AND (SELECT i.roles FROM {identifier(schema)}.installation i)
          )
        ORDER BY is_direct, grantee, object, privilege"""


def strange_owners(schema: str) -> str:
    """A query for objects that belong to a role without the privileges of the installation's owner. The
    schema may also belong to a role that this owner was made a member of, as in refuse_shared.
    """
    return f"""
        SELECT x.kind, x.object, pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(x.owner)),
            pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(o.owner))
        FROM ({_objects(schema)}
            UNION ALL
            SELECT 'SCHEMA', pg_catalog.quote_ident(CAST(n.nspname AS TEXT)),
                CASE WHEN n.nspowner = CAST('pg_database_owner' AS REGROLE) THEN d.datdba ELSE n.nspowner END
            FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_database d ON d.datname = current_database()
            WHERE n.oid = {namespace(schema)}
        ) x
        CROSS JOIN (
            SELECT c.relowner AS owner FROM pg_catalog.pg_class c
            WHERE c.relnamespace = {namespace(schema)} AND c.relname = 'installation'
        ) o
        WHERE x.owner <> o.owner AND NOT pg_catalog.pg_has_role(x.owner, o.owner, 'USAGE')
          AND NOT (
              x.kind = 'SCHEMA' AND pg_catalog.pg_has_role(o.owner, x.owner, 'USAGE')
              AND NOT (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.oid = o.owner)
          )
        ORDER BY x.object"""


def objects_of_others(schema: str) -> str:
    """A query for objects that the current role may not change, because they belong to another one."""
    return f"""
        SELECT x.kind, x.object, pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(x.owner)),
            pg_catalog.quote_ident(current_user)
        FROM ({_objects(schema)}
        ) x
        WHERE NOT pg_catalog.pg_has_role(x.owner, 'USAGE')
        ORDER BY x.object"""


def _objects(schema: str) -> str:
    return f"""
            SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind,
                pg_catalog.format('%I.%I', CAST({literal(schema)} AS TEXT), c.relname) AS object,
                c.relowner AS owner
            FROM ({grantable_objects(schema)}
            ) g JOIN pg_catalog.pg_class c ON c.oid = g.relation
            UNION ALL
            SELECT 'ROUTINE', CAST(r.routine AS TEXT), p.proowner
            FROM ({own_routines(schema)}
            ) r JOIN pg_catalog.pg_proc p ON p.oid = r.routine"""


def _public_functions() -> list[str]:
    return sorted({name for names in EXECUTES.values() for name in names})


def _expected(schema: str) -> str:
    """The privileges of the queue's roles: role, kind, name (NULL for all public ones of the kind),
    privilege.
    """
    rows: list[tuple[str, str, str | None, str]] = [(READS_VIEWS, "TABLE", None, "SELECT")]
    rows += [(role, "ROUTINE", name, "EXECUTE") for role in ROLES for name in EXECUTES[role]]
    rows += [
        (APPENDS_TO_STAGING, "TABLE", table, f"INSERT ({column})")
        for table in STAGING_TABLES
        for column in STAGING_COLUMNS
    ]
    rows += [(role, "SCHEMA", schema, "USAGE") for role in ROLES]
    named = role_names(schema)
    return ", ".join(
        f"({literal(role_name(schema, role)) if named else 'NULL'}, {literal(kind)},"
        f" {'CAST(NULL AS TEXT)' if name is None else literal(name)}, {literal(privilege)})"
        for role, kind, name, privilege in rows
    )
