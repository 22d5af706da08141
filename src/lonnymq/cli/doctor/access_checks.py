"""Who may use the queue, and who can bypass it.

Reads catalogs and a few rows of the queue's own tables.
"""

# ruff: noqa: S608 - the schema's name is quoted

from __future__ import annotations

from lonnymq.cli.doctor.checks import Patient, Verdict, ok, problem, warning


def roles(patient: Patient) -> Verdict:
    from lonnymq.install.roles import role_names

    names = role_names(patient.schema)
    (are_wanted,) = patient.one(f"SELECT roles FROM {patient.name}.installation")
    if not are_wanted:
        return ok("none were asked for: the owner alone has rights (`lonnymq install --roles` makes them)")
    there = {name for (name,) in patient.rows("SELECT rolname FROM pg_roles WHERE rolname = ANY ($1)", names)}
    if missing := [name for name in names if name not in there]:
        return problem(f"missing: {', '.join(missing)}", "run `lonnymq upgrade`, which makes them again")
    if lacking := _lacking(patient):
        return problem(f"{lacking[0]} (and {len(lacking) - 1} more)", "run `lonnymq upgrade`")
    return ok(f"{', '.join(names)}, with their rights")


def _lacking(patient: Patient) -> list[str]:
    """What the installer would grant, and is not granted."""
    from lonnymq.install.roles import EXECUTES, READS_VIEWS, ROLES, role_name

    views = patient.rows(f"SELECT unnest(views) FROM {patient.name}.installation")
    wanted = [(role_name(patient.schema, role), name) for role in ROLES for name in EXECUTES[role]]
    lacking = patient.rows(
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
        patient.name,
        role_name(patient.schema, READS_VIEWS),
        [view for (view,) in views],
        patient.schema,
        [role_name(patient.schema, role) for role in ROLES],
    )
    return [text for (text,) in lacking]


def rights(patient: Patient) -> Verdict:
    """Over every table, partition, view, sequence and function of ours, their columns, and the schema."""
    from lonnymq.install.rights import (
        StrangeOwner,
        StrayRight,
        remedy,
        some_of,
        strange_owners,
        stray_rights,
    )

    found = [StrayRight(*row) for row in patient.rows(stray_rights(patient.schema))]
    owners = [StrangeOwner(*row) for row in patient.rows(strange_owners(patient.schema))]
    strays = [right for right in found if not right.is_direct]
    if strays or owners:
        return problem(f"they bypass the queue: {some_of([*strays, *owners])}", remedy(strays, owners))
    if found:
        return warning(
            f"granted directly, not through the queue's roles: {some_of(found)}",
            f"if this is not intended: {remedy(found)}",
        )
    return ok("only the owner and the queue's roles have any")


def credentials(patient: Patient) -> Verdict:
    """Whether bindings hold: their roles exist, and cannot read the tables directly."""
    from lonnymq.install.sql_text import literal

    name = patient.name
    has_bound, count = patient.one(
        f"SELECT q.has_bound, (SELECT count(*) FROM {name}.credential) FROM {name}.queue q"
    )
    if has_bound and not count:
        return problem(
            "the bindings of logins to channels are lost: only the owner may use the queue",
            "bind all of them again with credential_bind, in one transaction",
        )
    if readers := patient.rows(
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
            "revoke its rights on them, memberships such as pg_read_all_data, or SUPERUSER",
        )
    if gone := patient.rows(
        f"SELECT c.name FROM {name}.credential c"
        " WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = c.role) ORDER BY 1"
    ):
        (role,) = gone[0]
        return warning(
            f"{role} is bound to channels but was dropped: a new role of that name will be bound to them",
            f"if it is gone for good: SELECT {name}.credential_bind({literal(role)}, NULL)",
        )
    return ok(f"{count} bound to channels" if count else "none are bound to channels")
