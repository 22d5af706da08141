"""docs/deployment.md: unit file and manifest are valid, the probes work, roles may do what the page says."""

from __future__ import annotations

import asyncio
import configparser
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from lonnymq import App, AsyncQueue, Worker
from lonnymq.install import install
from tests.database import Connect, unique_name
from tests.examples.page import CHECKOUT, blocks

PAGE = CHECKOUT / "docs" / "deployment.md"
HEALTH_FILE = "/tmp/health.json"  # noqa: S108
LOGINS = ("shop_web", "shop_worker", "shop_metrics", "shop_ops")


def block(language: str, start: str) -> str:
    [found] = [
        each.code for each in blocks(PAGE) if each.language == language and each.code.startswith(start)
    ]
    return found


def manifest() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load(block("yaml", "apiVersion"))
    return parsed


def container() -> dict[str, Any]:
    [found] = manifest()["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def shutdown_timeout(arguments: list[str]) -> int:
    return int(arguments[arguments.index("--shutdown-timeout") + 1])


def test_every_block_is_checked() -> None:
    assert [each.language for each in blocks(PAGE)] == ["sh", "ini", "yaml", "sql", "ini", "python"]


@pytest.mark.debian("systemd")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = block("ini", "# /etc/systemd").replace(
        "/srv/shop/.venv/bin/lonnymq", shutil.which("true") or "true"
    )
    path = tmp_path / "shop-worker@1.service"
    path.write_text(unit, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", path],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    about_the_unit = [line for line in done.stderr.splitlines() if "shop-worker" in line]
    assert about_the_unit == []


def test_systemd_waits_longer_than_the_worker() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(block("ini", "# /etc/systemd"))
    timeout = shutdown_timeout(unit["Service"]["ExecStart"].split())
    assert int(unit["Service"]["TimeoutStopSec"]) == timeout + 5


def test_kubernetes_waits_longer_than_the_worker() -> None:
    pod = manifest()["spec"]["template"]
    assert pod["spec"]["terminationGracePeriodSeconds"] == shutdown_timeout(container()["args"]) + 5
    assert manifest()["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]


def test_the_probes_tell_a_running_worker_from_a_stuck_one(dsn: str, tmp_path: Path) -> None:
    health = tmp_path / "health.json"

    def passes(probe: str) -> bool:
        command = [part.replace(HEALTH_FILE, str(health)) for part in container()[probe]["exec"]["command"]]
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0

    assert not passes("livenessProbe")
    assert not passes("readinessProbe")

    async def serve_and_probe() -> None:
        async with AsyncQueue(dsn) as queue:
            app = App(queue)
            app.consume(print)
            worker = Worker(app, health_file=health)
            serving = asyncio.create_task(worker.serve())
            deadline = time.monotonic() + 20
            while not await asyncio.to_thread(passes, "readinessProbe"):
                assert time.monotonic() < deadline
            assert await asyncio.to_thread(passes, "livenessProbe")
            worker.stop()
            await serving

    asyncio.run(serve_and_probe())
    assert not passes("readinessProbe")
    os.utime(health, (time.time() - 60, time.time() - 60))
    assert not passes("livenessProbe")


def test_pgbouncer_is_set_to_transaction_pooling() -> None:
    settings = configparser.ConfigParser()
    settings.read_string(block("ini", "[databases]"))
    assert settings["pgbouncer"]["pool_mode"] == "transaction"


def test_the_app_behind_pgbouncer_can_be_made() -> None:
    names: dict[str, Any] = {}
    exec(block("python", "from lonnymq"), names)  # noqa: S102
    assert isinstance(names["app"], App)


def test_the_logins_may_do_what_the_page_says(conn: psycopg.Connection, connect: Connect) -> None:
    """Under other names, since roles belong to the whole server."""
    schema, suffix = unique_name("q"), unique_name("")
    install(conn, schema, roles=True)
    sql = block("sql", "CREATE ROLE").replace("lonnymq", schema)
    for login in LOGINS:
        sql = sql.replace(login, login + suffix)
    conn.execute(sql.encode())

    def may(login: str, call: str) -> bool:
        options = f"-c search_path={schema}"
        with connect(user=login + suffix, password="change-me", options=options) as session:  # noqa: S106
            try:
                session.execute(f"SELECT * FROM {call}".encode())
            except psycopg.errors.InsufficientPrivilege:
                return False
            return True

    allowed = {
        "message_create('acme', '')": {"shop_web", "shop_worker", "shop_ops"},
        "message_dequeue(1)": {"shop_worker", "shop_ops"},
        "queue_stats()": {"shop_metrics", "shop_ops"},
        "channel_set('acme', p_max_concurrency => 2)": {"shop_ops"},
    }
    for call, logins in allowed.items():
        assert {login for login in LOGINS if may(login, call)} == logins, call

    roles = [f"{schema}_{role}" for role in ("admin", "producer", "observer", "consumer")]
    for role in (*(login + suffix for login in LOGINS), *roles):
        conn.execute(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}".encode())
