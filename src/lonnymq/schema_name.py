"""The name of the queue's schema, checked before it is used."""

from __future__ import annotations

from lonnymq.errors import InvalidSchemaName

NAME_MAX_BYTES = 63


def check_schema_name(schema: str) -> None:
    """Raise InvalidSchemaName for a name that PostgreSQL would refuse, truncate or misinterpret."""
    if not isinstance(schema, str):
        raise InvalidSchemaName(f"{schema!r} is not the name of a schema", "give a str")
    try:
        size = len(schema.encode())
    except UnicodeEncodeError:
        raise InvalidSchemaName("the schema's name is not valid Unicode") from None
    if size == 0:
        raise InvalidSchemaName("the schema's name is empty")
    if size > NAME_MAX_BYTES:
        raise InvalidSchemaName(
            f"the schema's name is {size} bytes long; at most {NAME_MAX_BYTES} are allowed"
        )
    if "\0" in schema:
        raise InvalidSchemaName("the schema's name contains a NUL character")
    if schema.startswith("pg_") or schema == "information_schema":
        raise InvalidSchemaName(f'the schema name "{schema}" is reserved by PostgreSQL')
    if schema == "$user":
        raise InvalidSchemaName('the schema name "$user" means the current user in a search_path')
