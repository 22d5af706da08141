"""Django's `connection`: a call is part of the surrounding `transaction.atomic()`, if there is one."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.connection import ConnectionProxy

from lonnymq.adapters.driver_errors import refuse_call
from lonnymq.statement import Command

Result = TypeVar("Result")

SYNC = (BaseDatabaseWrapper, ConnectionProxy)
ASYNC: tuple[type, ...] = ()
POOLS: tuple[type, ...] = ()


def run(connection: BaseDatabaseWrapper, schema: str, command: Command[Result]) -> Result:
    text, parameters = command.statement(schema)
    with_placeholders = re.sub(r"CAST\(\$\d+", "CAST(%s", text.replace("%", "%%"))
    try:
        with connection.cursor() as cursor:
            cursor.execute(with_placeholders, parameters)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
    except DatabaseError as error:
        refuse_call(error, schema, command.function, lambda: connection.settings_dict.get("USER") or None)
    return command.decode(rows)
