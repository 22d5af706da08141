"""The errors of every command: no database, a wrong schema, missing privileges, wrong usage."""

import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.main import get_command

from lonnymq import Queue
from lonnymq.cli.all_commands import app
from lonnymq.install import install, plan
from tests.cli.conftest import Login, Run
from tests.cli.running import NOWHERE, Done, run, start

READING = [
    ["channels", "list"],
    ["channels", "show", "acme"],
    ["channels", "explain", "acme"],
    ["messages", "list"],
    ["messages", "show", "1"],
    ["dead", "list"],
    ["dead", "groups"],
    ["dead", "show", "1"],
    ["queue", "show"],
    ["stats"],
    ["lanes"],
    ["audit"],
    ["history"],
    ["schedules", "list"],
    ["schedules", "show", "nightly"],
    ["workers", "list"],
    ["batches", "list"],
    ["batches", "show", "1"],
    ["followers", "list"],
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
    ["dead", "retry", "--all", "--dry-run"],
    ["dead", "discard", "1", "--yes"],
    ["dead", "discard", "--all", "--yes"],
    ["queue", "set", "--max-attempts", "5"],
    ["batches", "cancel", "1", "--yes"],
    ["schedules", "run", "nightly"],
    ["schedules", "pause", "nightly"],
    ["schedules", "resume", "nightly"],
    ["schedules", "delete", "nightly"],
    ["workers", "pause", "mail-1"],
    ["workers", "resume", "mail-1"],
    ["workers", "drain", "mail-1"],
    ["credentials", "list"],
    ["credentials", "bind", "nobody", "acme"],
    ["credentials", "unbind", "nobody"],
    ["followers", "forget", "lake"],
]
PRODUCING = [["enqueue", "7"], ["enqueue", "--file", "-", "--payloads"], ["batches", "close", "1"]]
SPARK = [
    ["spark", "load", "orders.parquet"],
    ["spark", "archive", "lake"],
    ["spark", "replay"],
    ["spark", "report"],
    ["spark", "simulate"],
]
SERVING = [["web", "--port", "0"]]
SCHEMA = [["install"], ["upgrade"], ["verify"], ["uninstall", "--yes"]]
MEASURING = [["bench", "--seconds", "0.05"]]
CHECKING = [["doctor"]]
WITH_QUEUE = [*READING, *WRITING, *PRODUCING, *SPARK, *SERVING]
"""Commands that need an installed queue."""
WITH_DSN = [*WITH_QUEUE, *SCHEMA, *MEASURING, *CHECKING]
"""Commands that take the address of a database from --dsn or the environment."""
WITHOUT_DSN = [
    ["spark", "optimize", "lake"],
    ["spark", "expire", "lake", "--keep", "90d", "--yes"],
    ["worker", "no_such_shop"],
    ["demo"],
    ["version"],
    *(["sql", part] for part in ("install", "upgrade", "uninstall")),
]
"""Commands without --dsn: a worker's app has the address, the others need no database."""
LINES = b"1\n2\n"


