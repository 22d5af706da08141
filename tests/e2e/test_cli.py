"""The command line, as a user runs it; where a process of its own would add nothing, in this one."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import traceback
from collections.abc import Mapping
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import lonnymq
from lonnymq.embedded import binaries
from lonnymq.install import install, read, verify
from tests.cli.running import NOWHERE, Done, environment, run
from tests.database import unique_name


def start(*arguments: str, env: Mapping[str, str] | None = None) -> Done:
    """In a new process."""
    done = subprocess.run(
        [sys.executable, "-m", "lonnymq", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=environment(None, env),
    )
    return Done(done.returncode, done.stdout, done.stderr)


def psql(dsn: str, text: str) -> None:
    command = [str(binaries() / "psql"), "--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--dbname", dsn]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def has_schema(conn: psycopg.Connection[Any], name: str) -> bool:
    return conn.execute("SELECT FROM pg_namespace WHERE nspname = %s", [name]).fetchone() is not None


def test_help_names_every_command() -> None:
    done = start("--help")
    assert done.code == 0
    for command in ("install", "upgrade", "uninstall", "verify", "sql", "worker", "spark", "demo", "version"):
        assert command in done.stdout


def test_help_imports_neither_driver_nor_server() -> None:
    program = (
        "import sys; sys.argv[1:] = ['version']\n"
        "from lonnymq.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "sys.exit(' '.join({'psycopg', 'lonnymq.embedded', 'lonnymq.install'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_version() -> None:
    assert start("version").stdout == f"lonnymq {lonnymq.__version__}\n"
    assert json.loads(run("version", "--json").stdout)["version"] == lonnymq.__version__


def test_the_life_of_a_schema(conn: psycopg.Connection[Any], dsn: str) -> None:
    env = {"LONNYMQ_DSN": dsn, "LONNYMQ_SCHEMA": "my q"}
    for command, result in {"install": "installed", "upgrade": "upgraded", "verify": "works"}.items():
        done = run(command, "--json", env=env)
        assert done.code == 0, done.stderr
        report = json.loads(done.stdout)
        assert (report["result"], report["schema"], report["step"]) == (result, "my q", read().last_step)
    assert run("verify", env=env).stdout.startswith(f"works: LonnyMQ {lonnymq.__version__} in schema 'my q'")
    assert run("uninstall", "--yes", env=env).code == 0
    assert not has_schema(conn, "my q")
    assert has_schema(conn, "lonnymq")


def test_uninstall_asks(conn: psycopg.Connection[Any], dsn: str) -> None:
    install(conn, "q")
    done = run("uninstall", "--schema", "q", env={"LONNYMQ_DSN": dsn}, stdin=b"y\n")
    assert done.code == 2
    assert "--yes" in done.stderr
    assert has_schema(conn, "q")
    assert _answer(dsn, b"n\n") == 1
    assert has_schema(conn, "q")
    assert _answer(dsn, b"y\n") == 0
    assert not has_schema(conn, "q")


def _answer(dsn: str, answer: bytes) -> int:
    terminal, stdin = pty.openpty()
    command = [sys.executable, "-m", "lonnymq", "uninstall", "--schema", "q", "--dsn", dsn]
    with subprocess.Popen(
        command, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        os.write(terminal, answer)
        code = process.wait(60)
    os.close(terminal)
    os.close(stdin)
    return code


@pytest.mark.parametrize("schema", [pytest.param("lonny", marks=pytest.mark.long), "ünï'\"$\\"])
def test_the_printed_sql_runs_through_psql(conn: psycopg.Connection[Any], dsn: str, schema: str) -> None:
    for command in ("install", "upgrade"):
        psql(dsn, start("sql", command, "--schema", schema).stdout)
        assert verify(conn, schema).step == read().last_step
    psql(dsn, start("sql", "uninstall", "--schema", schema, env={"PYTHONIOENCODING": "latin-1"}).stdout)
    assert not has_schema(conn, schema)


def test_roles_are_created_on_request(conn: psycopg.Connection[Any], dsn: str) -> None:
    schema = unique_name("my q")

    def roles() -> list[str]:
        query = "SELECT rolname FROM pg_roles WHERE starts_with(rolname, %s) ORDER BY 1"
        return [row[0].removeprefix(schema) for row in conn.execute(query, [schema]).fetchall()]

    psql(dsn, start("sql", "install", "--schema", schema).stdout)
    assert roles() == []
    psql(dsn, start("sql", "install", "--schema", schema, "--roles").stdout)
    assert roles() == ["_admin", "_consumer", "_observer", "_producer"]
    env = {"LONNYMQ_DSN": dsn, "LONNYMQ_SCHEMA": schema}
    assert run("uninstall", "--yes", env=env).code == 0
    assert roles() == []
    assert run("install", "--roles", env=env).code == 0
    assert roles() == ["_admin", "_consumer", "_observer", "_producer"]
    assert run("uninstall", "--yes", env=env).code == 0
    assert run("install", "--roles", env=env | {"LONNYMQ_SCHEMA": "x" * 55}).code == 2


def test_where_the_address_comes_from(dsn: str) -> None:
    wrong = {"LONNYMQ_DSN": NOWHERE, "DATABASE_URL": NOWHERE, "PGHOST": "127.0.0.1", "PGPORT": "1"}
    names = {"dbname": "PGDATABASE"}
    libpq = {
        names.get(name, f"PG{name.upper()}"): str(value) for name, value in conninfo_to_dict(dsn).items()
    }
    driver = dsn.replace("postgresql://", "postgresql+psycopg://")
    for arguments, env in (
        (["--dsn", dsn], wrong),
        ([], wrong | {"LONNYMQ_DSN": dsn}),
        ([], wrong | {"LONNYMQ_DSN": "", "DATABASE_URL": driver}),
        ([], libpq),
    ):
        done = run("verify", *arguments, env=env)
        assert done.code == 0, done.stderr
    assert run("verify", env=wrong | libpq).code == 3


@pytest.mark.parametrize(
    ("address", "code"),
    [
        (NOWHERE, 3),
        ("postgresql://someone:s3cret@nowhere.invalid/db", 3),
        ("postgresql://someone:s3cret/more@host/db", 2),
        ("postgresql://someone:s3cret@more@host/db", 2),
        ("postgresql://someone:s3cret?more@nowhere.invalid/db", 3),
        ("postgresql://someone:%s3cret@host/db", 2),
        ("host=x password='s3cret", 2),
        ("s3cret", 2),
    ],
)
def test_a_password_is_never_shown(address: str, code: int) -> None:
    done = run("verify", env={"LONNYMQ_DSN": address})
    assert done.code == code
    with pytest.raises(Exception) as raised:  # with --debug, Python prints the traceback
        run("verify", "--debug", env={"LONNYMQ_DSN": address})
    printed = "".join(traceback.format_exception(raised.value))
    assert done.stderr
    assert "cret" not in printed + done.stderr + done.stdout


def test_a_traceback_without_the_password() -> None:
    done = start("verify", "--debug", env={"LONNYMQ_DSN": NOWHERE})
    assert done.code == 1
    assert "Traceback" in done.stderr
    assert "cret" not in done.stderr + done.stdout


def test_invalid_use() -> None:
    assert run("no-such-command").code == 2
    assert run("verify", "--no-such-option").code == 2
    assert run("sql", "install", "--schema", "pg_x").code == 2
    assert run("sql", "install", "--schema", "x" * 64).stdout == ""


def test_a_traceback_is_shown_with_debug() -> None:
    assert "Traceback" not in run("verify").stderr
    for arguments in (["--debug", "verify"], ["verify", "--debug"]):
        assert "Traceback" in start(*arguments).stderr


def test_an_error_of_postgresql_is_one_line(conn: psycopg.Connection[Any], dsn: str) -> None:
    install(conn, "q")
    conn.execute("CREATE VIEW public.mine AS SELECT * FROM q.installation")
    done = run("uninstall", "--yes", "--schema", "q", env={"LONNYMQ_DSN": dsn})
    assert (done.code, done.stderr.count("\n")) == (1, 1)
    assert "mine" in done.stderr
