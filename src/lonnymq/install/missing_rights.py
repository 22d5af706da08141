"""Finds the privilege that a login lacks to install, upgrade, inspect or uninstall a queue."""

# ruff: noqa: S608 - what goes into the SQL was quoted by lonnymq.install.sql_text

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lonnymq.errors import NotPermitted
from lonnymq.install.sql_text import literal
from lonnymq.statement import identifier

if TYPE_CHECKING:
    from psycopg import Connection


def not_permitted(conn: Connection[Any], schema: str, message: str) -> NotPermitted:
    """The error for a call that PostgreSQL refused with this message, after it was rolled back."""
    from lonnymq.install.transaction import one, transaction

    with transaction(conn, schema) as cursor:
        found = one(cursor, _rights(schema))
    if found is None:
        return NotPermitted(message)
    role, database, may_create_schema, schema_exists, schema_owner, may_create_objects, owner, is_owner = (
        found
    )
    me, name = identifier(role), identifier(schema)
    if not schema_exists and not may_create_schema:
        return NotPermitted(
            f"{message}: role {me} may not create the schema {name}",
            f"have the owner of the database run: GRANT CREATE ON DATABASE {identifier(database)} TO {me};",
        )
    if owner is not None and not is_owner:
        return NotPermitted(
            f"{message}: the queue in schema {name} belongs to role {identifier(owner)}",
            "log in as that role",
        )
    if schema_exists and not may_create_objects:
        return NotPermitted(
            f"{message}: role {me} may not create anything in schema {name}",
            f"have its owner {identifier(schema_owner)} run: GRANT USAGE, CREATE ON SCHEMA {name} TO {me};",
        )
    return NotPermitted(f"{message}, as role {me}", "log in as the role that owns it")


def _rights(schema: str) -> str:
    return f"""
SELECT current_user, current_database(),
    pg_catalog.has_database_privilege(current_database(), 'CREATE'),
    n.oid IS NOT NULL, pg_catalog.pg_get_userbyid(n.nspowner),
    pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_schema_privilege(n.oid, 'CREATE'),
    pg_catalog.pg_get_userbyid(c.relowner), pg_catalog.pg_has_role(c.relowner, 'USAGE')
FROM (VALUES (1)) AS x (one)
LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = {literal(schema)}
LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = 'installation'"""
