"""Runs each program of examples/ as a reader would, and checks what it prints and leaves in the database."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import make_url

from lonnymq import Queue
from tests.database import unique_name

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_python(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=EXAMPLES,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def output_of(name: str, *arguments: str, **variables: str) -> list[str]:
    done = run_python(EXAMPLES / name, *arguments, **variables)
    assert done.stderr == ""
    return done.stdout.splitlines()


def load_module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def rows(dsn: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as conn:
        return conn.execute(query).fetchall()


def test_every_example_is_run_here() -> None:
    with_spark = Path(__file__).parents[1] / "spark"
    tests = (Path(__file__), with_spark / "test_pipeline.py", with_spark / "test_notebook.py")
    here = "".join(path.read_text(encoding="utf-8") for path in tests)
    for path in EXAMPLES.iterdir():
        if path.suffix == ".py" or (path.is_dir() and path.name != "__pycache__"):
            assert path.name in here, f"nothing runs {path.name}"


def test_the_address_can_come_from_the_environment(dsn: str) -> None:
    assert output_of("typed_payloads.py", LONNYMQ_DSN=dsn)


def test_a_row_and_its_message_in_a_session(dsn: str) -> None:
    assert output_of("sqlalchemy_session.py", dsn) == [
        "committed: invoice 1, 1 message",
        "rolled back: 0 invoices, 0 messages",
        "send invoice 1 to acme",
    ]
    assert rows(dsn, "SELECT customer, euros FROM invoice") == [("acme", 250)]
    assert rows(dsn, "SELECT * FROM lonnymq.messages") == []


def test_a_handler_of_fastapi_run_as_a_program(dsn: str) -> None:
    assert output_of("fastapi_handler.py", dsn) == [
        "201 {'purchase': 1, 'left': 1} waiting: 1",
        "409 {'detail': 'not enough of lamp left'} waiting: 1",
    ]


def test_a_handler_of_fastapi(dsn: str) -> None:
    with TestClient(load_module("fastapi_handler").make_app(dsn)) as client, Queue(dsn) as queue:

        def buy(pieces: int) -> int:
            wanted = {"customer": "acme", "article": "lamp", "pieces": pieces}
            return int(client.post("/purchases", json=wanted).status_code)

        assert buy(4) == 409
        assert queue.dequeue(10) == []
        assert rows(dsn, "SELECT article, pieces FROM purchase") == []

        assert buy(3) == 201
        [message] = queue.dequeue(10)
        assert (message.channel, message.payload) == ("acme", {"ship": 2})
        assert rows(dsn, "SELECT id, article, pieces FROM purchase") == [(2, "lamp", 3)]
        assert rows(dsn, "SELECT pieces FROM stock") == [(0,)]

        assert buy(1) == 409
        assert queue.dequeue(10) == []


def test_a_handler_of_litestar(dsn: str) -> None:
    assert output_of("litestar_handler.py", dsn) == [
        "201 {'invoice': 1} waiting: 1",
        "402 {'status_code': 402, 'detail': 'credit refused'} waiting: 1",
    ]
    assert rows(dsn, "SELECT customer, euros FROM invoice") == [("acme", 250)]


def test_a_model_and_its_message_in_atomic(dsn: str) -> None:
    assert output_of("django_atomic.py", dsn) == [
        "committed: invoice 1, 1 message",
        "rolled back: 0 invoices, 0 messages",
        "acme: completed",
    ]
    assert rows(dsn, "SELECT customer, euros FROM shop_invoice") == [("acme", 500)]
    assert rows(dsn, "SELECT * FROM lonnymq.messages") == []


def test_a_result_and_its_completion(dsn: str) -> None:
    assert output_of("complete_with_business_write.py", dsn) == [
        "after the crash: receipts [], messages 1",
        "after the second attempt: receipts [(7, 2)], messages 0",
    ]
    assert rows(dsn, "SELECT invoice, attempt FROM receipt") == [(7, 2)]
    assert rows(dsn, "SELECT * FROM lonnymq.messages") == []


def test_a_result_whose_lease_ran_out_is_undone(dsn: str) -> None:
    example = load_module("complete_with_business_write")
    with psycopg.connect(dsn) as conn, Queue(dsn) as queue:
        conn.execute(example.TABLE)
        conn.commit()
        queue.enqueue({"invoice": 7})
        [late] = queue.dequeue(lease=0.001)
        [current] = queue.dequeue(wait=10)
        with pytest.raises(example.LeaseLost):
            example.collect(dsn, queue, late)
        assert example.receipts(dsn) == []
        example.collect(dsn, queue, current)
        assert example.receipts(dsn) == [(7, 2)]


def test_chained_batches(dsn: str) -> None:
    """A callback that is repeated does not open the next batch again."""
    assert output_of("chained_batches.py", dsn) == [
        "rows: 6 of 6 completed, 0 dead",
        "report for acme: 3 rows",
        "report for bluebird: 3 rows",
        "reports: 2 of 2 completed, 0 dead",
    ]
    with Queue(dsn) as queue:
        assert [(found.name, found.status) for found in queue.batches()] == [
            ("reports", "finished"),
            ("rows", "finished"),
        ]


def test_a_load_of_many_messages(dsn: str) -> None:
    assert output_of("bulk_load.py", dsn) == [
        "one transaction, row 7000 is broken",
        "  5000 so far, 0 already there",
        "nothing was loaded: 0 messages wait",
        "one transaction per chunk, row 7000 is broken",
        "  5000 so far, 0 already there",
        "the chunk before it was loaded: 5000 messages wait",
        "the same load again, with the row repaired",
        "  5000 so far, 5000 already there",
        "  10000 so far, 5000 already there",
        "  12000 so far, 5000 already there",
        "7000 were new: 12000 messages wait",
    ]
    assert rows(dsn, "SELECT COUNT(*), COUNT(DISTINCT id) FROM lonnymq.messages") == [(12_000, 12_000)]


def test_typed_payloads(dsn: str) -> None:
    broken = "the content is not application/json for Order: Expected `int`, got `str` - at `$.pieces`"
    kept = f"lonnymq.errors.BrokenContent: {broken}"
    said = output_of("typed_payloads.py", dsn)
    assert sorted(said[:3]) == [
        "Order(article='lamp', pieces=2)",
        "Refund(invoice=7, on=datetime.date(2030, 1, 31))",
        "invoice=7 euros=250",
    ]
    assert said[3:] == [
        f"attempt 1 retried: {broken}",
        f"attempt 2 dead: {broken}",
        "dead after 2 attempts, and kept: {'article': 'lamp', 'pieces': 'two'}",
    ]
    assert rows(dsn, "SELECT channel, attempts, error FROM lonnymq.dead_letters") == [("orders", 2, kept)]


def test_the_tests_of_the_saas_example_pass(dsn: str) -> None:
    """They need a server on which they may create databases; the test's own server is one."""
    done = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--lonnymq-dsn={dsn}", "saas")
    assert "10 passed" in done.stdout


