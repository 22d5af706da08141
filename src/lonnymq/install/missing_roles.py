"""Which of the queue's roles a login lacks, and the statement that grants it."""

from __future__ import annotations

from lonnymq.errors import NotPermitted
from lonnymq.install.roles import (
    APPENDS_TO_STAGING,
    EXECUTES,
    READS_VIEWS,
    ROLES,
    STAGING,
    role_name,
    role_names,
)
from lonnymq.statement import identifier

TENANTS_MAY_HAVE = {"producer", "observer"}
MAKES_ROLES = "if there are no such roles, run `lonnymq install --roles` first"


def lacking(schema: str, name: str | None, login: str | None, message: str) -> NotPermitted:
    """The error for a login that may not call a function of the queue, or read or fill a relation, of this
    name; None: nothing of the queue. The message is PostgreSQL's; the login is None where the driver does not
    tell.
    """
    me = "this login" if login is None else f"role {identifier(login)}"
    return NotPermitted(
        f"{message.splitlines()[0]}: {me} may not use {name or 'the queue'}",
        _what_to_grant(schema, name, login),
    )


def roles_for(name: str | None) -> list[str]:
    """The roles that may use it. Those that are named have the right themselves; an admin has all of them.

    >>> roles_for("message_create"), roles_for("staging"), roles_for("history")
    (['producer'], ['producer'], ['observer'])
    """
    if name is None:
        return list(ROLES)
    if name == STAGING:
        return [APPENDS_TO_STAGING]
    return [role for role in ROLES if name in EXECUTES[role]] or [READS_VIEWS]


def _what_to_grant(schema: str, name: str | None, login: str | None) -> str:
    to = "your login" if login is None else identifier(login)
    if not role_names(schema):  # its name leaves no room for them
        where = identifier(schema)
        return f"have its owner run: GRANT USAGE ON SCHEMA {where} TO {to}; and grant EXECUTE on the function"
    roles = [identifier(role_name(schema, role)) for role in roles_for(name)]
    if len(roles) > 1:
        return f"have an administrator grant {to} one of the roles {', '.join(roles)}; {MAKES_ROLES}"
    grant = f"have an administrator run: GRANT {roles[0]} TO {to}; {MAKES_ROLES}"
    is_for_tenants = set(roles_for(name)) <= TENANTS_MAY_HAVE
    return grant if is_for_tenants else f"{grant}; a login that is bound to channels must not have this role"
