"""Every public SQL function has its command, and the command says what the function says."""

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
    and found is not commands.HistoryList  # reads a view
}
WITHOUT_A_COMMAND = {"to_epoch", "login_is_free"} | {  # for people who write SQL, and for the views
    f"{what}_visible" for what in ("channel", "message", "dead", "finished")
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


def test_there_is_one_for_each(conn: psycopg.Connection) -> None:
    assert COMMANDS.keys() == public_functions(conn).keys() - WITHOUT_A_COMMAND


@pytest.mark.parametrize("function", sorted(COMMANDS))
def test_its_parameters_are_the_functions(conn: psycopg.Connection, function: str) -> None:
    """The same names and types; required in both or in neither. Calls give parameters by name."""
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
    given = [(*pair, must) for pair, must in zip(written, required, strict=True)]
    assert sorted(given) == sorted(expected)


@pytest.mark.parametrize("function", sorted(COMMANDS))
def test_its_columns_are_the_functions(conn: psycopg.Connection, function: str) -> None:
    """In whatever order, and all of them where it reads records."""
    arguments, result = public_functions(conn)[function]
    columns = COMMANDS[function].columns
    if columns == "*":
        assert not result.startswith(("TABLE", "SETOF", "record"))
        return
    if result.startswith("SETOF "):
        assert set(columns.split(", ")) <= attributes(conn, result.removeprefix("SETOF "))
        return
    table = result.removeprefix("TABLE(") if result != "record" else arguments.replace("OUT ", "")
    assert set(columns.split(", ")) <= set(re.findall(r"(\w+) [\w\[\]]+(?:,|\)|$)", table))
