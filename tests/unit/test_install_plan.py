"""The plan of an installation: statements built from files, without a connection."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest

import lonnymq
from lonnymq.errors import InvalidChannel, InvalidSchemaName
from lonnymq.install import SqlFiles, plan, read, script, uninstall_plan
from lonnymq.install.files import Function, Step, View
from lonnymq.install.roles import EXECUTES, ROLES, STAGING_COLUMNS
from lonnymq.install.sql_text import dollar_quoted, literal
from lonnymq.server_errors import BY_SQLSTATE, from_sqlstate
from lonnymq.statement import identifier

FILES = SqlFiles(
    steps=(Step(1, "core", "CREATE TABLE message (id BIGINT);"), Step(2, "more", "CREATE TABLE dead ();")),
    functions=(Function("f", "CREATE OR REPLACE FUNCTION f() ..."), Function("g", "CREATE ... g()")),
    views=(
        View("v", "CREATE OR REPLACE VIEW v WITH (security_barrier) AS SELECT 1"),
        View("w", "-- VIEW w\nCREATE OR REPLACE VIEW w WITH (security_barrier) AS SELECT 2"),
    ),
    settings="ALTER FUNCTION f() SET jit TO off",
)


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        kind, stem = name.split("__")
        (folder / kind).mkdir(exist_ok=True)
        (folder / kind / f"{stem}.sql").write_text(text)
    return folder


def test_the_same_arguments_give_the_same_statements() -> None:
    assert plan("my q", FILES) == plan("my q", FILES)


def test_steps_come_first_then_functions_views_settings_and_privileges() -> None:
    text = script(plan("q", FILES))
    parts = (
        "TABLE message",
        "TABLE dead",
        "FUNCTION f()",
        "g()",
        "VIEW v WITH",
        "VIEW w WITH",
        "SET jit TO off",
        "REVOKE ALL",
        "GRANT EXECUTE",
        "COMMIT;",
    )
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_the_script_is_one_transaction() -> None:
    for statements in (plan("q", FILES), uninstall_plan("q")):
        text = script(statements)
        assert text.startswith("BEGIN ISOLATION LEVEL READ COMMITTED;")
        assert text.endswith("COMMIT;\n")
        assert len(re.findall(r"^(?:COMMIT|ROLLBACK)\b", text, re.MULTILINE)) == 1


def test_nothing_is_dropped_with_cascade() -> None:
    """Only REVOKE uses it, for privileges that the grantee has granted on."""
    lines = (script(plan("q", FILES)) + script(uninstall_plan("q"))).splitlines()
    assert [line for line in lines if "CASCADE" in line and "REVOKE" not in line] == []


@pytest.mark.parametrize(
    "name", ["lonnymq", "my q", 'we"ird', "ünï", "x" * 63, "ü" * 31, "public", "PG_up", "$"]
)
def test_schema_names_that_are_accepted(name: str) -> None:
    assert f"SET LOCAL search_path TO {identifier(name)}, pg_temp" in plan(name, FILES)


@pytest.mark.parametrize(
    "name", ["", "x" * 64, "ü" * 32, "pg_catalog", "pg_x", "information_schema", "$user", "a\0b", "\ud800"]
)
def test_schema_names_that_are_refused(name: str) -> None:
    for make in (plan, uninstall_plan):
        with pytest.raises(InvalidSchemaName):
            make(name)


def test_with_roles_the_schema_name_must_be_shorter() -> None:
    assert plan("x" * 54, FILES, roles=True)
    with pytest.raises(InvalidSchemaName, match=r"55 bytes.*54"):
        plan("x" * 55, FILES, roles=True)
    assert not any("CREATE ROLE" in statement for statement in plan("x" * 55, FILES))


def test_each_function_belongs_to_one_role_except_those_for_everyone() -> None:
    holders: dict[str, list[str]] = {}
    for role in ROLES:
        for name in EXECUTES[role]:
            holders.setdefault(name, []).append(role)
    shared = {name: roles for name, roles in holders.items() if len(roles) > 1}
    assert shared == {
        "to_epoch": list(ROLES),
        "queue_get": list(ROLES),
        "result_load": ["producer", "consumer", "observer"],
        "status_get": ["producer", "observer"],
    }


def test_only_existing_objects_are_granted() -> None:
    def grants(sql_files: SqlFiles) -> str:
        return plan("q", sql_files, roles=True)[-1]

    some = SqlFiles((Step(1, "s", "CREATE TABLE staging ();"),), (Function("maintain", "..."),), FILES.views)
    assert "'maintain'" in grants(some)
    assert "'message_create'" not in grants(some)
    assert 'GRANT SELECT ON TABLE "v", "w" TO "q_observer"' in grants(some)
    assert all(f'"{column}"' in grants(some) for column in STAGING_COLUMNS)
    none = SqlFiles((Step(1, "s", "CREATE TABLE t ();"),), ())
    assert "GRANT SELECT" not in grants(none)
    assert "GRANT INSERT" not in grants(none)


def test_the_tag_of_dollar_quotes_does_not_occur_in_the_text() -> None:
    assert dollar_quoted("x", "q") == "$q$x$q$"
    assert dollar_quoted("a $q$ b $q1$", "q") == "$q2$a $q$ b $q1$$q2$"
    assert dollar_quoted("x $q", "q") == "$q1$x $q$q1$"


def test_quoting() -> None:
    assert identifier('we"ird') == '"we""ird"'
    assert literal("o'q") == "'o''q'"
    assert literal("a\\'b") == " E'a\\\\''b'"


def test_a_step_knows_the_relations_it_makes() -> None:
    text = """
        -- CREATE TABLE not_this
        CREATE TABLE one (id BIGINT); create unlogged table two ();
        CREATE TABLE IF NOT EXISTS three (); CREATE SEQUENCE four; CREATE VIEW five AS SELECT 1;
        CREATE INDEX one_ix ON one (id); ALTER TABLE two RENAME TO six;
        CREATE TABLE seven (at BIGINT) PARTITION BY RANGE (at); CREATE TABLE eight PARTITION OF seven DEFAULT;
        CREATE OR REPLACE VIEW nine AS SELECT 1; ALTER TABLE one RENAME COLUMN id TO ten;
        CREATE TYPE eleven AS (id BIGINT);
    """
    expected = ["eight", "eleven", "five", "four", "nine", "one", "seven", "six", "three", "two"]
    assert Step(1, "s", text).relations == expected


def test_reading_files(tmp_path: Path) -> None:
    function = (
        "-- What it promises.\nCREATE OR REPLACE FUNCTION b() RETURNS INT LANGUAGE sql AS 'SELECT 1';\n"
    )
    found = read(write(tmp_path, tables__0002_two="T2", tables__0001_one="T1", functions__b=function))
    assert found.steps == (Step(1, "one", "T1"), Step(2, "two", "T2"))
    assert found.functions == (Function("b", function.rstrip().removesuffix(";")),)
    assert found.views == ()
    assert found.settings is None
    assert found.last_step == 2


def test_functions_are_found_in_subfolders(tmp_path: Path) -> None:
    for topic, name in (("late", "a"), ("early", "b")):
        (tmp_path / "functions" / topic).mkdir(parents=True)
        text = f"CREATE OR REPLACE FUNCTION {name}() RETURNS INT LANGUAGE sql AS 'SELECT 1';"
        (tmp_path / "functions" / topic / f"{name}.sql").write_text(text)
    (tmp_path / "settings.sql").write_text("DO $$ BEGIN END $$;\n")
    found = read(tmp_path)
    assert [function.name for function in found.functions] == ["b", "a"]
    assert found.settings == "DO $$ BEGIN END $$"


def test_views_come_in_the_order_of_their_file_names(tmp_path: Path) -> None:
    def view(name: str) -> str:
        return f"-- What it shows.\nCREATE OR REPLACE VIEW {name} WITH (security_barrier) AS SELECT 1;\n"

    found = read(write(tmp_path, views__02_a=view("a"), views__01_b=view("b")))
    assert found.views == tuple(View(name, view(name).rstrip().removesuffix(";")) for name in "ba")


@pytest.mark.parametrize(
    "files",
    [
        {"tables__0002_late": ""},
        {"tables__one": ""},
        {"functions__a": "CREATE TABLE a ();"},
        {"functions__a": "CREATE OR REPLACE FUNCTION other() RETURNS INT LANGUAGE sql AS 'SELECT 1';"},
        {"functions__a": "CREATE OR REPLACE FUNCTION a() RETURNS INT LANGUAGE sql AS 'SELECT 1'"},
        {"views__a": "CREATE OR REPLACE VIEW a AS SELECT 1;"},
        {"views__a": "CREATE OR REPLACE VIEW b WITH (security_barrier) AS SELECT 1;"},
        {"views__a": "CREATE OR REPLACE VIEW a WITH (security_barrier) AS SELECT 1"},
    ],
)
def test_invalid_files(tmp_path: Path, files: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"\.sql|numbered"):
        read(write(tmp_path, **files))


def test_the_files_of_the_package_are_valid() -> None:
    found = read()
    assert found.steps
    assert len({function.name for function in found.functions}) == len(found.functions) > 0


def test_errors_are_created_from_their_sqlstate() -> None:
    error = from_sqlstate("LM001", "the channel is empty", "name one")
    assert type(error) is InvalidChannel
    assert isinstance(error, ValueError)
    assert str(error) == "the channel is empty (name one)"
    assert from_sqlstate("42P01", "no such table") is None
    assert from_sqlstate(None, "no answer") is None
    refusals = [code for code in sorted(BY_SQLSTATE) if code.startswith("LM0")]
    assert refusals == [f"LM{n + 1:03}" for n in range(len(refusals))]
    assert [code for code in sorted(BY_SQLSTATE) if code.startswith("LM1")] == [
        f"LM{n}" for n in range(101, 107)
    ]


def test_the_package_and_its_metadata_agree_on_the_version() -> None:
    assert lonnymq.__version__ == version("lonnymq")