def leaves(command: Any = None, name: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The names and definitions of all registered commands."""
    command = command or get_command(app)
    for part, below in getattr(command, "commands", {}).items():
        yield from leaves(below, (*name, part))
    if not getattr(command, "commands", None):
        yield name, command


LEAVES = dict(leaves())


def leaf(arguments: list[str]) -> tuple[str, ...]:
    """The name of the command that these arguments call."""
    return next(name for name in LEAVES if tuple(arguments[: len(name)]) == name)


@functools.cache
def options(name: tuple[str, ...]) -> frozenset[str]:
    return frozenset(option for parameter in LEAVES[name].params for option in parameter.opts)


def with_json(arguments: list[str]) -> list[str]:
    return [*arguments, "--json"] if "--json" in options(leaf(arguments)) else arguments


def test_every_command_is_covered_here() -> None:
    assert {leaf(arguments) for arguments in (*WITH_DSN, *WITHOUT_DSN)} == set(LEAVES)
    assert {leaf(arguments) for arguments in WITH_DSN} == {
        name for name in LEAVES if "--dsn" in options(name)
    }


@pytest.mark.parametrize("name", LEAVES, ids=" ".join)
def test_help_has_an_example(name: tuple[str, ...]) -> None:
    done = run(*name, "--help")
    text = " ".join(done.stdout.replace("│", " ").split())
    assert done.code == 0
    assert f"Example: lonnymq {' '.join(name)}" in text
    if name[0] not in {"worker", "sql", "web"}:
        assert "one object per line" in text


@pytest.mark.parametrize("name", LEAVES, ids=" ".join)
def test_an_unknown_option_or_argument(name: tuple[str, ...]) -> None:
    unknown = run(*name, "--no-such-option")
    assert (unknown.code, unknown.stdout) == (2, "")
    assert "No such option: --no-such-option" in unknown.said
    assert f"lonnymq {' '.join(name)} --help" in unknown.said
    takes = [parameter for parameter in LEAVES[name].params if parameter.param_type_name == "argument"]
    if not any(parameter.nargs == -1 for parameter in takes):
        extra = run(*name, *(["1"] * (len(takes) + 1)))
        assert (extra.code, extra.stdout) == (2, "")
        assert "unexpected extra argument" in extra.said
    if any(parameter.required for parameter in takes):
        assert "Missing argument" in run(*name).said


@pytest.mark.parametrize("name", [name for name in LEAVES if "--schema" in options(name)], ids=" ".join)
def test_an_invalid_schema_name(name: tuple[str, ...], lonnymq: Run) -> None:
    [arguments] = [each for each in (*WITH_DSN, *WITHOUT_DSN) if leaf(each) == name][:1]
    for schema, says in (("x" * 64, "64 bytes long"), ("pg_mine", "pg_"), ("", "empty")):
        done = lonnymq(*arguments, "--schema", schema, stdin=LINES)
        assert_one_sentence(arguments, done, 2, says)


def assert_one_sentence(arguments: list[str], done: Done, code: int, *says: str) -> None:
    assert (done.code, done.stdout, done.stderr.count("\n")) == (code, "", 1), (arguments, done)
    assert done.stderr.startswith("lonnymq: ")
    assert "Traceback" not in done.stderr
    for text in says:
        assert text in done.stderr, arguments


def assert_debug_shows_where(arguments: list[str], dsn: str | None, **keywords: Any) -> None:
    """With --debug, main() lets the exception through, and Python prints its traceback."""
    with pytest.raises(Exception) as raised:
        run(*arguments, "--debug", dsn=dsn, **keywords)
    assert raised.traceback


def test_no_address() -> None:
    for arguments in WITH_DSN:
        done = run(*with_json(arguments))
        says = "pass --dsn, or set LONNYMQ_DSN, DATABASE_URL or libpq's PGHOST etc."
        assert_one_sentence(arguments, done, 3, says)
        assert_debug_shows_where(arguments, None)


def test_no_database() -> None:
    for arguments in WITH_DSN:
        done = run(*with_json(arguments), dsn=NOWHERE)
        assert_one_sentence(arguments, done, 3, "check that the database is up and that its address is right")
        assert "cret" not in done.stderr
        assert_debug_shows_where(arguments, NOWHERE)


def test_no_schema(lonnymq: Run, dsn: str) -> None:
    for arguments in (*WITH_QUEUE, *SCHEMA[1:]):
        done = lonnymq(*with_json(arguments), "--schema", "nowhere")
        assert_one_sentence(arguments, done, 4, "LonnyMQ is not installed in schema", "run `lonnymq install`")
        assert_debug_shows_where([*arguments, "--schema", "nowhere"], dsn)
    examined = lonnymq("doctor", "--schema", "nowhere")
    assert (examined.code, "run `lonnymq install`" in examined.stdout) == (4, True)


def test_a_schema_that_is_too_old_or_too_new(lonnymq: Run, conn: psycopg.Connection) -> None:
    conn.execute("UPDATE installation SET contract = 0, release = '0.0.1'")
    with conn.transaction():
        for statement in plan("new", release="99", contract=99, oldest_contract=98):
            conn.execute(statement.encode())
    for arguments in (*WITH_QUEUE, ["verify"]):
        old = lonnymq(*with_json(arguments))
        assert_one_sentence(arguments, old, 4, "has LonnyMQ 0.0.1, older than", "run `lonnymq upgrade`")
        new = lonnymq(*with_json(arguments), "--schema", "new")
        assert_one_sentence(arguments, new, 4, "upgrade the lonnymq package to >= 99")
    for arguments in (["install"], ["upgrade"]):
        assert_one_sentence(arguments, lonnymq(*arguments, "--schema", "new"), 4, "to >= 99")
    examined = lonnymq("doctor"), lonnymq("doctor", "--schema", "new")
    assert [done.code for done in examined] == [4, 4]
    assert ["lonnymq upgrade" in examined[0].stdout, "to >= 99" in examined[1].stdout] == [True, True]
    assert lonnymq("upgrade").code == lonnymq("verify").code == 0


def test_the_schema_is_taken_from_the_environment(lonnymq: Run, conn: psycopg.Connection, dsn: str) -> None:
    install(conn, "other")
    env = {"LONNYMQ_SCHEMA": "other"}
    assert lonnymq("enqueue", "7", env=env).code == 0
    assert len(lonnymq("messages", "list", "--json", env=env).records) == 1
    assert lonnymq("messages", "list", "--json").records == []


def test_a_login_without_privileges(login: Login, schema: str, conn: psycopg.Connection) -> None:
    address = login()
    name = psycopg.conninfo.conninfo_to_dict(address)["user"]
    says: tuple[str, ...]
    for arguments in WITH_QUEUE:
        done = run(*with_json(arguments), "--schema", schema, dsn=address, stdin=LINES)
        says = (
            "permission denied",
            f'grant "{name}" one of the roles "{schema}_producer", "{schema}_consumer"',
        )
        assert_one_sentence(arguments, done, 1, *says)
    for arguments in (*SCHEMA, ["install", "--roles"]):
        done = run(*with_json(arguments), "--schema", schema, dsn=address)
        says = "permission denied", f'belongs to role "{conn.info.user}"', "log in as that role"
        assert_one_sentence(arguments, done, 1, *says)
    fresh = run("install", "--schema", "fresh", dsn=address)
    says = "permission denied for database", f'GRANT CREATE ON DATABASE "{conn.info.dbname}" TO "{name}";'
    assert_one_sentence(["install"], fresh, 1, *says)
    for arguments in MEASURING:
        assert_one_sentence(
            arguments, run(*arguments, dsn=address), 1, "may not create a schema", "GRANT CREATE"
        )
    examined = run("doctor", "--schema", schema, dsn=address)
    assert (examined.code, "run doctor as the owner of the schema" in examined.stdout) == (1, True)


def test_roles_have_the_privileges_they_need(
    login: Login, schema: str, dsn: str, conn: psycopg.Connection
) -> None:
    conn.execute(f"""SELECT "{schema}".batch_open('nightly')""".encode())
    observer, producer, admin = (login(f"{schema}_{role}") for role in ("observer", "producer", "admin"))
    for arguments in PRODUCING:
        assert run(*arguments, "--schema", schema, dsn=producer, stdin=LINES).code == 0
        refused = run(*arguments, "--schema", schema, dsn=observer, stdin=LINES)
        assert_one_sentence(arguments, refused, 1, "permission denied", f'run: GRANT "{schema}_producer" TO')
    for arguments in READING:
        assert "permission denied" not in run(*arguments, "--schema", schema, dsn=observer).stderr
    for arguments in WRITING:
        assert f'GRANT "{schema}_admin" TO' in run(*arguments, "--schema", schema, dsn=observer).stderr
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


@pytest.mark.slow
def test_as_processes(queue: Queue, dsn: str) -> None:
    created = start("enqueue", '{"invoice": 7}', "--json", dsn=dsn)
    assert (created.returncode, created.stderr) == (0, b"")
    assert created.stdout == b'{"id": 1, "result": "created", "channel": "default"}\n'
    bad = start("messages", "show", "9", dsn=dsn)
    assert (bad.returncode, bad.stdout, b"Traceback" in bad.stderr) == (1, b"", False)


@pytest.mark.slow
def test_a_worker(login: Login, schema: str, dsn: str, conn: psycopg.Connection, tmp_path: Path) -> None:
    """In processes, because a worker sets up logging and signals."""
    (tmp_path / "shop.py").write_text(
        "import os\n"
        "from lonnymq import App, Queue\n"
        "app = App(Queue(os.environ['LONNYMQ_DSN'], os.environ['LONNYMQ_SCHEMA']))\n"
        "app.consume()(print)\n",
        encoding="ascii",
    )
    install(conn, "old")
    conn.execute("DROP FUNCTION old.queue_get() CASCADE")  # as in an older version without it
    for address, name, code, says in (
        (NOWHERE, schema, 3, "check that the database is up and that its address is right"),
        (dsn, "nowhere", 4, "run `lonnymq install`"),
        (dsn, "old", 4, "run `lonnymq upgrade`"),
        (login(), schema, 1, f'one of the roles "{schema}_producer", "{schema}_consumer"'),
    ):
        env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])}
        done = start("worker", "shop", "--until-empty", dsn=address, env=env | {"LONNYMQ_SCHEMA": name})
        finished = Done(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert_one_sentence(["worker"], finished, code, says)
        assert "cret" not in finished.stderr


def test_a_worker_without_an_app() -> None:
    done = run("worker", "no_such_shop")
    assert_one_sentence(["worker"], done, 2, "no module named 'no_such_shop'", "such as shop.tasks:app")
    assert_debug_shows_where(["worker", "no_such_shop"], None)
    done = run("worker", "no_such_shop", "--health-file", "/")
    assert (done.code, "Invalid value for '--health-file'" in done.stderr) == (2, True)
