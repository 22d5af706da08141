"""A password in a variable, a passfile or a service file does not appear in anything that Spark writes."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.spark.traffic import finish

CHECKOUT = Path(__file__).parents[2]
TIMEOUT_S = 500

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def canary() -> str:
    return f"canary{secrets.token_hex(8)}"


@pytest.fixture
def address(conn: psycopg.Connection, dsn: str, canary: str) -> Iterator[dict[str, str]]:
    """The address of the test's database, without the password, for a role whose password is the canary."""
    role = f"role_{secrets.token_hex(6)}"
    name, password = sql.Identifier(role), sql.Literal(canary)
    conn.execute(sql.SQL("CREATE ROLE {} SUPERUSER LOGIN PASSWORD {}").format(name, password))
    found = conninfo_to_dict(dsn)
    yield {
        "host": str(found["host"]),
        "port": str(found["port"]),
        "dbname": str(found["dbname"]),
        "user": role,
    }
    conn.execute(sql.SQL("DROP ROLE {}").format(name))


@pytest.fixture
def secret_environment(address: dict[str, str], canary: str, tmp_path: Path) -> dict[str, str]:
    """The places where a password may be, and some addresses that do not work."""
    secret = tmp_path / "secret"
    secret.mkdir(mode=0o700)
    passfile = secret / "pgpass"
    passfile.write_text(f"*:*:*:*:{canary}\n", encoding="utf-8")
    passfile.chmod(0o600)
    lines = ["[shop]", *(f"{name}={value}" for name, value in address.items()), f"password={canary}", ""]
    (secret / "services").write_text("\n".join(lines), encoding="utf-8")
    with_password = address | {"password": canary}
    return {
        "SHOP_DSN": make_conninfo(**with_password),
        "SHOP_URL": f"postgresql://{address['user']}:{quote(canary)}@{address['host']}:1/shop",
        "SHOP_BROKEN": f"postgresql://{address['user']}:{canary}@{address['host']}:port/shop",
        "SHOP_STRANGER": make_conninfo(**with_password | {"user": "nobody_here"}),
        "PGSERVICEFILE": str(secret / "services"),
    }


def test_a_canary_is_found_nowhere(
    conn: psycopg.Connection,
    address: dict[str, str],
    canary: str,
    secret_environment: dict[str, str],
    tmp_path: Path,
) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE, p_history_content => TRUE)")
    finish(conn, "a", [b"x"])
    shown, events = tmp_path / "shown", tmp_path / "events"
    shown.mkdir()
    events.mkdir()
    task = {
        "folder": str(shown),
        "session": {
            "master": "local[2]",
            "app_name": "plainword",
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_talkative(tmp_path)}",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": events.as_uri(),
            "spark.ui.enabled": "true",
            "spark.ui.port": "0",
        },
        "ways": {
            "variable": {"dsnEnv": "SHOP_DSN", "user": address["user"]},
            "service": {"service": "shop", "user": address["user"]},
            "passfile": address | {"passfile": str(tmp_path / "secret" / "pgpass")},
        },
        "wrong": {
            "host": {"dsnEnv": "SHOP_URL"},
            "address": {"dsnEnv": "SHOP_BROKEN"},
            "user": {"dsnEnv": "SHOP_STRANGER"},
            "schema": {"dsnEnv": "SHOP_DSN", "schema": "nowhere"},
        },
    }
    answer = subprocess.run(
        [sys.executable, "-m", "tests.spark.secret_driver", json.dumps(task)],
        cwd=CHECKOUT,
        env=os.environ | secret_environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-5000:]
    (shown / "log.txt").write_text(answer.stdout + answer.stderr, encoding="utf-8")
    texts = {path.name: path.read_text(encoding="utf-8") for path in shown.glob("*.txt")}
    texts |= {f"event log {path.name}": path.read_text() for path in events.rglob("*") if path.is_file()}
    assert [name for name, text in texts.items() if canary in text] == []
    _check_places(texts, address["user"])


def _talkative(folder: Path) -> str:
    """A configuration that logs everything."""
    path = folder / "log4j2.properties"
    path.write_text(
        "rootLogger.level = info\n"
        "logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer\n"
        "logger.gateway.level = info\n"
        "rootLogger.appenderRef.stderr.ref = stderr\n"
        "appender.stderr.type = Console\n"
        "appender.stderr.name = stderr\n"
        "appender.stderr.target = SYSTEM_ERR\n"
        "appender.stderr.layout.type = PatternLayout\n"
        "appender.stderr.layout.pattern = %p %c{1}: %m%n%ex\n",
        encoding="utf-8",
    )
    return path.as_uri()


def _check_places(texts: dict[str, str], user: str) -> None:
    """Public words appear in all the places where a secret could appear."""
    found = {name for name, text in texts.items() if "plainword" in text}
    assert {"page jobs .txt", "page environment .txt", "api environment.txt", "log.txt"} <= found
    assert [name for name in found if name.startswith("event log")]
    for way in ("variable", "service", "passfile"):
        assert user in texts[f"plan {way}.txt"]
    assert len([name for name in texts if name.startswith("page execution")]) >= 9
    assert "port 1 failed" in texts["error host.txt"]
    assert "SHOP_BROKEN" in texts["error address.txt"]
    assert "nobody_here" in texts["error user.txt"]
    assert "nowhere" in texts["error schema.txt"]
