"""A project whose tests use the plugin. It has its own role on the server, which owns its databases."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from lonnymq.adapters.address import parameters
from lonnymq.testing.url import url
from tests.database import AnyServer

DATABASES = "SELECT datname FROM pg_database WHERE pg_get_userbyid(datdba) = %s"
# Plugins that these runs do not use take longer to import than the runs.
NOT_USED = ("cacheprovider", "anyio", "faker", "hypothesispytest", "schemathesis")
OPTIONS = (*(word for name in NOT_USED for word in ("-p", f"no:{name}")), "-W", "error")
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Role:
    """A role of the server, and the databases that it owns."""

    server: AnyServer
    name: str
    password: str

    @property
    def dsn(self) -> str:
        return url(parameters(self.server.dsn()) | {"user": self.name, "password": self.password}, "postgres")

    @property
    def keywords(self) -> str:
        return make_conninfo(**parameters(self.dsn))

    def databases(self) -> list[str]:
        with psycopg.connect(self.server.dsn()) as admin:
            return [name for (name,) in admin.execute(DATABASES, [self.name])]


@contextmanager
def created_role(server: AnyServer, rights: str) -> Iterator[Role]:
    role = Role(server, f"tester_{secrets.token_hex(4)}", f"/@:% ?#é{secrets.token_hex(8)}")
    name = sql.Identifier(role.name)
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} {}").format(
                name,
                sql.Literal(role.password),
                sql.SQL("CREATEDB" if rights == "CREATEDB" else "NOCREATEDB"),
            )
        )
        try:
            yield role
        finally:
            for database in role.databases():
                admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(database)))
            admin.execute(sql.SQL("DROP ROLE {}").format(name))


class Project:
    """`temporary` is the folder for temporary files of its runs."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, temporary: Path) -> None:
        self.pytester = pytester
        self.folder = pytester.path
        self.temporary = temporary
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("TMPDIR", str(temporary))
        self.runs_on(None)

    def runs_on(self, dsn: str | None) -> None:
        if dsn is None:
            self._monkeypatch.delenv("LONNYMQ_TEST_DSN", raising=False)
        else:
            self._monkeypatch.setenv("LONNYMQ_TEST_DSN", dsn)

    def write(self, **modules: str) -> None:
        self.pytester.makepyfile(**modules)

    def run(self, *arguments: str) -> pytest.RunResult:
        return self.pytester.runpytest_subprocess(*OPTIONS, *arguments)

    def lines_of(self, name: str) -> list[str]:
        return (self.folder / name).read_text(encoding="utf-8").splitlines()

    def leftovers(self) -> list[Path]:
        return list(self.temporary.glob("lonnymq*"))

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Start a run, and wait until a test of it has written the file `begun`."""
        command = [*self.pytester._getpytestargs(), *OPTIONS, *arguments]
        with subprocess.Popen(
            command,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as run:
            try:
                deadline = time.monotonic() + TIMEOUT_S
                while not (self.folder / "begun").exists():
                    assert time.monotonic() < deadline, "the test does not start"
                    assert run.poll() is None, run.communicate()[0]
                    time.sleep(0.02)
                yield run
            finally:
                if run.poll() is None:
                    os.killpg(run.pid, signal.SIGKILL)


def database_of(dsn: str) -> str:
    return urlsplit(dsn).path[1:]
