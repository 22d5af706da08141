"""Every public SQL function has a command, with the same parameters and columns."""

import dataclasses
import re
from typing import Any

import psycopg
import pytest

from lonnymq import commands
from lonnymq.statement import Command, _call

COMMANDS = {
    found.function: found
    for found in vars(commands).values()
    if isinstance(found, type)
    and issubclass(found, Command)
    and hasattr(found, "function")
    and found not in {commands.HistoryList, commands.HistoryUnread, commands.PolicyList}  # they read a view
}
WITHOUT_A_COMMAND = {"to_epoch", "login_is_free"} | {  # for use in SQL, and for the views
    f"{what}_visible" for what in ("channel", "message", "dead", "finished", "policy")
}
ALIASES = {"integer": "INT", "integer[]": "INT[]"}


def public_functions(conn: psycopg.Connection) -> dict[str, tuple[str, str]]:
    rows = conn.execute(
        """
        SELECT proname, pg_get_function_arguments(oid), pg_get_function_result(oid) FROM pg_proc
        WHERE pronamespace = 'lonnymq'::REGNAMESPACE AND prosecdef"""
    ).fetchall()
    return {name: (arguments, result) for name, arguments, result in rows}


def attributes(conn: psycopg.Connection, composite: str) -> set[str]:
    rows = conn.execute(
        "SELECT a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
        " WHERE c.reltype = %s::REGTYPE",
        (composite,),
    )
    return {name for (name,) in rows}


def test_every_function_has_a_command(conn: psycopg.Connection) -> None:
    assert COMMANDS.keys() == public_functions(conn).keys() - WITHOUT_A_COMMAND


@pytest.mark.parametrize("function", sorted(COMMANDS))
def test_parameters_match_the_function(conn: psycopg.Connection, function: str) -> None:
    """Names and types are the same, and a parameter is required in both or in neither."""
    command: Any = COMMANDS[function]
    declared, _ = public_functions(conn)[function]
    expected = []
    for part in filter(None, declared.split(", ")):
        if part.startswith("OUT "):
            continue
        name, sql_type, default = re.fullmatch(r"p_(\w+) ([\w\[\]]+)( DEFAULT .*)?", part).groups()  # type: ignore[union-attr]
        expected.append((name, ALIASES.get(sql_type, sql_type).upper(), default is None))
    written = re.findall(
        r"p_(\w+) => CAST\((?:\$\d+|CAST\(\$\d+ AS TEXT(?:\[\])?\)) AS ([A-Z\[\]]+)\)",
        _call(command, "lonnymq"),
    )
    required = [field.default is dataclasses.MISSING for field in dataclasses.fields(command)]
    given = [(*pair, is_required) for pair, is_required in zip(written, required, strict=True)]
    assert sorted(given) == sorted(expected)


@pytest.mark.parametrize("function", sorted(COMMANDS))
def test_columns_match_the_function(conn: psycopg.Connection, function: str) -> None:
    """The function returns every column that the command reads, in any order."""
    arguments, result = public_functions(conn)[function]
    columns = COMMANDS[function].columns
    if columns == "*":
        assert not result.startswith(("TABLE", "SETOF", "record"))
        return
    if result.startswith("SETOF "):
        assert set(columns.split(", ")) <= attributes(conn, result.removeprefix("SETOF "))
        return
    table = result.removeprefix("TABLE(") if result != "record" else arguments.replace("OUT ", "")
    found = re.findall(r"(\w+) (?:double )?[\w\[\]]+(?:,|\)|$)", table)
    assert set(columns.split(", ")) <= set(found)
