"""What every command says of a database that is not there, or not as it should be."""

import psycopg
import pytest
from typer.main import get_command

from lonnymq import Queue
from lonnymq.cli.app import app
from lonnymq.install import install, plan
from tests.cli.conftest import Login, Run
from tests.cli.running import NOWHERE, run, start

READING = [
    ["channels", "list"],
    ["channels", "show", "acme"],
    ["messages", "list"],
    ["messages", "show", "1"],
    ["dead", "list"],
    ["dead", "show", "1"],
    ["stats"],
    ["history"],
    ["top", "--once", "--interval", "0.1"],
]
WRITING = [
    ["channels", "set", "acme", "--max-size", "7"],
    ["channels", "pause", "acme"],
    ["channels", "resume", "acme"],
    ["channels", "delete", "acme", "--yes", "--with-messages"],
    ["messages", "cancel", "1", "--yes"],
    ["messages", "run-now", "1"],
    ["dead", "retry", "1"],
    ["dead", "retry", "--all"],
    ["dead", "discard", "1", "--yes"],
    ["dead", "discard", "--all", "--yes"],
]
PRODUCING = [["enqueue", "7"], ["enqueue", "--file", "-", "--values"]]
LOOKING = [["doctor"]]
ALL = [*READING, *WRITING, *PRODUCING, *LOOKING]
ELSEWHERE = {
    "bench",
    "install",
    "upgrade",
    "uninstall",
    "verify",
    "sql",
    "worker",
    "spark",
    "demo",
    "version",
}
LINES = b"1\n2\n"


def commands() -> list[list[str]]:
    """Those of these files, as they are registered."""
    root = get_command(app)
    found = []
    for name, command in getattr(root, "commands", {}).items():
        if name not in ELSEWHERE:
            parts = getattr(command, "commands", None)
            found += [[name, part] for part in parts] if parts else [[name]]
    return found


def test_all_of_them_are_tried_here() -> None:
    tried = {
        " ".join(arguments[: len(name)])
        for name in commands()
        for arguments in ALL
        if arguments[: len(name)] == name
    }
    assert tried == {" ".join(name) for name in commands()}
    assert len(tried) == 19


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_help_has_an_example(command: list[str]) -> None:
    done = run(*command, "--help")
    assert done.code == 0
    assert f"Example: lonnymq {' '.join(command)}" in " ".join(done.stdout.split())
    assert "--dsn" in done.stdout
    assert "an object a line" in " ".join(done.stdout.replace("│", " ").split())


def test_no_address() -> None:
    for arguments in ALL:
        done = run(*arguments)
        assert (done.code, done.stdout, done.stderr.count("\n")) == (3, "", 1), arguments
        assert "give --dsn, or set LONNYMQ_DSN" in done.stderr


def test_no_database() -> None:
    for arguments in ALL:
        done = run(*arguments, dsn=NOWHERE)
        assert (done.code, done.stdout, done.stderr.count("\n")) == (3, "", 1), (arguments, done.stderr)
        assert "cret" not in done.stderr
        assert "Traceback" not in done.stderr


def test_no_schema(lonnymq: Run) -> None:
    for arguments in ALL:
        done = lonnymq(*arguments, "--schema", "nowhere")
        assert done.code == 4, (arguments, done.stderr)
        assert "there is no LonnyMQ in schema" in done.stderr + done.stdout
        assert "lonnymq install" in done.stderr + done.stdout
        assert "Traceback" not in done.stderr


def test_a_schema_that_is_too_old_or_too_new(lonnymq: Run, conn: psycopg.Connection) -> None:
    conn.execute("UPDATE installation SET contract = 0, release = '0.0.1'")
    with conn.transaction():
        for statement in plan("new", release="99", contract=99, oldest_contract=98):
            conn.execute(statement.encode())
    for arguments in ALL:
        old = lonnymq(*arguments)
        assert (old.code, "lonnymq upgrade" in old.stderr + old.stdout) == (4, True), (arguments, old.stderr)
        new = lonnymq(*arguments, "--schema", "new")
        assert (new.code, "to >= 99" in new.stderr + new.stdout) == (4, True), (arguments, new.stderr)


def test_the_schema_is_taken_from_the_environment(lonnymq: Run, conn: psycopg.Connection, dsn: str) -> None:
    install(conn, "other")
    env = {"LONNYMQ_SCHEMA": "other"}
    assert lonnymq("enqueue", "7", env=env).code == 0
    assert len(lonnymq("messages", "list", "--json", env=env).records) == 1
    assert lonnymq("messages", "list", "--json").records == []


def test_no_rights_at_all(login: Login, schema: str) -> None:
    address = login()
    for arguments in (*READING, *WRITING, *PRODUCING):
        done = run(*arguments, "--schema", schema, dsn=address, stdin=LINES)
        assert (done.code, done.stdout, done.stderr.count("\n")) == (1, "", 1), (arguments, done.stderr)
        assert "permission denied" in done.stderr
        assert "log in as a member of one of the queue's roles" in done.stderr


def test_rights_are_enough_where_they_should_be(login: Login, schema: str, dsn: str) -> None:
    observer, producer, admin = (login(f"{schema}_{role}") for role in ("observer", "producer", "admin"))
    for arguments in PRODUCING:
        assert run(*arguments, "--schema", schema, dsn=producer, stdin=LINES).code == 0
        assert "permission denied" in run(*arguments, "--schema", schema, dsn=observer, stdin=LINES).stderr
    for arguments in READING:
        assert "permission denied" not in run(*arguments, "--schema", schema, dsn=observer).stderr
    for arguments in WRITING:
        assert "permission denied" in run(*arguments, "--schema", schema, dsn=observer).stderr
        assert "permission denied" not in run(*arguments, "--schema", schema, dsn=admin).stderr


def test_a_login_that_is_bound_to_channels(
    login: Login, schema: str, conn: psycopg.Connection, dsn: str
) -> None:
    address = login(f"{schema}_observer", f"{schema}_producer")
    conn.execute(f'SET search_path TO "{schema}"'.encode())
    name = psycopg.conninfo.conninfo_to_dict(address)["user"]
    conn.execute("SELECT credential_bind(%s, ARRAY['mine'])", [name])
    mine = run("enqueue", "7", "--channel", "mine", "--schema", schema, dsn=address)
    assert mine.code == 0, mine.stderr
    theirs = run("enqueue", "7", "--channel", "theirs", "--schema", schema, dsn=address)
    assert (theirs.code, theirs.stderr.count("\n"), "theirs" in theirs.stderr) == (1, 1, True)
    found = run("channels", "list", "--json", "--schema", schema, dsn=address).records
    assert [channel["channel"] for channel in found] == ["mine"]


def test_as_processes(queue: Queue, dsn: str) -> None:
    created = start("enqueue", '{"invoice": 7}', "--json", dsn=dsn)
    assert (created.returncode, created.stderr) == (0, b"")
    assert created.stdout == b'{"id": 1, "result": "created", "channel": "default"}\n'
    assert start("enqueue", "--file", "-", dsn=dsn, stdin=b'{"value": 1}\n').returncode == 0
    bad = start("messages", "show", "9", dsn=dsn)
    assert (bad.returncode, bad.stdout, b"Traceback" in bad.stderr) == (1, b"", False)
    debugged = start("messages", "show", "9", "--debug", dsn=dsn)
    assert b"Traceback" in debugged.stderr
