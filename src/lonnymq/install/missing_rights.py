"""Finds the privilege that a login lacks to install, upgrade, inspect or uninstall a queue."""

# ruff: noqa: S608 - what goes into the SQL was quoted by lonnymq.install.sql_text

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lonnymq.errors import NotPermitted
from lonnymq.install.rights import StrangeOwner, objects_of_others, remedy, some_of
from lonnymq.install.sql_text import literal
from lonnymq.statement import identifier

if TYPE_CHECKING:
    from psycopg import Connection


def not_permitted(conn: Connection[Any], schema: str, message: str) -> NotPermitted:
    """The error for a call that PostgreSQL refused with this message, after it was rolled back."""
    from lonnymq.install.transaction import execute, one, transaction

    with transaction(conn, schema) as cursor:
        row = one(cursor, _rights(schema))
        found = None if row is None else Rights(*row)
        if found is None:
            return NotPermitted(message)
        is_ours = found.owner is not None and found.is_owner and found.may_use_schema
        others = [StrangeOwner(*row) for row in execute(cursor, objects_of_others(schema))] if is_ours else []
    reason, what_to_do = _missing(found, identifier(schema), others)
    return NotPermitted(f"{message}{reason}", what_to_do)


@dataclass(frozen=True)
class Rights:
    """What the role of a session may do: a row of _rights."""

    role: str
    database: str
    may_create_schema: bool
    may_use_plpgsql: bool
    schema_exists: bool
    schema_owner: str | None
    may_use_schema: bool | None
    may_create_objects: bool | None
    owner: str | None
    """The owner of the installation, if there is one."""
    is_owner: bool | None
    is_owner_superuser: bool | None


def _missing(found: Rights, schema: str, others: Sequence[StrangeOwner]) -> tuple[str, str]:
    """The right that is missing, and what to do."""
    me = identifier(found.role)
    if not found.may_use_plpgsql:
        reason = f": role {me} may not use the language plpgsql"
        grant = f"have an administrator run: GRANT USAGE ON LANGUAGE plpgsql TO {me};"
    elif not found.schema_exists and not found.may_create_schema:
        reason = f": role {me} may not create the schema {schema}"
        database = identifier(found.database)
        grant = f"have the owner of the database run: GRANT CREATE ON DATABASE {database} TO {me};"
    elif found.owner is not None and not found.is_owner:
        owner = identifier(found.owner)
        reason = f": the queue in schema {schema} belongs to role {owner}"
        grant = "log in as that role"
        if not found.is_owner_superuser:
            grant += f", or, if {me} is for deployments, have an administrator run: GRANT {owner} TO {me};"
    elif found.schema_exists and not (found.may_use_schema and found.may_create_objects):
        reason = f": role {me} may not create anything in schema {schema}"
        owner = identifier(found.schema_owner or "")
        grant = f"have its owner {owner} run: GRANT USAGE, CREATE ON SCHEMA {schema} TO {me};"
    elif others:
        reason = f": {some_of(others)}, and not to role {me}"
        grant = f"have an administrator run: {remedy([], others)};"
    else:
        reason, grant = f", as role {me}", "log in as the role that owns it"
    return reason, grant


def _rights(schema: str) -> str:
    return f"""
SELECT current_user, current_database(),
    pg_catalog.has_database_privilege(current_database(), 'CREATE'),
    COALESCE((
        SELECT pg_catalog.has_language_privilege(l.oid, 'USAGE')
        FROM pg_catalog.pg_language l WHERE l.lanname = 'plpgsql'
    ), TRUE),
    n.oid IS NOT NULL, pg_catalog.pg_get_userbyid(n.nspowner),
    pg_catalog.has_schema_privilege(n.oid, 'USAGE'), pg_catalog.has_schema_privilege(n.oid, 'CREATE'),
    pg_catalog.pg_get_userbyid(c.relowner), pg_catalog.pg_has_role(c.relowner, 'USAGE'),
    (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.oid = c.relowner)
FROM (VALUES (1)) AS x (one)
LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = {literal(schema)}
LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = 'installation'"""
