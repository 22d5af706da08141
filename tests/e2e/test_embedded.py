"""One process and its server: where it listens, who can connect, where its data is."""

import os
import stat
import tempfile
from pathlib import Path

import psycopg
import pytest

from lonnymq.embedded import (
    BinariesMissing,
    NotRunning,
    Server,
    StartFailed,
    StillInUse,
    WrongVersion,
    binaries,
    processes,
)
from tests.e2e.programs import FAST, is_alive

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server under another account")


def value(server: Server, query: str) -> object:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def execute(server: Server, statement: str) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(statement.encode())


def test_listens_on_loopback_and_on_a_socket(data_dir: Path) -> None:
    with Server(data_dir, settings=FAST) as server:
        with psycopg.connect(server.dsn()) as over_tcp:
            assert over_tcp.info.host == "127.0.0.1"
        with psycopg.connect(server.dsn(over="socket")) as over_socket:
            assert over_socket.info.host == str(server.socket_dir)
        assert value(server, "SHOW listen_addresses") == "127.0.0.1"


def test_keeps_its_data_over_a_stop(data_dir: Path) -> None:
    with Server(data_dir, settings=FAST) as server:
        execute(server, "CREATE TABLE kept AS SELECT 42 AS answer")
        pid = server.pid
    assert not is_alive(pid)
    with Server(data_dir, settings=FAST) as server:
        assert server.pid != pid
        assert value(server, "SELECT answer FROM kept") == 42


def test_takes_settings(data_dir: Path) -> None:
    with Server(data_dir, settings={**FAST, "application_name": 'it\'s "quoted" $HOME'}) as server:
        assert value(server, "SELECT reset_val FROM pg_settings WHERE name = 'application_name'") == (
            'it\'s "quoted" $HOME'
        )


def test_says_why_it_did_not_start(data_dir: Path) -> None:
    server = Server(data_dir, settings={"max_connections": "none"})
    with pytest.raises(StartFailed, match="max_connections"):
        server.start()
    server = Server(data_dir, settings=FAST)
    server.start()
    server.stop()


def test_names_what_to_install_when_there_are_no_binaries() -> None:
    with pytest.raises(BinariesMissing, match="apt-get install postgresql-99"):
        binaries(99)


def test_has_no_address_before_it_runs_and_after(data_dir: Path) -> None:
    server = Server(data_dir, settings=FAST)
    with pytest.raises(NotRunning, match=r"call start\(\)"):
        server.dsn()
    server.start()
    server.stop()
    with pytest.raises(NotRunning):
        server.dsn()


@pytest.mark.parametrize("over", ["tcp", "socket"])
def test_refuses_a_login_without_the_password(data_dir: Path, over: str) -> None:
    with Server(data_dir, settings=FAST) as server:
        dsn = server.dsn(over="socket" if over == "socket" else "tcp")
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(dsn.replace(server.password, ""))
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(dsn.replace(server.password, "guess"))
        assert stat.S_IMODE((data_dir / "password").stat().st_mode) == 0o600


def test_every_folder_has_its_own_password(data_dir: Path) -> None:
    with tempfile.TemporaryDirectory() as other, Server(data_dir, settings=FAST) as server:
        with Server(Path(other) / "data", settings=FAST) as second:
            assert server.password != second.password
        second.erase()


def test_libpq_variables_connect_to_it(data_dir: Path) -> None:
    with Server(data_dir, settings=FAST) as server:
        variables = server.psql_env
        connection = psycopg.connect(
            host=variables["PGHOST"],
            port=variables["PGPORT"],
            user=variables["PGUSER"],
            password=variables["PGPASSWORD"],
            dbname=variables["PGDATABASE"],
        )
        connection.close()


def test_has_a_socket_even_if_the_path_is_long(data_dir: Path) -> None:
    data_dir.chmod(0o711)
    server = Server(data_dir / ("long" * 30), settings=FAST)
    with server, psycopg.connect(server.dsn(over="socket")):
        socket_dir = server.socket_dir
    assert not socket_dir.exists()
    server.erase()


def test_erases_its_folder_but_not_while_another_uses_it(data_dir: Path) -> None:
    server = Server(data_dir, settings=FAST)
    with Server(data_dir, settings=FAST) as other:
        with pytest.raises(StillInUse):
            server.erase()
        assert value(other, "SELECT 1") == 1
    server.erase()
    assert not data_dir.exists()


def test_its_processes_are_found_with_and_without_proc(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(data_dir, settings=FAST) as server:
        cluster = (data_dir / "postgres" / "data").resolve()
        assert server.pid in list(processes.of_cluster(cluster))
        assert len(list(processes.of_cluster(cluster))) > 1
        assert not processes.is_server(server.pid, data_dir)
        pid = server.pid
        monkeypatch.setattr(processes, "PROC", Path("/nonexistent"))
        assert processes.is_server(pid, cluster)
        assert not processes.is_server(pid, cluster / "other")


@as_root
def test_root_runs_it_under_another_account(data_dir: Path) -> None:
    with Server(data_dir, settings=FAST) as server:
        assert Path(f"/proc/{server.pid}").stat().st_uid != 0


@as_root
def test_root_may_keep_data_in_a_folder_that_others_cannot_read(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    server = Server(closed / "data", settings=FAST)
    with server:
        execute(server, "CREATE TABLE kept AS SELECT 42 AS answer")
        storage = (closed / "data" / "postgres").resolve()
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert closed not in storage.parents
    with Server(closed / "data", settings=FAST) as again:
        assert value(again, "SELECT answer FROM kept") == 42
    server.erase()
    assert not storage.exists()


@pytest.mark.debian("postgresql-15")
def test_uses_the_version_that_created_the_data(data_dir: Path) -> None:
    with Server(data_dir, bin_dir=binaries(15), settings=FAST):
        pass
    with Server(data_dir, settings=FAST) as server:
        assert str(value(server, "SHOW server_version")).startswith("15.")
    with pytest.raises(WrongVersion, match=r"binaries\(15\)"):
        Server(data_dir, bin_dir=binaries(18)).start()
