"""Checks who may use the queue, and who can bypass it.

Reads catalogs and a few rows of the queue's own tables.
"""

# ruff: noqa: S608 - the schema's name is quoted

from __future__ import annotations

from lonnymq.doctor.checks import CheckResult, Database, ok, problem, warning
from lonnymq.formatting import plural


def roles(db: Database) -> CheckResult:
    from lonnymq.install.roles import role_names

    names = role_names(db.schema)
    (is_wanted,) = db.one(f"SELECT roles FROM {db.name}.installation")
    if not is_wanted:
        return ok("none: only the owner may use the queue (`lonnymq install --roles` creates roles)")
    there = {name for (name,) in db.rows("SELECT rolname FROM pg_roles WHERE rolname = ANY ($1)", names)}
    if missing := [name for name in names if name not in there]:
        return problem(f"missing: {', '.join(missing)}", "run `lonnymq upgrade`, which creates them again")
    if lacking := _missing_privileges(db):
        more = f" (and {len(lacking) - 1} more)" if len(lacking) > 1 else ""
        return problem(f"{lacking[0]}{more}", "run `lonnymq upgrade`")
    return ok(f"{', '.join(names)}, with all their privileges")


def _missing_privileges(db: Database) -> list[str]:
    """Privileges that the installer grants and that are missing."""
    from lonnymq.install.roles import EXECUTES, READS_VIEWS, ROLES, role_name

    views = db.rows(f"SELECT unnest(views) FROM {db.name}.installation")
    wanted = [(role_name(db.schema, role), name) for role in ROLES for name in EXECUTES[role]]
    lacking = db.rows(
        "SELECT format('%s may not call %s', w.role, w.name)"
        " FROM unnest(CAST($1 AS text[]), CAST($2 AS text[])) w (role, name)"
        " JOIN pg_catalog.pg_proc p ON p.proname = w.name AND p.pronamespace = CAST($3 AS regnamespace)"
        " WHERE NOT has_function_privilege(w.role, p.oid, 'EXECUTE')"
        " UNION ALL"
        " SELECT format('%s may not read %s', CAST($4 AS text), v) FROM unnest(CAST($5 AS text[])) v"
        " WHERE NOT has_table_privilege(CAST($4 AS name), format('%I.%I', CAST($6 AS text), v), 'SELECT')"
        " UNION ALL"
        " SELECT format('%s may not use the schema', r) FROM unnest(CAST($7 AS text[])) r"
        " WHERE NOT has_schema_privilege(r, CAST($6 AS text), 'USAGE')",
        [role for role, _ in wanted],
        [name for _, name in wanted],
        db.name,
        role_name(db.schema, READS_VIEWS),
        [view for (view,) in views],
        db.schema,
        [role_name(db.schema, role) for role in ROLES],
    )
    return [text for (text,) in lacking]


def rights(db: Database) -> CheckResult:
    """Privileges on every object of the queue: tables, columns, partitions, views, sequences, functions, the
    schema.
    """
    from lonnymq.install.rights import (
        StrangeOwner,
        StrayRight,
        remedy,
        some_of,
        strange_owners,
        stray_rights,
    )

    found = [StrayRight(*row) for row in db.rows(stray_rights(db.schema))]
    owners = [StrangeOwner(*row) for row in db.rows(strange_owners(db.schema))]
    strays = [right for right in found if not right.is_direct]
    if strays or owners:
        return problem(
            f"these privileges bypass the queue: {some_of([*strays, *owners])}", remedy(strays, owners)
        )
    if found:
        return warning(
            f"granted directly, not through the queue's roles: {some_of(found)}",
            f"if this is not intended: {remedy(found)}",
        )
    return ok("only the owner and the queue's roles have privileges")


def credentials(db: Database) -> CheckResult:
    """Whether roles that are bound to channels exist, and cannot read the tables directly."""
    from lonnymq.install.sql_text import literal

    name = db.name
    has_bound, count = db.one(
        f"SELECT q.has_bound, (SELECT count(*) FROM {name}.credential) FROM {name}.queue q"
    )
    if has_bound and not count:
        return problem(
            "all bindings of logins to channels are lost: only the owner may use the queue",
            "bind all of them again with credential_bind, in one transaction",
        )
    if readers := db.rows(
        "SELECT DISTINCT r.rolname FROM pg_catalog.pg_roles r"
        f" JOIN {name}.credential c"
        "   ON r.oid = c.role OR NOT r.rolsuper AND pg_has_role(r.oid, c.role, 'USAGE')"
        " WHERE EXISTS (SELECT FROM pg_catalog.pg_class t WHERE t.relnamespace = CAST($1 AS regnamespace)"
        "   AND t.relkind IN ('r', 'p') AND has_table_privilege(r.oid, t.oid, 'SELECT')) ORDER BY 1",
        name,
    ):
        (role,) = readers[0]
        return problem(
            f"{role} is bound to channels, but can read the queue's tables",
            "revoke its privileges on them, memberships such as pg_read_all_data, or SUPERUSER",
        )
    if gone := db.rows(
        f"SELECT c.name FROM {name}.credential c"
        " WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = c.role) ORDER BY 1"
    ):
        (role,) = gone[0]
        return warning(
            f"{role} is bound to channels but was dropped: a new role with that name would be bound to them",
            f"if it is gone for good: SELECT {name}.credential_bind({literal(role)}, NULL)",
        )
    return ok(f"{plural(count, 'login')} bound to channels" if count else "no login is bound to channels")
