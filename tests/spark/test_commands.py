"""The commands `lonnymq spark ...`, run as a user runs them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from tests.cli.running import run as run_here
from tests.spark.traffic import complete, finish, kill

Done = subprocess.CompletedProcess[str]
NOWHERE = "postgresql://someone:s3cret@127.0.0.1:1/db"
# Runs several commands in one process, with one Spark session: each line on stdin has the arguments of one.
SEVERAL = """
import contextlib, io, json, sys
from unittest import mock
from pyspark.sql import SparkSession
from lonnymq.cli import main
mock.patch.object(SparkSession, "stop").start()
for line in sys.stdin:
    sys.argv[1:] = ["spark", *json.loads(line)]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""
Run = Callable[..., Done]


def environment(dsn: str | None) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LONNYMQ_", "DATABASE_URL"))}
    return clean | {"NO_COLOR": "1"} | ({} if dsn is None else {"LONNYMQ_DSN": dsn})


def run(*arguments: str, dsn: str | None = None) -> Done:
    return subprocess.run(
        [sys.executable, "-m", "lonnymq", "spark", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment(dsn),
    )


@pytest.fixture
def run_several(dsn: str, tmp_path: Path) -> Iterator[Run]:
    """Like run(), but all commands share a process and a Spark session."""
    with subprocess.Popen(
        [sys.executable, "-c", SEVERAL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(dsn),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def call(*arguments: str) -> Done:
            stdin.write(json.dumps(arguments) + "\n")
            stdin.flush()
            code, out, err = json.loads(stdout.readline())
            return Done(list(arguments), code or 0, out, err)

        yield call
        stdin.close()


@pytest.mark.slow
@pytest.mark.cluster
def test_from_a_file_through_the_queue_into_the_lake_and_back(
    conn: psycopg.Connection, run_several: Run, tmp_path: Path
) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE, p_history_content => TRUE)")
    orders = tmp_path / "orders.jsonl"
    orders.write_text('{"tenant": "acme", "n": 1}\n{"tenant": "zoë", "n": 2}\n', encoding="utf-8")
    loaded = run_several("load", str(orders), "--channel-column", "tenant", "--json")
    assert loaded.returncode == 0, loaded.stderr
    assert json.loads(loaded.stdout) == {"created": 2, "duplicates": 0, "refused": 0, "is_repeat": False}
    complete(conn)
    kill(conn, "doomed", [b"x"])
    archived = run_several("archive", "lake", "--json")
    assert archived.returncode == 0, archived.stderr
    lake = str(tmp_path / "lake")
    found = json.loads(archived.stdout)
    assert found["lake"] == lake
    assert {table["table"]: table["rows"] for table in found["tables"]} == {
        "history": 3,
        "dead": 1,
        "policies": 2,
        "waiting": 0,
    }
    assert {table["begins_at"] for table in found["tables"]} == {None}
    page = tmp_path / "report.html"
    reported = run_several("report", "--lake", "lake", "--html", str(page))
    assert reported.returncode == 0, reported.stderr
    assert "zoë" in reported.stdout
    assert "zoë" in page.read_text(encoding="utf-8")
    replayed, again = (
        run_several("replay", "--lake", lake, "--dead", "--into", "again", "--once", "now") for _ in range(2)
    )
    assert (replayed.returncode, replayed.stdout) == (0, "Enqueued 1 messages again\n"), replayed.stderr
    assert again.stdout.startswith("Enqueued nothing now: 'now' was done before. Its first run:\n")
    assert conn.execute("SELECT channel, content FROM message").fetchall() == [("again", b"x")]
    unreachable = run_several("archive", "elsewhere", "--dsn", NOWHERE)
    assert unreachable.returncode == 3, unreachable.stderr
    assert "s3cret" not in unreachable.stdout + unreachable.stderr
    orders.write_text('{"channel": null, "content": "x"}\n', encoding="utf-8")
    refused = run_several("load", str(orders))
    assert refused.returncode == 1
    assert "channel" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.cluster
def test_an_archive_of_a_trimmed_history_says_when_it_begins(
    conn: psycopg.Connection, dsn: str, tmp_path: Path
) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE)")
    finish(conn, "acme", [b"old"])
    conn.execute("UPDATE finished SET finished_at = finished_at - 90 * 86400000::BIGINT")
    conn.execute("SELECT maintain()")
    finish(conn, "acme", [b"x"])
    [(oldest,)] = conn.execute("SELECT MIN(finished_at) FROM history").fetchall()
    archived = run("archive", str(tmp_path / "lake"), dsn=dsn)
    assert archived.returncode == 0, archived.stderr
    at = datetime.fromtimestamp(oldest / 1000, UTC).isoformat(timespec="milliseconds")
    assert f"it begins at {at}: older history had already been dropped" in archived.stdout


@pytest.mark.slow
@pytest.mark.long  # the first test has this error too, beside what Spark writes
@pytest.mark.cluster
def test_an_error_is_one_sentence(tmp_path: Path) -> None:
    unreachable = run("archive", str(tmp_path / "lake"), dsn=NOWHERE)
    assert unreachable.returncode == 3, unreachable.stderr
    assert "s3cret" not in unreachable.stdout + unreachable.stderr
    assert len(unreachable.stderr.strip().splitlines()) == 1, unreachable.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["load", "x.parquet"], 3, "no database given"),
        (["load", "x.parquet", "--format", "xml", "--dsn", "dbname=x"], 2, "xml"),
        (["archive", "lake", "--conf", "nonsense", "--dsn", "dbname=x"], 1, "write --conf name=value"),
        (["archive", "lake", "--rows-per-commit", "0"], 2, "--rows-per-commit"),
        (["report", "--until", "0001-01-01", "--dsn", "dbname=x"], 2, "0001-01-01 00:00:00 is too far away"),
    ],
)
def test_bad_input_is_refused_before_spark_starts(arguments: list[str], code: int, expected: str) -> None:
    done = run_here("spark", *arguments)
    assert done.code == code
    assert expected in done.stderr


def test_every_command_has_an_example() -> None:
    for command in ("load", "archive", "optimize", "expire", "report", "replay"):
        assert f"Example: lonnymq spark {command}" in " ".join(
            run_here("spark", command, "--help").stdout.split()
        )
