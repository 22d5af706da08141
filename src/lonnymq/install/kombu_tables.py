"""The tables of the kombu transport: queues, exchanges, bindings, and the messages of temporary queues.

They have a schema of their own, beside that of the queue. The transport creates them, and an uninstall of the
queue drops them.
"""

# ruff: noqa: S608 - what goes into the SQL was quoted by lonnymq.install.sql_text

from __future__ import annotations

from lonnymq.install.sql_text import do_block, literal
from lonnymq.schema_name import NAME_MAX_BYTES
from lonnymq.statement import identifier

SUFFIX = "_kombu"
SCHEMA_MAX_BYTES = NAME_MAX_BYTES - len(SUFFIX)
"""A queue whose schema has a longer name cannot have these tables."""

_TABLES = """
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.queue (
    name TEXT COLLATE "C" PRIMARY KEY,
    is_temporary BOOLEAN NOT NULL,
    expires_ms BIGINT NOT NULL,
    seen_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE IF NOT EXISTS {schema}.binding (
    exchange TEXT COLLATE "C" NOT NULL,
    routing_key TEXT COLLATE "C" NOT NULL,
    queue TEXT COLLATE "C" NOT NULL REFERENCES {schema}.queue ON DELETE CASCADE,
    type TEXT NOT NULL,
    PRIMARY KEY (exchange, routing_key, queue)
);
CREATE INDEX IF NOT EXISTS binding_queue_ix ON {schema}.binding (queue);
CREATE TABLE IF NOT EXISTS {schema}.message (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue TEXT COLLATE "C" NOT NULL REFERENCES {schema}.queue ON DELETE CASCADE,
    priority INT NOT NULL,
    content BYTEA NOT NULL
);
CREATE INDEX IF NOT EXISTS message_queue_ix ON {schema}.message (queue, priority DESC, id);
"""


def kombu_schema(queue_schema: str) -> str:
    return f"{queue_schema}{SUFFIX}"


def create_kombu_tables(queue_schema: str) -> str:
    return _TABLES.replace("{schema}", identifier(kombu_schema(queue_schema)))


UNTRUSTED_OWNER = """
SELECT pg_catalog.pg_get_userbyid(x.owner), current_user
FROM (
    SELECT n.nspowner AS owner FROM pg_catalog.pg_namespace n WHERE n.nspname = CAST($1 AS NAME)
    UNION
    SELECT c.relowner FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = CAST($1 AS NAME) AND c.relname IN ('queue', 'binding', 'message')
) x
JOIN pg_catalog.pg_roles o ON o.oid = x.owner
CROSS JOIN (SELECT * FROM pg_catalog.pg_roles WHERE rolname = current_user) me
WHERE NOT o.rolsuper AND NOT pg_catalog.pg_has_role(o.oid, me.oid, 'USAGE')
    AND NOT (pg_catalog.pg_has_role(me.oid, o.oid, 'USAGE') AND NOT me.rolsuper)
    AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = CAST($2 AS NAME) AND c.relname = 'installation' AND c.relowner = o.oid)
LIMIT 1"""
"""Finds a role that owns the schema of the transport or a table in it, and the current role. The owner's
triggers run with the rights of whoever writes to the tables. So the owner must be that of the queue, a
superuser, or a role that `install` would accept as the owner of the queue's schema.
"""


def drop_kombu_tables(queue_schema: str) -> list[str]:
    """The statement that drops the tables if all of them exist, and then their schema if it is empty; no
    statement if they cannot exist.
    """
    if len(queue_schema.encode()) > SCHEMA_MAX_BYTES:
        return []
    name = identifier(kombu_schema(queue_schema))
    not_owner = literal(f"must be owner of the tables of the kombu transport in schema {name}")
    return [
        do_block(f"""
DECLARE
    v_owners OID[] := ARRAY(
        SELECT c.relowner FROM pg_catalog.pg_class c
        WHERE c.relnamespace = to_regnamespace({literal(name)})
            AND c.relkind = 'r' AND c.relname IN ('queue', 'binding', 'message'));
BEGIN
    IF cardinality(v_owners) < 3 THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM unnest(v_owners) o WHERE NOT pg_has_role(o, 'USAGE')) THEN
        RAISE insufficient_privilege USING MESSAGE = {not_owner};
    END IF;
    DROP TABLE {name}.message, {name}.binding, {name}.queue;
    BEGIN
        DROP SCHEMA {name};
    EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
        NULL;
    END;
END""")
    ]
