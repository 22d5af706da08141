"""Which of the queue's roles a login lacks, and the statement that grants it."""

from __future__ import annotations

from lonnymq.errors import NotPermitted
from lonnymq.install.roles import (
    APPENDS_TO_STAGING,
    EXECUTES,
    READS_VIEWS,
    ROLES,
    STAGING_TABLES,
    role_name,
    role_names,
)
from lonnymq.statement import identifier

FOR_TENANTS = {"producer", "observer"}
CREATE_ROLES_FIRST = "if the roles do not exist, run `lonnymq install --roles` first"


def missing_role(schema: str, name: str | None, login: str | None, message: str) -> NotPermitted:
    """The error for a login that lacks the privilege to use the function, view or table `name`. If `name` is
    None, it cannot use the schema at all. `message` is PostgreSQL's; `login` is None if the driver does not
    report it.
    """
    who = "this login" if login is None else f"role {identifier(login)}"
    return NotPermitted(
        f"{message.splitlines()[0]}: {who} may not use {name or 'the queue'}",
        _what_to_grant(schema, name, login),
    )


def roles_for(name: str | None) -> list[str]:
    """The roles that have the privilege. The admin role, which has all of them, is named only for its own.

    >>> roles_for("message_create"), roles_for("staging"), roles_for("history")
    (['producer'], ['producer'], ['observer'])
    """
    if name is None:
        return list(ROLES)
    if name in STAGING_TABLES:
        return [APPENDS_TO_STAGING]
    return [role for role in ROLES if name in EXECUTES[role]] or [READS_VIEWS]


def _what_to_grant(schema: str, name: str | None, login: str | None) -> str:
    to = "your login" if login is None else identifier(login)
    if not role_names(schema):  # the schema's name is too long to have roles
        where = identifier(schema)
        return (
            f"have its owner run: GRANT USAGE ON SCHEMA {where} TO {to}; and grant it EXECUTE on the function"
        )
    roles = [identifier(role_name(schema, role)) for role in roles_for(name)]
    if len(roles) > 1:
        return f"have an administrator grant {to} one of the roles {', '.join(roles)}; {CREATE_ROLES_FIRST}"
    grant = f"have an administrator run: GRANT {roles[0]} TO {to}; {CREATE_ROLES_FIRST}"
    is_for_tenants = set(roles_for(name)) <= FOR_TENANTS
    return (
        grant if is_for_tenants else f"{grant}; do not grant this role to a login that is bound to channels"
    )
