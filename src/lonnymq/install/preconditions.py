"""Statements that stop an installation before it changes anything, each with a LonnyMQ SQLSTATE."""

# ruff: noqa: S608 - what goes into the SQL was quoted by lonnymq.install.sql_text

from __future__ import annotations

from lonnymq.install.files import SqlFiles
from lonnymq.install.sql_text import do_block, literal, namespace, text_array

# The roles that own the schema `n` or something in it, or may create something in it. Role 0 is PUBLIC. The
# members of pg_database_owner are the owner of the database.
_OWNERS = (
    "SELECT '%s owns' AS what, n.nspowner AS role",
    "SELECT '%s owns objects in', c.relowner FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid",
    "SELECT '%s owns objects in', p.proowner FROM pg_catalog.pg_proc p WHERE p.pronamespace = n.oid",
    "SELECT '%s owns objects in', o.oprowner FROM pg_catalog.pg_operator o WHERE o.oprnamespace = n.oid",
    "SELECT '%s owns objects in', t.typowner FROM pg_catalog.pg_type t WHERE t.typnamespace = n.oid",
)
_MAY_CREATE = (
    "SELECT '%s may create objects in', a.grantee FROM pg_catalog.aclexplode(n.nspacl) a"
    " WHERE a.privilege_type = 'CREATE'"
)


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


def refuse_shared(schema: str, *, is_new: bool = False) -> str:
    """Whoever may create functions, operators or triggers in the schema can run code with the rights of the
    queue's functions, and of this installation. So these roles must have the rights of the installing role,
    or be roles that it was made a member of. A superuser is a member of every role, and was made a member of
    none.

    With `is_new`, the schema may be one that this transaction made, with the owner's default privileges.
    """
    shared_with = " UNION ".join([*_OWNERS, *([] if is_new else [_MAY_CREATE])])
    return do_block(f"""
DECLARE
    v_other RECORD;
BEGIN
    SELECT s.what, CASE s.role WHEN 0 THEN 'PUBLIC'
        ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(s.role)) END AS role INTO v_other
    FROM (
        SELECT x.what,
            CASE WHEN x.role = CAST('pg_database_owner' AS REGROLE) THEN d.datdba ELSE x.role END AS role
        FROM pg_catalog.pg_namespace n
        CROSS JOIN LATERAL ({shared_with}) x
        JOIN pg_catalog.pg_database d ON d.datname = current_database()
        WHERE n.nspname = {literal(schema)}
    ) s
    CROSS JOIN (SELECT * FROM pg_catalog.pg_roles WHERE rolname = current_user) me
    WHERE s.role = 0 OR NOT pg_has_role(s.role, me.oid, 'USAGE')
        AND NOT (pg_has_role(s.role, 'USAGE') AND NOT me.rolsuper)
    LIMIT 1;
    IF FOUND AND EXISTS (
        SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = {literal(schema)} AND c.relname = 'installation'
          AND NOT pg_has_role(c.relowner, 'USAGE')
    ) THEN                                  -- a queue of somebody else: see missing_rights
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = format('permission denied for schema %I', {literal(schema)});
    ELSIF v_other.role IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'LM106',
            MESSAGE = format('%s schema %I: that role could act with the rights of %I',
                format(v_other.what, v_other.role), {literal(schema)}, current_user),
            HINT = format(
                'install as the role that owns the schema, or into another schema, or make %I the owner of '
                    'schema %I and of all that is in it, and revoke CREATE on it from others',
                current_user, {literal(schema)}
            );
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