def test_the_saas_example_in_processes_of_its_own(dsn: str) -> None:
    request = (
        "from fastapi.testclient import TestClient; from saas.web import api; "
        "TestClient(api).post('/documents', json={'text': 'one two'}, headers={'X-Tenant': 'acme'})"
    )
    run_python("-m", "saas.install", DATABASE_URL=dsn)
    run_python("-c", request, DATABASE_URL=dsn)
    run_python("-m", "lonnymq", "worker", "saas.tasks:app", "--until-empty", DATABASE_URL=dsn)
    assert rows(dsn, "SELECT tenant, words FROM document") == [("acme", 2)]
    assert rows(dsn, "SELECT * FROM lonnymq.messages") == []


@pytest.mark.long  # the test before starts its processes, and tests/worker kills workers
def test_the_saas_example_while_its_workers_are_killed(dsn: str) -> None:
    """The web service and the workers have logins of their own."""
    web, worker = unique_name("saas_web"), unique_name("saas_worker")
    addresses = {
        "WEB_DATABASE_URL": make_url(dsn).set(username=web, password=web),
        "WORKER_DATABASE_URL": make_url(dsn).set(username=worker, password=worker),
    }
    variables = {name: url.render_as_string(hide_password=False) for name, url in addresses.items()}
    try:
        for _ in range(2):  # at every deployment
            run_python("-m", "saas.install", DATABASE_URL=dsn, **variables)
        variables["DATABASE_URL"] = variables["WEB_DATABASE_URL"]
        done = run_python("-m", "saas.kill_workers", "300", "4", **variables)
        assert "every document was counted exactly once" in done.stdout
        assert rows(dsn, "SELECT count(*) FROM charge") == [(300,)]
        assert rows(dsn, "SELECT * FROM lonnymq.dead_letters") == []
    finally:
        with psycopg.connect(dsn) as conn:
            for login in (web, worker):
                conn.execute(f"DROP OWNED BY {login}; DROP ROLE {login}".encode())
